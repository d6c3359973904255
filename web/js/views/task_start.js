/** Starts a Task beside the shown Run, and says below the head of its details what comes of it. */
import { h, setText } from "../dom/h.js";
import { dots, icon } from "../dom/icons.js";
import { attachMenu } from "../dom/menu.js";
import { agentById } from "../state/agents.js";
import { startRefused, taskStateWords } from "../state/tasks.js";
import { openAgentPanel } from "./agent_panel.js";
import { AGENT_SECTIONS } from "./agent_sections.js";
import { errorWords } from "./server_words.js";

/** @returns {{button: Element, line: Element, show: (runId: string|null) => void}} `show` is told of each Run that is shown */
export function taskStart(app) {
  const { t, tOr } = app.words;
  const button = h("button", { type: "button", class: "icon-button", aria: { label: t("details.more") } }, dots());
  const words = h("span", { class: "task-line-words" });
  const lead = h("button", { type: "button", class: "link-button", onClick: openPanel }, t("task.show"));
  const close = h("button", { type: "button", class: "icon-button", aria: { label: t("action.close") }, onClick: shut }, icon("close"));
  const line = h("div", { class: "task-line", hidden: true }, h("p", { role: "status" }, words), lead, close);
  let shown = null;
  let unfollow = () => {};
  attachMenu(button, () => [{ label: t("task.start"), note: t("task.start_note"), run: start }, { label: t("task.show_more"), run: openPanel }]);

  function openPanel() {
    const { agentId } = app.store.get().view;
    openAgentPanel(app, agentById(app.store.get(), agentId), AGENT_SECTIONS);
  }

  function say(text) {
    line.hidden = !text;
    setText(words, text);
  }

  function shut() {
    unfollow();
    say("");
    button.focus();
  }

  async function start() {
    const { agentId } = app.store.get().view;
    const runId = shown;
    unfollow();
    try {
      const task = await app.tasks.start(agentId, runId);
      if (shown !== runId) return;
      say(t("task.started"));
      unfollow = app.tasks.follow(agentId, task, (found) => tell(found));
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      if (shown === runId) say(startRefused(error.code) ? t(startRefused(error.code)) : errorWords(app.words, error.code));
    }
  }

  function tell(task) {
    const { key, fallback } = taskStateWords(task);
    say(t("task.told", { state: tOr(key, fallback) }));
  }

  function show(runId) {
    if (runId === shown) return;
    shown = runId;
    unfollow();
    say("");
  }

  return { button, line, show };
}
