import assert from "node:assert/strict";
import { test } from "node:test";
import { agents, firstAgent, isSettling } from "../../js/state/agents.js";
import { conversations, groupByAge } from "../../js/state/conversations.js";
import { noPermissions, pendingOf, permissions } from "../../js/state/permissions.js";
import { completed, event } from "../events.js";

const talk = (id, more = {}) => ({ conversation_id: id, title: id, updated_at: "2026-01-01T00:00:00Z", revision: 1, ...more });
const loaded = (items) => conversations({}, { type: "conversations/loaded", agentId: "agent", items });

test("a list that reads the same is the same object", () => {
  const state = loaded([talk("a")]);
  assert.equal(conversations(state, { type: "conversations/loaded", agentId: "agent", items: [talk("a")] }), state);
  const known = agents(undefined, { type: "agents/loaded", items: [{ agent_id: "a" }] });
  assert.equal(agents(known, { type: "agents/loaded", items: [{ agent_id: "a" }] }).items, known.items);
});

test("an accepted Turn marks its Conversation as running and moves it up", () => {
  const state = conversations(loaded([talk("a"), talk("b")]), { type: "turn/accepted", agentId: "agent", conversationId: "b", turn: { run_id: "run" } });
  assert.deepEqual(state.agent.items.map((item) => [item.conversation_id, item.running_run_id]), [["b", "run"], ["a", undefined]]);
});

test("the terminal takes the mark away", () => {
  const state = conversations(loaded([talk("a", { running_run_id: "run" })]), { type: "run/event", envelope: completed(3) });
  assert.equal(state.agent.items[0].running_run_id, null);
});

test("a renamed Conversation keeps its place, a new one comes first", () => {
  let state = loaded([talk("a"), talk("b")]);
  state = conversations(state, { type: "conversation/upserted", agentId: "agent", conversation: talk("b", { title: "B" }) });
  state = conversations(state, { type: "conversation/upserted", agentId: "agent", conversation: talk("c") });
  assert.deepEqual(state.agent.items.map((item) => item.title), ["c", "a", "B"]);
});

test("ages follow midnight, not hours", () => {
  const now = new Date(2026, 5, 15, 0, 30).getTime();
  const at = (...parts) => new Date(...parts).toISOString();
  const items = [at(2026, 5, 15, 0, 10), at(2026, 5, 14, 23, 50), at(2026, 5, 9), at(2026, 4, 20), at(2025, 1, 1)].map((updated_at, index) => talk(String(index), { updated_at }));
  assert.deepEqual(groupByAge(items, now).map((group) => group.label), ["today", "yesterday", "week", "month", "older"]);
});

test("the remembered Agent comes first, else the system's", () => {
  const items = [{ agent_id: "x" }, { agent_id: "s", system: true }];
  assert.equal(firstAgent(items, "x").agent_id, "x");
  assert.equal(firstAgent(items, "gone").agent_id, "s");
  assert.equal(firstAgent([], null), null);
});

test("only some phases keep messages away", () => {
  const settling = ["creating", "ready", "running", "draining", "upgrading", "deleting", "incomplete", "damaged"].filter((phase) => isSettling({ phase }));
  assert.deepEqual(settling, ["creating", "draining", "upgrading", "deleting", "damaged"]);
  assert.equal(isSettling(null), false);
});

const request = event(3, "permission.requested", { permission_id: "p", call_id: "c", tool_id: "file/edit", preview: "", truncated: false });
const asked = permissions(noPermissions, { type: "permission/asked", envelope: request });

test("an event and a list that tell of the same permission show one card", () => {
  assert.equal(permissions(asked, { type: "permission/asked", envelope: request }), asked);
  const listed = permissions(asked, { type: "permissions/loaded", agentId: "agent", items: [{ permission_id: "p", run_id: "run", state: "pending" }, { permission_id: "q", run_id: "run", state: "denied" }] });
  assert.deepEqual(pendingOf(listed, "agent").map((item) => item.permission_id), ["p"]);
});

for (const [name, action] of [
  ["a decision elsewhere", { type: "run/event", envelope: event(4, "permission.resolved", { permission_id: "p", decision: "deny" }) }],
  ["the Run's end", { type: "run/event", envelope: completed(4) }],
  ["a Run that is gone", { type: "run/over", runId: "run" }],
  ["the operator's decision", { type: "permission/gone", permissionId: "p" }],
]) {
  test(`${name} takes the card away`, () => {
    assert.deepEqual(pendingOf(permissions(asked, action), "agent"), []);
  });
}
