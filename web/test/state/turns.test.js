import assert from "node:assert/strict";
import { test } from "node:test";
import { activeTurn, pages, noPage } from "../../js/state/turns.js";
import { completed, delta, event, USAGE } from "../events.js";

const turn = (id, state = "completed", more = {}) => ({ turn_id: id, run_id: `run-${id}`, state, user_text: id, attachments: [], created_at: "2026-01-01T00:00:00Z", ...more });
const answer = (turns, cursor) => ({ conversation: { conversation_id: "talk", title: "T" }, turns, page: cursor ? { next_before_cursor: cursor } : {} });
const load = (state, turns, cursor) => pages(state, { type: "page/loaded", conversationId: "talk", answer: answer(turns, cursor) });
const ids = (state) => state.talk.turns.map((each) => each.turn_id);
const running = { ...turn("turn", "running"), run_id: "run" };

test("the durable events end the Turn in place", () => {
  let state = load({}, [turn("a"), running]);
  for (const each of [event(1, "run.started"), delta(2, "hi"), event(3, "assistant.message", { text: "hi" }), completed(4)]) state = pages(state, { type: "run/event", envelope: each });
  assert.deepEqual(state.talk.turns[1], { ...running, state: "completed", assistant_text: "hi", reason: "stop", usage: USAGE, finished_at: "2026-01-01T00:00:00Z" });
});

test("a streamed delta changes no Turn", () => {
  const state = load({}, [running]);
  assert.equal(pages(state, { type: "run/event", envelope: delta(1, "x") }), state);
});

test("a failed Run leaves no answer", () => {
  let state = load({}, [{ ...running, assistant_text: "half" }]);
  state = pages(state, { type: "run/event", envelope: event(9, "run.failed", { code: "model_busy", stage: "answering", elapsed_ms: 3, message: "", usage: USAGE }) });
  assert.equal(state.talk.turns[0].assistant_text, undefined);
  assert.deepEqual(state.talk.turns[0].error, { code: "model_busy", stage: "answering", elapsed_ms: 3, message: "" });
});

test("an event of a Turn that is over changes nothing", () => {
  const state = load({}, [{ ...running, state: "cancelled" }]);
  assert.equal(pages(state, { type: "run/event", envelope: completed(9) }), state);
});

test("a page asked for before the end does not bring the end back", () => {
  const before = load({}, [{ ...running, state: "completed", assistant_text: "a" }]);
  const after = load(before, [running]);
  assert.equal(after.talk.turns[0].state, "completed");
});

test("a page asked for before the send does not take the new Turn away", () => {
  let state = load({}, [turn("a")]);
  state = pages(state, { type: "turn/accepted", conversationId: "talk", turn: turn("b", "preparing") });
  assert.deepEqual(ids(load(state, [turn("a")])), ["a", "b"]);
  assert.deepEqual(ids(load(state, [turn("a"), turn("b")])), ["a", "b"]);
});

test("an accepted Turn is one card, not two", () => {
  let state = pages({}, { type: "turn/accepted", conversationId: "talk", turn: turn("b", "preparing") });
  state = pages(state, { type: "turn/accepted", conversationId: "talk", turn: turn("b", "preparing") });
  assert.deepEqual(ids(state), ["b"]);
  assert.equal(activeTurn(state.talk).turn_id, "b");
});

test("the newest page keeps earlier ones and their cursor", () => {
  let state = load({}, [turn("c"), turn("d")], "k1");
  state = pages(state, { type: "page/earlier_loaded", conversationId: "talk", answer: answer([turn("a"), turn("b")], "k2") });
  assert.deepEqual(ids(state), ["a", "b", "c", "d"]);
  state = load(state, [turn("c"), turn("d"), turn("e")], "k3");
  assert.deepEqual(ids(state), ["a", "b", "c", "d", "e"]);
  assert.equal(state.talk.before, "k2");
});

test("a page without overlap replaces what was there", () => {
  const state = load(load({}, [turn("a")], "k1"), [turn("x"), turn("y")], "k2");
  assert.deepEqual(ids(state), ["x", "y"]);
  assert.equal(state.talk.before, "k2");
});

test("an unchanged Turn stays the same object", () => {
  const first = load({}, [turn("a")]);
  const second = load(first, [turn("a")]);
  assert.equal(second.talk.turns[0], first.talk.turns[0]);
});

test("a snapshot says how the Turn ended", () => {
  let state = load({}, [running]);
  state = pages(state, { type: "run/snapshot", conversationId: "talk", turn: { ...running, state: "interrupted" } });
  assert.equal(state.talk.turns[0].state, "interrupted");
});

test("a snapshot from before the end does not bring the end back", () => {
  const state = load({}, [{ ...running, state: "completed", assistant_text: "a" }]);
  const after = pages(state, { type: "run/snapshot", conversationId: "talk", turn: running });
  assert.equal(after.talk.turns[0].state, "completed");
});

test("a page that could not be read keeps what is shown", () => {
  const ready = load({}, [turn("a")]);
  assert.equal(pages(ready, { type: "page/failed", conversationId: "talk", error: { code: "network" } }).talk.status, "ready");
  assert.equal(pages({}, { type: "page/failed", conversationId: "talk", error: { code: "network" } }).talk.status, "failed");
  assert.equal(noPage.status, "idle");
});
