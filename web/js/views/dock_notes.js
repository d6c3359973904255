/** Notes above the composer: what the server refused, what a command answered, what keeps the model from answering. */
import { rest } from "../dom/focus.js";
import { h } from "../dom/h.js";
import { icon } from "../dom/icons.js";
import { agentById, isSettling } from "../state/agents.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { chosenModel } from "../state/gateway.js";
import { commandOutput, errorDetail, errorWords, modelReason } from "./server_words.js";

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
 * @returns {string|null} `unreachable`, `starting`, `phase:<phase>`, `no_model` or `model:<code>:<reason>`
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
  return model.available ? null : `model:${model.reason_code ?? ""}:${model.reason ?? ""}`;
}

function obstacleNote({ words }, blocked) {
  const [, kind, code, reason] = /^([^:]*):?([^:]*):?(.*)$/s.exec(blocked);
  if (kind === "phase") return note("waits", words.tOr(`phase_note.${code}`, "phase_note.other"));
  if (kind === "model") return note("waits", words.t("model_note.other"), { detail: modelReason(words, { reason_code: code, reason }) });
  return note("waits", words.t(`obstacle.${kind}`));
}

function errorNote(app, error) {
  const { words, store } = app;
  const close = () => store.dispatch({ type: "draft/error_closed", key: placeOf(store.get()) });
  return note("lost", errorWords(words, error.code), { detail: errorDetail(words, error), close, closeLabel: words.t("action.close"), alert: true });
}

function noticeNote({ words, store }, { key, error }) {
  const text = key ? words.t(key) : errorWords(words, error.code);
  const detail = error ? errorDetail(words, error) : null;
  return note(error ? "lost" : "plain", text, { detail, close: () => store.dispatch({ type: "notice/closed", key: placeOf(store.get()) }), closeLabel: words.t("action.close"), alert: Boolean(error) });
}

function commandNote({ words, store }, result) {
  const shut = () => {
    store.dispatch({ type: "command/result", key: placeOf(store.get()), result: null });
    rest();
  };
  const close = h("button", { type: "button", class: "icon-button", aria: { label: words.t("action.close") }, onClick: shut }, icon("close"));
  const { input } = result;
  return h(
    "section",
    { class: "card command-result", role: "status", aria: { label: words.t("command.result") } },
    h("header", null, h("code", null, input), h("span", { class: "muted" }, words.t("command.no_model")), h("span", { class: "spring" }), close),
    h("pre", { tabindex: "0", role: "region", aria: { label: words.t("command.result") } }, commandOutput(words, result)),
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
