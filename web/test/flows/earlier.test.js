import assert from "node:assert/strict";
import { test } from "node:test";
import { createLists } from "../../js/flows/lists.js";
import { pageOf } from "../../js/state/turns.js";
import { AGENT, pageWith, refusal, serverThat, storeAt, TALK, turnOf } from "./server.js";

const PAGE = 32;

/** A Conversation of `count` Turns whose cursors end with each rename, as the server's do. */
function conversation(count) {
  const talk = { count, revision: 1 };
  talk.server = serverThat((_, path) => {
    const cursor = new URLSearchParams(path.split("?")[1]).get("before");
    const [revision, end] = cursor ? cursor.split(".").map(Number) : [talk.revision, talk.count];
    if (revision !== talk.revision) throw refusal("invalid_session_cursor");
    const first = Math.max(0, end - PAGE);
    return pageWith(Array.from({ length: end - first }, (_each, index) => turnOf(`t${first + index}`)), first ? `${talk.revision}.${first}` : null);
  });
  return talk;
}

for (const more of [0, 1, 5, 31, 32, 40]) {
  test(`after a rename and ${more} more Turns, all 100 come, each once and in order`, async () => {
    const talk = conversation(100);
    const store = storeAt();
    const lists = createLists({ store, api: talk.server });
    await lists.loadPage(AGENT, TALK);
    for (let number = 100; number < 100 + more; number += 1) store.dispatch({ type: "turn/accepted", agentId: AGENT, conversationId: TALK, turn: turnOf(`t${number}`) });
    talk.count += more;
    talk.revision += 1;
    while (pageOf(store.get(), TALK).before) await lists.loadEarlier(AGENT, TALK);
    assert.deepEqual(pageOf(store.get(), TALK).turns.map((turn) => turn.turn_id), Array.from({ length: 100 + more }, (_, index) => `t${index}`));
  });
}

test("Turns that another tab added meanwhile do not come in above", async () => {
  const talk = conversation(40);
  const store = storeAt();
  const lists = createLists({ store, api: talk.server });
  await lists.loadPage(AGENT, TALK);
  Object.assign(talk, { count: 43, revision: 2 });
  while (pageOf(store.get(), TALK).before) await lists.loadEarlier(AGENT, TALK);
  assert.deepEqual(pageOf(store.get(), TALK).turns.map((turn) => turn.turn_id), Array.from({ length: 40 }, (_, index) => `t${index}`));
});
