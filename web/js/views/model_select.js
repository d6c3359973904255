/** Which model answers the next message. */
import { h } from "../dom/h.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { chosenModel } from "../state/gateway.js";

export function modelSelect(app) {
  const { store } = app;
  const { t } = app.words;
  const select = h("select", { class: "model-select", aria: { label: t("model.label") } });
  const element = h("span", { class: "model-place" }, select);
  const keyOf = ({ view }) => draftKey(view.agentId, view.conversationId);

  store.watch(
    (state) => state.gateway.models,
    ({ items, status }) => {
      element.hidden = !items.length && status !== "ready";
      select.disabled = items.length < 2;
      const empty = items.length ? [] : [h("option", null, t("model.none"))];
      select.replaceChildren(...empty, ...items.map((model) => option(app, model)));
    },
  );
  store.watch(
    (state) => [chosenModel(state, draftOf(state, keyOf(state))), state.gateway.models],
    ([model]) => {
      if (model) select.value = model.model_id;
    },
  );
  select.addEventListener("change", () => {
    store.dispatch({ type: "draft/model", key: keyOf(store.get()), modelId: select.value });
    const { agentId, conversationId } = store.get().view;
    if (conversationId) app.lists.loadPreview(agentId, conversationId);
  });
  return element;
}

function option({ words: { t } }, model) {
  const label = model.available ? model.label : t("model.unavailable_option", { model: model.label });
  return h("option", { value: model.model_id, disabled: !model.available }, label);
}
