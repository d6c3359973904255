/** The Tasks of an Agent: what runs beside its Conversations, what came of it, and a way to end it. */
import { h, setAria, setText } from "../dom/h.js";
import { keyedList } from "../dom/keyed_list.js";
import { hasResult, isActiveTask, taskMark, taskStateWords } from "../state/tasks.js";
import { errorWords } from "./server_words.js";

const FIRST = 6;

/** A section of the Agent's panel. */
export function tasksSection(app, agent, changed) {
  const { t } = app.words;
  const rows = h("ul", { class: "task-rows" });
  const note = h("p", { class: "muted task-note" }, t("task.loading"));
  const fault = h("p", { class: "field-fault", role: "alert", hidden: true });
  const more = h("button", { type: "button", class: "button small", hidden: true, onClick: showAll }, "");
  const list = keyedList(rows, { key: (task) => task.task_id, create: (task) => taskRow({ app, agent, changed, say }, task.task_id) });
  let tasks = [];
  let all = false;

  function showAll() {
    all = true;
    draw();
    rows.children[FIRST]?.focus();
  }

  function say(error) {
    fault.hidden = !error;
    setText(fault, error ? errorWords(app.words, error.code) : "");
  }

  function draw() {
    list.show(all ? tasks : tasks.slice(0, FIRST));
    more.hidden = all || tasks.length <= FIRST;
    setText(more, t("task.show_all", { n: tasks.length }));
    note.hidden = tasks.length > 0;
    setText(note, t("task.none"));
  }

  async function refresh() {
    try {
      tasks = await app.tasks.list(agent.agent_id);
      say(null);
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      note.hidden = true;
      say(error);
      return false;
    }
    draw();
    return tasks.some(isActiveTask);
  }

  return { title: t("task.title"), element: h("div", { class: "tasks" }, note, fault, rows, more), refresh };
}

function taskRow({ app, agent, changed, say }, taskId) {
  const { t, tOr, dayAndTime } = app.words;
  const mark = h("span", { class: "dot", aria: { hidden: "true" } });
  const state = h("span", { class: "task-state" });
  const kind = h("span", { class: "task-kind" });
  const time = h("time", { class: "muted" });
  const stop = h("button", { type: "button", class: "button small", onClick: end }, t("task.stop"));
  const result = resultOf(app, agent, taskId);
  const element = h("li", { class: "task", tabindex: "-1" }, h("div", { class: "task-head" }, mark, h("div", { class: "task-words" }, kind, state, time), stop), result.element);

  async function end() {
    stop.disabled = true;
    element.focus();
    try {
      await app.tasks.cancel(agent.agent_id, taskId);
      changed();
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      stop.disabled = false;
      say(error);
    }
  }

  function update(task) {
    const { key, fallback } = taskStateWords(task);
    setText(state, tOr(key, fallback));
    setText(kind, tOr(`task_kind.${task.kind}`, "task_kind.other"));
    setText(time, dayAndTime(task.created_at));
    setAria(stop, "label", t("task.stop_of", { kind: kind.textContent, time: time.textContent }));
    time.dateTime = task.created_at;
    mark.className = `dot ${taskMark(task)}`;
    stop.hidden = !isActiveTask(task);
    result.element.hidden = !hasResult(task);
  }

  return { element, update };
}

/** Read when it is opened: lists are shown without results. */
function resultOf(app, agent, taskId) {
  const { t } = app.words;
  const text = h("pre", { tabindex: "0", role: "region", aria: { label: t("task.result") } });
  const element = h("details", { class: "task-result", onToggle: read }, h("summary", null, t("task.result")), text);
  let known = false;

  async function read() {
    if (!element.open || known) return;
    setText(text, t("task.loading"));
    try {
      const { result } = await app.tasks.read(agent.agent_id, taskId);
      known = true;
      setText(text, result ?? "");
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      setText(text, errorWords(app.words, error.code));
    }
  }

  return { element };
}
