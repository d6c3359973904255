/** First use and every new Conversation: what this is, which model answers, and something to start from. */
import { h, setText } from "../dom/h.js";
import { oneLine } from "../dom/plain_text.js";
import { agentById } from "../state/agents.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { chosenModel } from "../state/gateway.js";

const EXAMPLES = ["explain", "files", "write"];

/** @param {AbortSignal} signal ends with the card */
export function welcome(app, signal) {
  const { store } = app;
  const { t } = app.words;
  const agentName = oneLine(agentById(store.get(), store.get().view.agentId)?.name);
  const model = h("p", { class: "welcome-model" });
  const examples = EXAMPLES.map((name) => {
    const text = t(`welcome.example_${name}`);
    return h("li", null, h("button", { type: "button", class: "example", onClick: () => app.sending.fill(text) }, text));
  });
  const element = h(
    "div",
    { class: "welcome" },
    h("h2", { class: "welcome-title" }, t("welcome.title")),
    h("p", { class: "welcome-text" }, agentName ? t("welcome.text", { name: agentName }) : t("welcome.text_unnamed")),
    h("ul", { class: "examples", aria: { label: t("welcome.examples") } }, examples),
    model,
  );
  store.watch((state) => modelWords(app, state), (words) => setText(model, words), { signal });
  return element;
}

function modelWords({ words }, state) {
  const { agentId, conversationId } = state.view;
  const model = chosenModel(state, draftOf(state, draftKey(agentId, conversationId)));
  if (!model) return state.gateway.models.status === "ready" ? words.t("model.none") : "";
  if (!model.available) return words.t("welcome.model_unavailable", { model: model.label });
  return words.t("welcome.model", { model: model.label, window: words.compact(model.window) });
}
