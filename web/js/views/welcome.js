/** First use and every new Conversation: what this is, which model answers, and something to start from; or that there is no going on here. */
import { h, setText } from "../dom/h.js";
import { oneLine } from "../dom/plain_text.js";
import { agentById, isClosed } from "../state/agents.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { chosenModel } from "../state/gateway.js";

const EXAMPLES = ["explain", "files", "write"];

/** @param {AbortSignal} signal ends with the card */
export function welcome(app, signal) {
  const element = h("div", { class: "welcome" });
  app.store.watch(
    (state) => (isClosed(state) ? agentById(state, state.view.agentId).phase : null),
    (phase) => element.replaceChildren(...(phase ? closed(app, phase) : opening(app, signal))),
    { signal },
  );
  return element;
}

/** A damaged Agent, or one that is being deleted: what happened, what is kept, what to do. */
function closed(app, phase) {
  const { store, navigation, words: { t } } = app;
  const name = oneLine(agentById(store.get(), store.get().view.agentId).name);
  const showAll = () => {
    store.dispatch({ type: "view/agents_toggled", open: true });
    navigation.openDrawer("nav");
  };
  return [
    h("h2", { class: "welcome-title" }, t(`agent.closed_title_${phase}`, { name })),
    h("p", { class: "welcome-text" }, t(`agent.closed_${phase}`)),
    h("button", { type: "button", class: "button welcome-action", onClick: showAll }, t("agent.show_all")),
  ];
}

function opening(app, signal) {
  const { store } = app;
  const { t } = app.words;
  const agentName = oneLine(agentById(store.get(), store.get().view.agentId)?.name);
  const model = h("p", { class: "welcome-model" });
  const examples = EXAMPLES.map((name) => {
    const text = t(`welcome.example_${name}`);
    return h("li", null, h("button", { type: "button", class: "example", onClick: () => app.sending.fill(text) }, text));
  });
  store.watch((state) => modelWords(app, state), (words) => setText(model, words), { signal });
  return [
    h("h2", { class: "welcome-title" }, t("welcome.title")),
    h("p", { class: "welcome-text" }, agentName ? t("welcome.text", { name: agentName }) : t("welcome.text_unnamed")),
    h("ul", { class: "examples", aria: { label: t("welcome.examples") } }, examples),
    model,
  ];
}

function modelWords({ words }, state) {
  const { agentId, conversationId } = state.view;
  const model = chosenModel(state, draftOf(state, draftKey(agentId, conversationId)));
  if (!model) return state.gateway.models.status === "ready" ? words.t("model.none") : "";
  if (!model.available) return words.t("welcome.model_unavailable", { model: model.label });
  return words.t("welcome.model", { model: model.label, window: words.compact(model.window) });
}
