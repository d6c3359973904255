import assert from "node:assert/strict";
import { test } from "node:test";
import { createApproving } from "../../js/flows/approving.js";
import { createOrganising } from "../../js/flows/organising.js";
import { AGENT, gate, OTHER, refusal, serverThat, storeAt, TALK } from "./server.js";

function pageOn(answer) {
  const store = storeAt();
  const visited = [];
  const go = (agentId, conversationId) => {
    visited.push(conversationId);
    store.dispatch({ type: "view/opened", agentId, conversationId });
  };
  const api = serverThat(answer);
  const app = { store, api, navigation: { go }, lists: { loadPermissions() {} }, words: { t: (key) => key } };
  return { store, visited, go, organising: createOrganising(app), approving: createApproving(app) };
}

const made = { conversation_id: "made", title: "T" };

for (const [name, leaves, expected] of [["who waits is taken to it", false, ["made"]], ["who went on reading elsewhere stays there", true, [OTHER]]]) {
  test(`a branch is made, and ${name}`, async () => {
    const way = gate();
    const page = pageOn(() => way.opened.then(() => made));
    const branched = page.organising.branch(AGENT, TALK);
    if (leaves) page.go(AGENT, OTHER);
    way.open();
    await branched;
    assert.deepEqual(page.visited, expected);
    assert.equal(page.store.get().view.notices.made.key, "conversation.branched");
  });
}

test("a refusal is told where it was asked for", async () => {
  const way = gate();
  const page = pageOn(async () => {
    await way.opened;
    throw refusal("permission_stale");
  });
  const asked = [page.organising.branch(AGENT, TALK), page.approving.decide(AGENT, "p", "approve")];
  page.go(AGENT, OTHER);
  way.open();
  await Promise.all(asked);
  assert.deepEqual(Object.keys(page.store.get().view.notices), [TALK]);
});
