import assert from "node:assert/strict";
import test from "node:test";
import { initialState, reduce } from "../../js/state/root.js";
import { delegates, delegationMark, otherAgent, subagentsOf } from "../../js/state/subagents.js";

const CHILD = { agent_id: "bob", agent_name: "Bob", conversation_id: "c-2", deleted: false };
const going = (changes = {}) => ({ task_id: "t-1", run_id: "r-1", state: "running", child: CHILD, mailbox: [], created_at: "x", ...changes });
const loaded = (state, ...items) => reduce(state, { type: "subagents/loaded", conversationId: "c-1", items });

function shown() {
  const answer = { conversation: {}, turns: [{ turn_id: "u-1", run_id: "r-1", state: "running", user_text: "x" }], page: {} };
  const state = reduce(initialState(), { type: "view/opened", agentId: "a", conversationId: "c-1" });
  return reduce(state, { type: "page/loaded", agentId: "a", conversationId: "c-1", answer });
}

function told(state, seq, type, payload) {
  const envelope = { seq, type, run_id: "r-1", turn_id: "u-1", agent_id: "a", conversation_id: "c-1", time: "2026-01-01T00:00:00Z", payload };
  return reduce(state, { type: "run/event", envelope });
}

const proposed = (state, tool = "agent/delegate") => told(state, 1, "tool.call.proposed", { call_id: "k", tool_id: tool, preview: "{}", written_as_text: false });
const started = (state, tool) => told(proposed(state, tool), 2, "tool.call.started", { call_id: "k", tool_id: tool ?? "agent/delegate" });

test("a chain that says the same is the same, item by item", () => {
  const first = loaded(initialState(), going(), going({ task_id: "t-2" }));
  assert.equal(loaded(first, going(), going({ task_id: "t-2" })), first);
  const next = loaded(first, going(), going({ task_id: "t-2", state: "completed" }));
  assert.equal(subagentsOf(next, "c-1")[0], subagentsOf(first, "c-1")[0]);
  assert.equal(subagentsOf(next, "c-1")[1].state, "completed");
});

test("it goes with its Conversation and with what is forgotten", () => {
  const state = loaded(initialState(), going());
  assert.deepEqual(reduce(state, { type: "conversation/removed", agentId: "a", conversationId: "c-1" }).subagents, {});
  assert.deepEqual(reduce(state, { type: "memory/kept", conversationIds: [], runIds: [] }).subagents, {});
});

test("only a delegation that has begun is worth a look", () => {
  assert.equal(delegationMark(shown()), "");
  assert.equal(delegationMark(proposed(shown())), "");
  assert.equal(delegationMark(started(shown(), "exec/run")), "");
  const begun = started(shown());
  assert.equal(delegationMark(begun), " k started");
  assert.equal(delegates(begun), true);
});

test("it is looked at again until call and chain have ended", () => {
  const finish = (outcome) => told(started(shown()), 3, "tool.call.finished", { call_id: "k", tool_id: "agent/delegate", outcome, receipt: {} });
  assert.equal(delegates(finish("ok")), false);
  assert.equal(delegationMark(finish("failed")), " k finished");
  assert.equal(delegationMark(finish("refused")), "");
  assert.equal(delegates(loaded(finish("ok"), going())), true);
  assert.equal(delegates(loaded(finish("ok"), going({ state: "completed" }))), false);
});

test("the other Agent waits for the operator only while it is asked, and may be gone", () => {
  const state = reduce(initialState(), { type: "agents/loaded", items: [{ agent_id: "bob", name: "Bob", waiting: 1 }] });
  assert.equal(otherAgent(state, going()), "waits");
  assert.equal(otherAgent(state, going({ state: "completed" })), "there");
  assert.equal(otherAgent(initialState(), going()), "there");
  assert.equal(otherAgent(reduce(state, { type: "agent/removed", agentId: "bob" }), going()), "deleted");
  assert.equal(otherAgent(state, going({ child: { ...CHILD, deleted: true } })), "deleted");
});
