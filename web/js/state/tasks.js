/** What a Task is called, as keys of the page's words. */

/**
 * @typedef {{task_id: string, run_id: string, conversation_id: string, kind: "runtime-compile"|"delegate",
 *   state: "queued"|"running"|"completed"|"failed"|"cancelled"|"interrupted", created_at: string, started_at?: string,
 *   finished_at?: string, code?: string, result?: string}} Task
 */

/** @param {Task} task */
export function isActiveTask({ state }) {
  return state === "queued" || state === "running";
}

/** Whether it has ended and left something to read. @param {Task} task */
export function hasResult({ state }) {
  return state === "completed" || state === "failed";
}

/** @param {Task} task @returns {{key: string, fallback: string}} what its state is called */
export function taskStateWords({ kind, state, code }) {
  if (state === "completed" && kind === "runtime-compile") return found(code === "exit_code" ? "faults" : "none");
  if (state === "failed") return { key: `task_failed.${code}`, fallback: "task_failed.other" };
  return { key: `task_state.${state}`, fallback: "task_state.other" };
}

function found(what) {
  return { key: `task_found.${what}`, fallback: "task_state.completed" };
}

/** @param {Task} task @returns {"runs"|"waits"|"bad"|"good"|"plain"} how it is marked */
export function taskMark({ state, code }) {
  if (state === "running") return "runs";
  if (state === "queued") return "waits";
  if (state === "failed") return "bad";
  return state === "completed" ? (code ? "bad" : "good") : "plain";
}

/** @param {string} code of a refusal to start a Task @returns {string} the key of its sentence; empty when it is like any other */
export function startRefused(code) {
  return { run_limit: "task.too_many", not_found: "task.run_gone" }[code] ?? "";
}
