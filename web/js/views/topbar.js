/** The line above the Conversation: its title and what can be done with the whole of it. */
import { h, setAria, setText } from "../dom/h.js";
import { dots, icon } from "../dom/icons.js";
import { attachMenu } from "../dom/menu.js";
import { oneLine } from "../dom/plain_text.js";
import { conversationById } from "../state/conversations.js";
import { activeTurn, pageOf } from "../state/turns.js";
import { conversationMenu } from "./conversation_list.js";

export function topbar(app, root) {
  const { store, navigation, organising } = app;
  const { t } = app.words;
  const menu = h("button", { type: "button", class: "icon-button only-narrow", aria: { label: t("nav.open") }, onClick: () => navigation.openDrawer("nav") }, icon("menu"));
  const title = h("h1", { class: "title" });
  const branch = h("button", { type: "button", class: "quiet-button only-wide" }, t("conversation.branch"));
  branch.title = t("conversation.branch_here");
  const details = h("button", { type: "button", class: "quiet-button" }, t("details.button"));
  const more = h("button", { type: "button", class: "icon-button", aria: { label: t("conversation.actions") } }, dots());
  branch.addEventListener("click", () => organising.branch(store.get().view.agentId, store.get().view.conversationId));
  details.addEventListener("click", () => app.toggleDetails());
  attachMenu(more, () => conversationMenu(app, current(store.get())));
  root.replaceChildren(menu, title, branch, details, more);

  store.watch(
    (state) => [current(state), pageOf(state, state.view.conversationId), state.view.details.open, state.view.conversationId],
    ([conversation, page, open, conversationId]) => {
      const name = conversationId ? titleOf(conversation, page) : t("conversation.new");
      setText(title, name);
      title.title = name;
      branch.hidden = !conversationId || !page.turns.length;
      branch.disabled = Boolean(activeTurn(page));
      details.hidden = !conversationId || !page.turns.length;
      setAria(details, "expanded", open);
      more.hidden = !conversation;
    },
  );

  /** One that is still being read is not untitled. */
  function titleOf(conversation, page) {
    const coming = !conversation && (page.status === "idle" || page.status === "loading");
    return coming ? t("conversation.loading") : oneLine(conversation?.title) || t("conversation.untitled");
  }
}

function current(state) {
  const { agentId, conversationId } = state.view;
  return conversationById(state, agentId, conversationId) ?? pageOf(state, conversationId).conversation;
}
