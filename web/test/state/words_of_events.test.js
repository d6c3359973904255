import assert from "node:assert/strict";
import { test } from "node:test";
import { meterOf, messageFit, MESSAGE_MAX_BYTES } from "../../js/state/context_meter.js";
import { isDiff, parseDiff } from "../../js/state/diff.js";
import { attachmentsOf, completionAt, namedFiles } from "../../js/state/file_names.js";
import { applyEvent, emptyRun } from "../../js/state/run_events.js";
import { stepped, timelineRows, visibleRows } from "../../js/state/timeline.js";
import { effectsOf, outcomeKeys, targetOf } from "../../js/state/tool_words.js";
import { completed, delta, event, USAGE } from "../events.js";

const projection = { used_tokens: 5000, usable_tokens: 18000, left_percent: 72, fixed_context_tokens: 4800, operational_context_tokens: 20000, input_budget: 18000, safe_user_tokens: 9000, safe_user_bytes: 30000, compact_before_user_tokens: 4000, error_tokens: 12 };

test("the meter says what is used, what can be used and what is left, which are counted alike, and never an estimate beside a bound", () => {
  assert.deepEqual(meterOf({ state: "available", projection }), {
    kind: "measure", chatOnly: false, used: 5000, usable: 18000, leftPercent: 72, window: 20000, safeTokens: 9000, safeBytes: 30000, beforeCompaction: 4000, error: 12,
  });
});

test("without the projection with tools the chat-only baseline stands in, under its name", () => {
  assert.equal(meterOf({ state: "unavailable", reason: "too_few_samples", chat_only_projection: projection }).chatOnly, true);
});

test("an unavailable meter gives its reason and never a guess", () => {
  assert.deepEqual(meterOf({ state: "stale", reason: "active_run" }), { kind: "reason", state: "stale", reason: "active_run" });
  assert.deepEqual(meterOf(undefined), { kind: "unknown" });
});

test("a message is measured at its bounds", () => {
  const meter = meterOf({ state: "available", projection });
  assert.equal(messageFit(30000, meter), "fine");
  assert.equal(messageFit(30001, meter), "beyond_safe");
  assert.equal(messageFit(MESSAGE_MAX_BYTES, { kind: "unknown" }), "fine");
  assert.equal(messageFit(MESSAGE_MAX_BYTES + 1, { kind: "unknown" }), "too_long");
});

const DIFF = "--- notes.md\n+++ notes.md\n@@ -2,3 +2,3 @@\n \n-The Tusday.\n+The Tuesday.\n Bring.\n@@ -9 +9 @@\n---x\n++y\n\\ No newline at end of file\n";

test("a diff is read with the numbers of both sides", () => {
  assert.ok(isDiff(DIFF));
  const { path, added, removed, lines } = parseDiff(DIFF);
  assert.deepEqual([path, added, removed], ["notes.md", 2, 2]);
  assert.deepEqual(lines.map(({ kind, number, text }) => `${kind} ${number} ${text}`), [
    "same 2 ", "remove 3 The Tusday.", "add 3 The Tuesday.", "same 4 Bring.", "gap null ", "remove 9 --x", "add 9 +y", "note null No newline at end of file",
  ]);
});

test("a new file has only its new path", () => {
  assert.equal(parseDiff("--- (no file)\n+++ a.md\n@@ -0,0 +1 @@\n+x\n").path, "a.md");
  assert.ok(!isDiff("printf 'x'\n\nBash builtin"));
});

test("a path is shown as it is, also one that begins like git's", () => {
  for (const path of ["a/config.py", "b/run.sh", "a/b/c", "(no file)"]) {
    assert.equal(parseDiff(`--- ${path}\n+++ ${path}\n@@ -1 +1 @@\n-x\n+y\n`).path, path);
    const made = `--- (no file)\n+++ ${path}\n@@ -0,0 +1 @@\n+y\n`;
    assert.equal(parseDiff(made).path, path);
    assert.equal(targetOf(made), path);
  }
});

const file = (path, more = {}) => ({ path, bytes: 10, attachable: true, ...more });
const FILES = [file("notes.md"), file("docs/plan.md"), file("会议 纪要.md"), file("a/x.md"), file("b/x.md"), file("photo.bin", { attachable: false })];
const named = (text) => namedFiles(text, FILES).map((each) => each.path);

test("a text names files by path or by a base name that is the only one", () => {
  assert.deepEqual(named("see notes.md, (docs/plan.md) and plan.md."), ["notes.md", "docs/plan.md"]);
  assert.deepEqual(named("修正notes.md里的错字和会议 纪要.md"), ["notes.md", "会议 纪要.md"]);
  assert.deepEqual(named("x.md my-notes.md notes.mdx"), []);
  assert.deepEqual(named("b/x.md @notes.md"), ["b/x.md", "notes.md"]);
});

test("at most four readable files go along", () => {
  const many = Array.from({ length: 6 }, (_, index) => file(`f${index}.md`));
  const draft = { text: many.map((each) => each.path).join(" "), dismissed: ["f1.md"] };
  assert.deepEqual(attachmentsOf(draft, many).map((each) => each.path), ["f0.md", "f2.md", "f3.md", "f4.md"]);
  assert.deepEqual(attachmentsOf({ text: "photo.bin", dismissed: [] }, FILES), []);
});

test("what is completed is what stands before the caret", () => {
  assert.deepEqual(completionAt("/st", 3), { kind: "command", prefix: "st", start: 0, end: 3 });
  assert.equal(completionAt("a /st", 5), null);
  assert.equal(completionAt("/model qwen", 11), null);
  assert.deepEqual(completionAt("see @no", 7), { kind: "file", prefix: "no", start: 4, end: 7 });
  assert.deepEqual(completionAt("看，@会", 4), { kind: "file", prefix: "会", start: 2, end: 4 });
  assert.equal(completionAt("me@example", 10), null);
});

test("a call's target is its path, its command or the first words of it", () => {
  assert.equal(targetOf('{"path":"a.md","start_line":1}'), "a.md");
  assert.equal(targetOf('{"pattern":"*.md"}'), "*.md");
  assert.equal(targetOf('{"path":"a.md","content":"cut off'), "a.md");
  assert.equal(targetOf(DIFF), "notes.md");
  assert.equal(targetOf("printf x\n\nmore"), "printf x");
  assert.equal([...targetOf("长".repeat(200))].length, 81);
  assert.equal(targetOf(""), "");
});

test("a document without text is told by its reason, every other call by its outcome", () => {
  const told = ["outcome.refused", "outcome.failed"];
  assert.deepEqual(outcomeKeys({ tool_id: "document/extract_text", outcome: "refused", code: "no_text" }), ["reading.no_text", ...told]);
  assert.deepEqual(outcomeKeys({ tool_id: "document/extract_text", outcome: "refused" }), told);
  assert.deepEqual(outcomeKeys({ tool_id: "file/read_text", outcome: "refused", code: "not_text" }), told);
  assert.equal(outcomeKeys({ tool_id: "document/extract_text", outcome: "ok", code: "repeated" })[0], "outcome.ok");
});

test("the foot line counts what was done and leaves out what was not", () => {
  const calls = [["file/read_text", "ok"], ["file/read_text", "ok"], ["file/edit", "ok"], ["exec/run", "denied"], ["other", "ok"]].map(([tool_id, outcome]) => ({ tool_id, outcome }));
  assert.deepEqual(effectsOf(calls), [{ effect: "changed", n: 1 }, { effect: "read", n: 2 }]);
});

test("the foot line counts files, not looks into them", () => {
  const calls = [["file/read_text", "a.md"], ["file/read_text", "a.md"], ["file/read_text", "b.md"], ["file/edit", "a.md"], ["file/edit", "a.md"], ["exec/run", "ls"], ["exec/run", "ls"]]
    .map(([tool_id, path]) => ({ tool_id, outcome: "ok", preview: JSON.stringify({ path }) }));
  assert.deepEqual(effectsOf(calls), [{ effect: "changed", n: 1 }, { effect: "ran", n: 2 }, { effect: "read", n: 2 }]);
});

test("a call that was only answered again is not counted a second time", () => {
  const edit = { tool_id: "file/edit", outcome: "ok" };
  assert.deepEqual(effectsOf([edit, { ...edit, code: "repeated" }]), [{ effect: "changed", n: 1 }]);
});

const run = [
  event(1, "run.started"),
  event(2, "model.request.started", { call: 1, round: 1, attempt: 1 }),
  event(3, "model.response.finished", { call: 1, reason: "tool_calls", usage: USAGE }),
  event(4, "tool.call.proposed", { call_id: "c", tool_id: "file/edit", preview: "p", written_as_text: false }),
  event(5, "tool.call.finished", { call_id: "c", tool_id: "file/edit", outcome: "ok", receipt: {} }),
  delta(6, "hi"),
  event(7, "assistant.message", { text: "hi" }),
  completed(8),
].reduce(applyEvent, emptyRun);
const rows = timelineRows(run, { user_text: "do it" });

test("rows go between the lanes in the order of their seq, the operator's words first", () => {
  assert.deepEqual(rows.map(({ seq, from, to, arrow }) => `${seq} ${from}${to} ${arrow}`), [
    "null 01 user_harness", "1 11 internal", "2 12 harness_llm", "3 21 llm_harness", "4 13 harness_tool", "5 31 recovery_harness", "6 21 llm_harness", "7 10 harness_user", "8 11 internal",
  ]);
  assert.deepEqual(rows.map((row) => row.message), ["do it", null, null, null, "p", null, "hi", "hi", null]);
});

test("a growing delta keeps the key of its row", () => {
  const more = timelineRows(applyEvent([delta(1, "a")].reduce(applyEvent, emptyRun), delta(2, "b")), null);
  assert.deepEqual(more.map((row) => row.key), ["seq-1"]);
});

test("steps stop at both ends and filters leave no hole", () => {
  const shown = visibleRows(rows, ["model", "tool"]);
  assert.equal(shown.length, 5);
  assert.equal(stepped(shown, null, 1), "projection");
  assert.equal(stepped(shown, "projection", -1), "projection");
  assert.equal(stepped(shown, "seq-8", 1), "seq-8");
  assert.equal(stepped(shown, "projection", 1), "seq-1");
  assert.equal(stepped([], null, 1), null);
});

test("a type that is not known yet is a point, not a fault", () => {
  const [row] = timelineRows(applyEvent(emptyRun, event(1, "some.new.type", { text: 5 })), null);
  assert.deepEqual([row.from, row.to, row.label.key], [1, 1, "timeline.unknown"]);
});
