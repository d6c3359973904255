import assert from "node:assert/strict";
import { test } from "node:test";
import { createLeaving } from "../../js/flows/leaving.js";
import { createLists } from "../../js/flows/lists.js";
import { draftOf } from "../../js/state/drafts.js";
import { pageOf } from "../../js/state/turns.js";
import { AGENT, pageWith, refusal, serverThat, settled, storeAt, TALK, turnOf } from "./server.js";

const SYSTEM = "00000000-0000-4000-8000-0000000000a0";

function page(server) {
  const store = storeAt();
  const navigation = { go: (agentId, conversationId) => store.dispatch({ type: "view/opened", agentId, conversationId }) };
  store.dispatch({ type: "agents/loaded", items: [{ agent_id: SYSTEM, system: true }, { agent_id: AGENT }] });
  createLeaving({ store, navigation }).watch();
  return { store, lists: createLists({ store, api: server }) };
}

test("a Conversation that was deleted elsewhere is left, and the draft comes along", async () => {
  let deleted = false;
  const { store, lists } = page(
    serverThat(() => {
      if (deleted) throw refusal("not_found");
      return pageWith([turnOf("a")]);
    }),
  );
  await lists.loadPage(AGENT, TALK);
  store.dispatch({ type: "draft/typed", key: TALK, text: "mine" });
  store.dispatch({ type: "draft/typed", key: `new:${AGENT}`, text: "before" });
  deleted = true;
  await lists.loadPage(AGENT, TALK);
  await settled();
  const state = store.get();
  assert.equal(state.view.conversationId, null);
  assert.equal(draftOf(state, `new:${AGENT}`).text, "before\n\nmine");
  assert.equal(state.view.notices[`new:${AGENT}`].key, "conversation.gone_kept");
  assert.equal(pageOf(state, TALK).turns.length, 0);
});

test("an Agent that was deleted elsewhere is left for the system's", async () => {
  const { store } = page(serverThat(() => ({})));
  store.dispatch({ type: "agents/loaded", items: [{ agent_id: SYSTEM, system: true }] });
  await settled();
  assert.equal(store.get().view.agentId, SYSTEM);
  assert.equal(store.get().view.notices[`new:${SYSTEM}`].key, "agent.gone");
});

test("a page that could not be read for another reason stays", async () => {
  const { store, lists } = page(
    serverThat(() => {
      throw refusal("network");
    }),
  );
  await lists.loadPage(AGENT, TALK);
  await settled();
  assert.equal(store.get().view.conversationId, TALK);
});
