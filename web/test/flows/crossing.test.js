import assert from "node:assert/strict";
import { test } from "node:test";
import { createLists } from "../../js/flows/lists.js";
import { listOf } from "../../js/state/conversations.js";
import { pendingOf } from "../../js/state/permissions.js";
import { AGENT, gate, serverThat, storeAt, TALK } from "./server.js";

/** A list that is asked for, then changed by `change` while its first answer is still on its way. */
async function crossed(read, before, after, change) {
  const way = gate();
  const store = storeAt();
  let asked = 0;
  const server = serverThat(async () => {
    asked += 1;
    if (asked > 1) return { items: after };
    await way.opened;
    return { items: before };
  });
  const lists = createLists({ store, api: server });
  await prepare(store);
  const reading = lists[read](AGENT);
  change(store);
  way.open();
  await reading;
  return { state: store.get(), asked };
}

async function prepare(store) {
  store.dispatch({ type: "permissions/loaded", agentId: AGENT, items: [question] });
  store.dispatch({ type: "conversations/loaded", agentId: AGENT, items: [talk] });
  store.dispatch({ type: "agents/loaded", items: [{ agent_id: AGENT }] });
}

const question = { permission_id: "p", run_id: "run", state: "pending" };
const talk = { conversation_id: TALK, title: "T", updated_at: "2026-01-01T00:00:00Z", revision: 1, running_run_id: "run" };
const fresh = { agent_id: "fresh", name: "fresh" };

test("a question that was decided meanwhile does not come back", async () => {
  const { state } = await crossed("loadPermissions", [question], [], (store) => store.dispatch({ type: "permission/gone", permissionId: "p" }));
  assert.deepEqual(pendingOf(state.permissions, AGENT), []);
});

test("a Conversation that was deleted meanwhile does not come back", async () => {
  const { state } = await crossed("loadConversations", [talk], [], (store) => store.dispatch({ type: "conversation/removed", agentId: AGENT, conversationId: TALK }));
  assert.deepEqual(listOf(state, AGENT).items, []);
});

test("a Run that ended meanwhile is not marked as running again", async () => {
  const ended = { ...talk, running_run_id: null };
  const { state } = await crossed("loadConversations", [talk], [ended], (store) => store.dispatch({ type: "run/over", runId: "run" }));
  assert.equal(listOf(state, AGENT).items[0].running_run_id, null);
});

test("an Agent that was made meanwhile does not disappear", async () => {
  const { state } = await crossed("loadAgents", [{ agent_id: AGENT }], [{ agent_id: AGENT }, fresh], (store) => store.dispatch({ type: "agent/upserted", agent: fresh }));
  assert.deepEqual(state.agents.items.map((agent) => agent.agent_id), [AGENT, "fresh"]);
});

test("an answer that crossed with nothing is taken at once", async () => {
  const { asked } = await crossed("loadConversations", [talk], [], () => {});
  assert.equal(asked, 1);
});

test("each refresh reads the models, so that one that went away is told, and what is the same is drawn once", async () => {
  const store = storeAt();
  let available = true;
  const server = serverThat((_, path) => (path === "/api/models" ? { items: [{ model_id: "m", available }] } : path === "/health" ? { status: "ready" } : { items: path === "/api/agents" ? [{ agent_id: AGENT }] : [] }));
  const lists = createLists({ store, api: server });
  await lists.refresh();
  const known = store.get();
  await lists.refresh();
  assert.equal(store.get(), known);
  available = false;
  await lists.refresh();
  assert.equal(store.get().gateway.models.items[0].available, false);
});

const file = (path, more = {}) => ({ path, bytes: 1, attachable: true, ...more });
const paths = (store) => store.get().gateway.files[AGENT].map((each) => each.path);

test("a chosen file stays known beyond the end of a cut list, and no longer than it exists", async () => {
  const store = storeAt();
  const load = (items, truncated) => store.dispatch({ type: "files/loaded", agentId: AGENT, items, truncated });
  load([file("a"), file("b")], true);
  store.dispatch({ type: "files/offered", agentId: AGENT, file: file("far") });
  assert.deepEqual(paths(store), ["far", "a", "b"]);
  load([file("a"), file("c")], true);
  assert.deepEqual(paths(store), ["far", "a", "c"]);
  load([file("a"), file("far")], true);
  assert.deepEqual(paths(store), ["a", "far"]);
  store.dispatch({ type: "files/offered", agentId: AGENT, file: file("far") });
  load([file("a")], false);
  assert.deepEqual(paths(store), ["a"]);
});
