/** The Conversations of the shown Agent, grouped by age, each with its marker and its menu. */
import { h, setAria, setText, toggle } from "../dom/h.js";
import { dots, icon } from "../dom/icons.js";
import { keyedList } from "../dom/keyed_list.js";
import { attachMenu } from "../dom/menu.js";
import { oneLine } from "../dom/plain_text.js";
import { agentById } from "../state/agents.js";
import { groupByAge, listOf } from "../state/conversations.js";
import { pendingOf } from "../state/permissions.js";

const SKELETON_ROWS = 5;

export function conversationList(app) {
  const { store, words, navigation } = app;
  const { t } = words;
  const fresh = h("button", { type: "button", class: "new-conversation", onClick: () => startNew(app) }, icon("plus"), t("conversation.new"));
  const list = h("div", { class: "conversation-groups" });
  const state = h("div", { class: "list-state" });
  const groups = keyedList(list, { key: (group) => group.label, create: (group) => groupView(app, group) });

  store.watch(
    ({ view, conversations, permissions }) => [view.agentId, view.conversationId, conversations[view.agentId], permissions.pending[view.agentId]],
    () => {
      const { view } = store.get();
      const known = listOf(store.get(), view.agentId);
      groups.show(groupByAge(known.items, Date.now()).map((group) => ({ ...group, rows: group.items.map((item) => rowOf(store.get(), item)) })));
      state.replaceChildren(...listState(app, known));
      setAria(fresh, "current", view.conversationId === null ? "page" : null);
    },
  );
  return { element: h("div", { class: "conversations" }, fresh, list, state), startNew: () => navigation.go(store.get().view.agentId, null) };
}

export function startNew({ store, navigation, focusComposer }) {
  navigation.go(store.get().view.agentId, null);
  focusComposer();
}

function rowOf(state, item) {
  const { agentId, conversationId } = state.view;
  const waits = pendingOf(state.permissions, agentId).some((permission) => permission.run_id === item.running_run_id);
  return { item, current: item.conversation_id === conversationId, mark: waits ? "waits" : item.running_run_id ? "runs" : "" };
}

function listState({ words: { t }, lists, store }, known) {
  if (known.status === "loading") return Array.from({ length: SKELETON_ROWS }, () => h("div", { class: "skeleton-row", aria: { hidden: "true" } }));
  if (known.status === "failed") {
    const again = h("button", { type: "button", class: "link-button", onClick: () => lists.loadConversations(store.get().view.agentId) }, t("action.try_again"));
    return [h("p", { class: "list-note" }, t("conversation.list_failed")), again];
  }
  if (known.status === "ready" && !known.items.length) return [h("p", { class: "list-note" }, t("conversation.none"))];
  return [];
}

function groupView(app, { label }) {
  const rows = h("ul", { class: "conversation-rows" });
  const list = keyedList(rows, { key: (row) => row.item.conversation_id, create: (row) => rowView(app, row.item.conversation_id) });
  const heading = h("h2", { class: "group-label" }, app.words.t(`age.${label}`));
  return { element: h("section", { class: "conversation-group" }, heading, rows), update: (group) => list.show(group.rows) };
}

function rowView(app, id) {
  const { t } = app.words;
  let shown = null;
  const title = h("bdi", { class: "row-title" });
  const from = h("span", { class: "row-from", hidden: true }, icon("branch"));
  const mark = h("span", { class: "dot", hidden: true });
  const spoken = h("span", { class: "visually-hidden" });
  const open = h("button", { type: "button", class: "row-open", onClick: () => app.navigation.go(app.store.get().view.agentId, id) }, from, title, mark, spoken);
  const more = h("button", { type: "button", class: "icon-button row-more" }, dots());
  attachMenu(more, () => conversationMenu(app, shown.item), { align: "start", label: t("conversation.actions") });
  const element = h("li", { class: "row" }, open, more);

  function update(row) {
    shown = row;
    const name = oneLine(row.item.title) || t("conversation.untitled");
    setText(title, name);
    const askedBy = askedByWords(app, row.item.asked_by);
    open.title = askedBy ? `${name} · ${askedBy}` : name;
    from.hidden = !askedBy;
    setAria(more, "label", t("conversation.actions_of", { title: name }));
    setAria(open, "current", row.current ? "page" : null);
    toggle(element, "current", row.current);
    toggle(mark, "waits", row.mark === "waits");
    mark.hidden = !row.mark;
    setText(spoken, [askedBy, row.mark ? t(`mark.${row.mark}`) : ""].filter(Boolean).join(". "));
  }
  return { element, update };
}

/** Whose delegation made a Conversation, of one that was. */
function askedByWords({ store, words: { t } }, agentId) {
  if (!agentId) return "";
  const agent = agentById(store.get(), agentId);
  return agent ? t("conversation.asked_by", { name: oneLine(agent.name) }) : t("conversation.asked_by_deleted");
}

/** The same actions in the list and in the header. */
export function conversationMenu(app, conversation) {
  const { t } = app.words;
  const { agentId } = app.store.get().view;
  const busy = Boolean(conversation.running_run_id);
  return [
    { label: t("action.rename_more"), run: () => app.organising.renameConversation(agentId, conversation) },
    {
      label: t("conversation.branch_here"),
      disabled: busy,
      note: busy ? t("conversation.branch_busy") : undefined,
      run: () => app.organising.branch(agentId, conversation.conversation_id),
    },
    { separator: true },
    {
      label: t("action.delete_more"),
      danger: true,
      disabled: busy,
      note: busy ? t("conversation.delete_busy") : undefined,
      run: () => app.organising.deleteConversation(agentId, conversation),
    },
  ];
}
