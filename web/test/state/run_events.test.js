import assert from "node:assert/strict";
import { test } from "node:test";
import { applyEvent, emptyRun, runs } from "../../js/state/run_events.js";
import { completed, delta, event } from "../events.js";

const fold = (events) => events.reduce(applyEvent, emptyRun);

test("an event counts once, however often it comes", () => {
  const events = [event(1, "run.started"), delta(2, "a"), delta(3, "b")];
  assert.deepEqual(fold([...events, events[1], events[2]]), fold(events));
  assert.deepEqual(fold(events).parts, [{ kind: "text", text: "ab" }]);
});

test("nothing follows the terminal", () => {
  const run = fold([event(1, "run.started"), completed(2)]);
  assert.equal(applyEvent(run, delta(3, "late")), run);
  assert.equal(run.terminal.type, "run.completed");
  assert.equal(run.stage, null);
});

test("neighbouring deltas share one row of the log", () => {
  const run = fold([event(1, "run.started"), ...Array.from({ length: 500 }, (_, index) => delta(index + 2, "x"))]);
  assert.equal(run.log.length, 2);
  assert.equal(run.log[1].from_seq, 2);
  assert.equal(run.log[1].seq, 501);
  assert.equal(run.log[1].payload.text.length, 500);
});

test("a tool call parts the text", () => {
  const call = { call_id: "c", tool_id: "file/read_text", preview: "", written_as_text: false };
  const run = fold([
    delta(1, "one"),
    event(2, "tool.call.proposed", call),
    event(3, "tool.call.started", { call_id: "c", tool_id: "file/read_text" }),
    event(4, "tool.call.finished", { call_id: "c", tool_id: "file/read_text", outcome: "ok", receipt: { lines: 5 } }),
    delta(5, "two"),
  ]);
  assert.deepEqual(run.parts, [{ kind: "text", text: "one" }, { kind: "tool", callId: "c" }, { kind: "text", text: "two" }]);
  assert.deepEqual(run.tools.c, { call_id: "c", tool_id: "file/read_text", preview: "", phase: "finished", outcome: "ok", code: undefined, receipt: { lines: 5 } });
});

test("a call that was written as text takes its text back", () => {
  const run = fold([delta(1, '{"name":'), event(2, "tool.call.proposed", { call_id: "c", tool_id: "t", written_as_text: true })]);
  assert.deepEqual(run.parts, [{ kind: "tool", callId: "c" }]);
});

test("a gap moves the place where the stream resumes", () => {
  const state = runs({ run: fold([event(1, "run.started")]) }, { type: "run/control", frame: { kind: "gap", run_id: "run", from_seq: 2, to_seq: 40 } });
  assert.equal(state.run.lastSeq, 40);
  assert.equal(state.run.log.at(-1).type, "control.gap");
});

test("a resync begins the Run anew and keeps whose it is", () => {
  const state = runs({ run: fold([event(1, "run.started"), delta(2, "half")]) }, { type: "run/restart", runId: "run" });
  assert.deepEqual(state.run, { ...emptyRun, agentId: "agent", conversationId: "talk" });
});

test("a full disk is shown until the next event", () => {
  const full = runs({ run: fold([event(1, "run.started")]) }, { type: "run/control", frame: { kind: "storage_full", run_id: "run" } });
  assert.equal(full.run.storageFull, true);
  assert.equal(applyEvent(full.run, completed(2)).storageFull, false);
});

test("a replay lays durable events under what was not seen live", () => {
  const state = runs({}, { type: "run/replayed", runId: "run", items: [event(1, "run.started"), event(5, "assistant.message", { text: "a" }), completed(6)] });
  assert.equal(state.run.replay, "ready");
  assert.equal(state.run.log.length, 3);
});
