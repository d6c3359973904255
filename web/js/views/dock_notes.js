/** Notes above the composer: what the server refused, what a command answered, what keeps the model from answering. */
import { rest } from "../dom/focus.js";
import { h } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { agentById, isSettling } from "../state/agents.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { chosenModel } from "../state/gateway.js";

export function dockNotes(app, root) {
  const { store } = app;
  store.watch(
    (state) => [obstacle(state), currentDraft(state).error, state.view.results[placeOf(state)], state.view.notices[placeOf(state)], placeOf(state)],
    ([blocked, error, result, notice]) => {
      root.replaceChildren(
        ...[blocked && obstacleNote(app, blocked), notice && noticeNote(app, notice), result && commandNote(app, result), error && errorNote(app, error)].filter(Boolean),
      );
    },
  );
}

function placeOf({ view }) {
  return draftKey(view.agentId, view.conversationId);
}

function currentDraft(state) {
  return draftOf(state, placeOf(state));
}

/**
 * What stands between the operator and an answer right now, as one word, so that an unchanged one is not drawn again.
 * @returns {string|null} `unreachable`, `starting`, `phase:<phase>`, `no_model`, `model:<reason>` or `model_loading`
 */
export function obstacle(state) {
  const { health, reachable, models } = state.gateway;
  if (!reachable) return "unreachable";
  if (health?.status === "loading") return "starting";
  if (health?.status === "draining") return "draining";
  const agent = agentById(state, state.view.agentId);
  if (isSettling(agent)) return `phase:${agent.phase}`;
  if (models.status !== "ready") return null;
  const model = chosenModel(state, currentDraft(state));
  if (!model) return "no_model";
  return model.available ? null : `model:${model.reason ?? ""}`;
}

function obstacleNote({ words: { t, tOr } }, blocked) {
  const [kind, detail] = blocked.split(/:(.*)/s);
  const text = {
    phase: () => tOr(`phase_note.${detail}`, "phase_note.other"),
    model: () => (detail ? t("model_note.reason", { reason: tOr(`error.${detail}`, "model_note.code", { code: detail }) }) : t("model_note.other")),
  }[kind]?.() ?? t(`obstacle.${kind}`);
  return note("waits", text);
}

function errorNote(app, error) {
  const { words, store } = app;
  const text = words.tOr(`error.${error.code}`, "error.other");
  const close = () => store.dispatch({ type: "draft/error_closed", key: placeOf(store.get()) });
  const detail = needsDetail(error) ? error.message : null;
  return note("lost", text, { detail, close, closeLabel: words.t("action.close"), alert: true });
}

/** Where only the server knows the particulars: which file, which field, which command. */
function needsDetail({ code, message }) {
  return Boolean(message) && ["attachment_refused", "instructions_refused", "invalid_request", "model_context_limit"].includes(code);
}

function noticeNote({ words, store }, { key, error }) {
  const text = key ? words.t(key) : words.tOr(`error.${error.code}`, "error.other");
  const detail = error && needsDetail(error) ? error.message : null;
  return note(error ? "lost" : "plain", text, { detail, close: () => store.dispatch({ type: "notice/closed", key: placeOf(store.get()) }), closeLabel: words.t("action.close"), alert: Boolean(error) });
}

function commandNote({ words, store }, { input, output }) {
  const shut = () => {
    store.dispatch({ type: "command/result", key: placeOf(store.get()), result: null });
    rest();
  };
  const close = h("button", { type: "button", class: "icon-button", aria: { label: words.t("action.close") }, onClick: shut }, icon("close"));
  const text = typeof output === "string" ? output : JSON.stringify(output, null, 2);
  return h(
    "section",
    { class: "card command-result", role: "status", aria: { label: words.t("command.result") } },
    h("header", null, h("code", null, input), h("span", { class: "muted" }, words.t("command.no_model")), h("span", { class: "spring" }), close),
    h("pre", { tabindex: "0", role: "region", aria: { label: words.t("command.result") } }, text),
  );
}

function note(kind, text, { detail = null, close = null, closeLabel = "", alert = false } = {}) {
  const shut = () => {
    close();
    rest();
  };
  const button = close && h("button", { type: "button", class: "icon-button", aria: { label: closeLabel }, onClick: shut }, icon("close"));
  return h("div", { class: `note ${kind}`, role: alert ? "alert" : "status" }, icon("warning"), h("p", null, text, detail ? h("small", null, detail) : null), button);
}
