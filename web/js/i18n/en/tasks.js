/** English: background Tasks. */
export const tasks = {
  "task.loading": "Reading…",
  "task.none": "No Tasks yet. Open the details of a Run and choose “Check *.py files” from its menu to start one.",
  "task.result": "Result",
  "task.run_gone": "The Conversation in which this Run began was deleted. Start the check from another Run.",
  "task.show": "Show Tasks",
  "task.show_all": { one: "Show the {n} Task", other: "Show all {n} Tasks" },
  "task.show_more": "Show Tasks…",
  "task.start": "Check *.py files",
  "task.start_note": "In the background, for syntax errors; nothing is run or changed",
  "task.started": "The check of the *.py files is accepted.",
  "task.stop": "Stop",
  "task.stop_of": "Stop: {kind}, {time}",
  "task.title": "Tasks",
  "task.told": "Check of the *.py files: {state}.",
  "task.too_many": "Four Tasks of this Agent are active, the most at one time. Stop one or wait for one to end.",

  "task_failed.missing": "not run, there are no *.py files",
  "task_failed.other": "failed",
  "task_failed.output": "stopped, too much output",
  "task_failed.too_many": "not run, there are too many *.py files",
  "task_failed.wall_clock": "stopped, it took too long",

  "task_found.faults": "syntax errors found",
  "task_found.none": "no syntax errors",

  "task_kind.delegate": "Delegation",
  "task_kind.other": "Task",
  "task_kind.runtime-compile": "Check of *.py files",

  "task_state.cancelled": "stopped",
  "task_state.completed": "completed",
  "task_state.interrupted": "interrupted, the server stopped",
  "task_state.other": "unknown",
  "task_state.queued": "waiting for its turn",
  "task_state.running": "running",
};
