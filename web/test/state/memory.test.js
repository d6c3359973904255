import assert from "node:assert/strict";
import { test } from "node:test";
import { KEPT_CONVERSATIONS } from "../../js/state/memory.js";
import { initialState, reduce } from "../../js/state/root.js";
import { completed, event } from "../events.js";

const fold = (actions) => actions.reduce(reduce, initialState());
const visit = (id) => [
  { type: "view/opened", agentId: "agent", conversationId: id },
  { type: "page/loaded", agentId: "agent", conversationId: id, answer: { conversation: { conversation_id: id }, turns: [], page: {} } },
  { type: "preview/loaded", conversationId: id, preview: {} },
  { type: "run/event", envelope: { ...event(1, "run.started"), conversation_id: id, run_id: `run-${id}` } },
];
const held = ({ pages, runs, gateway }) => [Object.keys(pages), Object.keys(runs), Object.keys(gateway.previews)].map((keys) => keys.length);

test("of many Conversations the last ones are kept, and the Runs that go on", () => {
  const ids = Array.from({ length: KEPT_CONVERSATIONS + 3 }, (_, index) => `c${index}`);
  const full = fold(ids.flatMap(visit));
  assert.deepEqual(held(full), [ids.length, ids.length, ids.length]);
  const kept = reduce(full, { type: "memory/kept", conversationIds: full.view.recent, runIds: ["run-c0"] });
  assert.deepEqual(held(kept), [KEPT_CONVERSATIONS, KEPT_CONVERSATIONS + 1, KEPT_CONVERSATIONS]);
  assert.ok(kept.runs["run-c0"] && kept.pages.c3 && !kept.pages.c2);
  const again = reduce(kept, { type: "memory/kept", conversationIds: kept.view.recent, runIds: ["run-c0"] });
  assert.equal(again.pages, kept.pages);
  assert.equal(again.runs, kept.runs);
});

test("coming back to a Conversation keeps it among the last ones", () => {
  const ids = Array.from({ length: KEPT_CONVERSATIONS }, (_, index) => `c${index}`);
  const { view } = fold([...ids, "c0", "new"].flatMap((id) => visit(id)));
  assert.deepEqual(view.recent.slice(0, 2), ["new", "c0"]);
  assert.ok(!view.recent.includes("c1"));
});

test("a deleted Conversation takes along all that was read of it", () => {
  const state = reduce(fold(visit("a")), { type: "conversation/removed", agentId: "agent", conversationId: "a" });
  assert.deepEqual(held(state), [0, 0, 0]);
});

test("a decided permission leaves nothing behind, whoever decided it", () => {
  const asked = event(2, "permission.requested", { permission_id: "p", call_id: "c", tool_id: "t", preview: "" });
  const known = [{ type: "permission/asked", envelope: asked }, { type: "permission/loaded", permission: { permission_id: "p", diff: "long" } }];
  for (const action of [{ type: "permission/gone", permissionId: "p" }, { type: "run/event", envelope: completed(9) }, { type: "run/event", envelope: event(3, "permission.resolved", { permission_id: "p" }) }]) {
    assert.deepEqual(reduce(fold(known), action).permissions.full, {});
  }
});
