import assert from "node:assert/strict";
import { test } from "node:test";
import { hasResult, isActiveTask, startRefused, taskMark, taskStateWords } from "../../js/state/tasks.js";

const compile = (state, code) => ({ kind: "runtime-compile", state, code });

for (const [task, key, mark, active, result] of [
  [compile("queued"), "task_state.queued", "waits", true, false],
  [compile("running"), "task_state.running", "runs", true, false],
  [compile("completed"), "task_found.none", "good", false, true],
  [compile("completed", "exit_code"), "task_found.faults", "bad", false, true],
  [compile("failed", "wall_clock"), "task_failed.wall_clock", "bad", false, true],
  [compile("cancelled"), "task_state.cancelled", "plain", false, false],
  [compile("interrupted"), "task_state.interrupted", "plain", false, false],
  [{ kind: "delegate", state: "completed" }, "task_state.completed", "good", false, true],
]) {
  test(`${task.kind}, ${task.state} ${task.code ?? ""} is ${key}`, () => {
    assert.deepEqual([taskStateWords(task).key, taskMark(task), isActiveTask(task), hasResult(task)], [key, mark, active, result]);
  });
}

test("what keeps a Task from starting is said in words of its own", () => {
  assert.deepEqual(["run_limit", "not_found", "storage_full"].map(startRefused), ["task.too_many", "task.run_gone", ""]);
});
