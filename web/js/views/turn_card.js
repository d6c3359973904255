/** One Turn: the operator's words, what was done, the one answer, and a foot line that says what it took. */
import { copyText, selectContents } from "../dom/clipboard.js";
import { append, h, setAria, setText, toggle } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { renderMarkdown } from "../dom/markdown.js";
import { oneLine } from "../dom/plain_text.js";
import { emptyRun, toolCalls } from "../state/run_events.js";
import { holdsToolRequest } from "../state/tool_request.js";
import { effectsOf } from "../state/tool_words.js";
import { isActive } from "../state/turns.js";
import { liveAnswer } from "./live_answer.js";
import { subagentCard } from "./subagent_card.js";
import { toolLine } from "./tool_line.js";

const COPIED_MS = 2_000;

/** @param {object} app @param {import("../state/turns.js").Turn} first */
export function turnCard(app, first) {
  const { t } = app.words;
  const user = h("div", { class: "user-text", dir: "auto" }, first.user_text);
  const chips = h("ul", { class: "chips", aria: { label: t("turn.files") } });
  const body = h("div", { class: "turn-body" });
  const footPlace = h("div", { class: "foot" });
  const heading = h("h2", { class: "visually-hidden" }, t("turn.yours"));
  const element = h("article", { class: "turn" }, h("section", { class: "turn-user" }, heading, user, chips), body, footPlace);
  const parts = { live: null, shown: null, answer: null, files: null, asked: null };

  function update({ turn, run = emptyRun, subagent = null, other = null }) {
    if (parts.files !== turn.attachments) drawChips(app, chips, turn.attachments ?? []);
    parts.files = turn.attachments;
    if (subagent) {
      parts.asked ??= subagentCard(app);
      parts.asked.update(subagent, other);
    }
    if (isActive(turn)) showLive(turn, run);
    else showDurable(turn, run);
  }

  function showLive(turn, run) {
    if (!parts.live) {
      parts.live = liveAnswer(app);
      parts.shown = null;
      body.replaceChildren(parts.live.element);
      footPlace.replaceChildren();
      setAria(element, "busy", "true");
    }
    parts.live.update(run);
    if (parts.asked && !parts.asked.element.isConnected) body.append(parts.asked.element);
  }

  /** The durable Turn is the only body; what was streamed goes away in the same step. */
  function showDurable(turn, run) {
    parts.live = null;
    setAria(element, "busy", null);
    const key = `${turn.state} ${turn.assistant_text?.length ?? 0} ${toolCalls(run).length} ${run.replay} ${Boolean(parts.asked)}`;
    if (parts.shown !== key) {
      const answer = parts.answer && parts.answer.text === turn.assistant_text ? parts.answer : drawAnswer(app, turn);
      parts.answer = answer;
      parts.shown = key;
      body.replaceChildren();
      append(body, [toolCalls(run).map((call) => toolLine(app, call).element), parts.asked?.element, answer.element, failure(app, turn)]);
    }
    footPlace.replaceChildren(...foot(app, turn, run, parts.answer.element));
    toggle(footPlace, "empty", !footPlace.childElementCount);
  }

  return { element, update };
}

function drawChips({ words }, list, attachments) {
  list.hidden = !attachments.length;
  list.replaceChildren(...attachments.map((file) => h("li", { class: "chip" }, words.t("turn.file", { path: oneLine(file.path), size: words.bytes(file.bytes) }))));
}

function drawAnswer(app, turn) {
  const text = turn.assistant_text;
  if (!text) return { text, element: null };
  const element = h("div", { class: "markdown" });
  element.append(h("h2", { class: "visually-hidden" }, app.words.t("turn.answer")), renderMarkdown(text, markdownWords(app)));
  return { text, element };
}

export function markdownWords(app) {
  const { t } = app.words;
  return {
    copyLabel: t("action.copy"),
    tableLabel: t("markdown.table"),
    codeLabel: t("markdown.code"),
    onCopy: (code, button, body) => copyWith(app, code, button, body),
  };
}

/** Copies, and says on the button whether it worked; when it cannot, the text is selected for the operator's own hand. */
async function copyWith(app, text, button, shown) {
  const { t } = app.words;
  const copied = await copyText(text);
  if (!copied && shown) selectContents(shown);
  const label = copied ? t("action.copied") : t("action.copy_selected");
  setText(button, label);
  app.say(copied ? "action.copied" : "action.copy_selected");
  setTimeout(() => setText(button, t("action.copy")), COPIED_MS);
}

/** A Turn without an answer says what happened, where, after how long, and what can be done. */
function failure(app, turn) {
  const { t, tOr, stopwatch } = app.words;
  if (turn.state === "completed") return turn.reason && turn.reason !== "stop" ? h("p", { class: "turn-note" }, tOr(`reason.${turn.reason}`, "reason.other")) : null;
  const code = turn.error?.code;
  const words = code && code !== turn.state ? tOr(`error.${code}`, "error.other") : t(`ended.${turn.state}`);
  const facts = [];
  if (turn.error?.stage) facts.push(tOr(`ended.while_${turn.error.stage}`, "ended.while_other"));
  if (turn.error?.elapsed_ms !== undefined) facts.push(t("ended.after", { time: stopwatch(turn.error.elapsed_ms) }));
  if (code) facts.push(code);
  const retry = h("button", { type: "button", class: "button small", onClick: () => app.sending.fill(turn.user_text) }, t("turn.retry"));
  return h(
    "div",
    { class: turn.state === "failed" ? "turn-failure failed" : "turn-failure" },
    h("p", { class: "failure-words" }, turn.state === "failed" ? icon("warning") : null, words),
    facts.length ? h("p", { class: "failure-facts" }, facts.map((fact) => h("span", null, fact))) : null,
    h("div", { class: "failure-actions" }, retry, h("span", { class: "muted" }, t("turn.retry_note"))),
  );
}

function foot(app, turn, run, answerElement) {
  const { t, seconds, number } = app.words;
  const facts = effectsOf(toolCalls(run)).map(({ effect, n }) => h("span", null, t(`effect.${effect}`, { n })));
  if (holdsToolRequest(turn.assistant_text ?? "")) facts.push(h("span", null, t("turn.tool_request_as_text")));
  const ms = Date.parse(turn.finished_at ?? "") - Date.parse(turn.created_at);
  if (turn.state === "completed" && Number.isFinite(ms)) facts.push(h("span", null, seconds(Math.max(0, ms))));
  if (turn.usage && (turn.usage.input || turn.usage.output)) {
    const key = turn.usage.complete ? "turn.usage" : "turn.usage_incomplete";
    facts.push(h("span", { title: t("turn.usage_title") }, t(key, { input: number(turn.usage.input), output: number(turn.usage.output) })));
  }
  if (run.replay === "failed") facts.push(...unread(app, turn));
  return [...facts, h("span", { class: "foot-actions" }, footActions(app, turn, answerElement))];
}

/** What was done is not known as long as the events could not be read: that is said, not left out. */
function unread(app, turn) {
  const { t } = app.words;
  const again = () => app.running.replay(app.store.get().view.agentId, turn.run_id);
  return [h("span", null, t("turn.effects_unread")), h("button", { type: "button", class: "foot-action", onClick: again }, t("action.try_again"))];
}

function footActions(app, turn, answerElement) {
  const { t } = app.words;
  const action = (label, run, spoken) => {
    const button = h("button", { type: "button", class: "foot-action", aria: spoken ? { label: spoken } : null }, label);
    button.addEventListener("click", () => run(button));
    return button;
  };
  const copy = turn.assistant_text ? [action(t("action.copy"), (button) => copyWith(app, turn.assistant_text, button, answerElement))] : [];
  const edit = turn.state === "completed" ? [action(t("turn.edit"), () => app.sending.fill(turn.user_text), t("turn.edit_spoken"))] : [];
  return [
    ...copy,
    ...edit,
    action(t("details.button"), () => app.openDetails(turn), t("turn.details_of")),
  ];
}
