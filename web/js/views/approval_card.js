/** What waits for the operator's decision: the whole of it, then Approve and Deny. Nothing is focused by itself. */
import { restPlace } from "../dom/focus.js";
import { h, setText } from "../dom/h.js";
import { keyedList } from "../dom/keyed_list.js";
import { oneLine } from "../dom/plain_text.js";
import { isDiff, parseDiff } from "../state/diff.js";
import { pendingOf } from "../state/permissions.js";
import { askOf, targetOf } from "../state/tool_words.js";
import { pageOf } from "../state/turns.js";

const REASON_MAX_BYTES = 512;

/** The permissions that belong to the shown Conversation. */
export function shownPermissions(state) {
  const { agentId, conversationId } = state.view;
  const listed = state.conversations[agentId]?.items.find((item) => item.conversation_id === conversationId);
  const page = pageOf(state, conversationId);
  return pendingOf(state.permissions, agentId).filter(
    ({ run_id: runId }) => listed?.running_run_id === runId || page.turns.some((turn) => turn.run_id === runId),
  );
}

export function approvalCards(app, root) {
  const { store, approving } = app;
  const list = keyedList(root, { key: (row) => row.permission.permission_id, create: (row) => approvalCard(app, row) });
  store.watch(
    (state) => [...shownPermissions(state), state.permissions.full],
    () => {
      const state = store.get();
      const pending = shownPermissions(state);
      const held = root.contains(document.activeElement);
      list.show(pending.map((permission) => ({ permission, full: state.permissions.full[permission.permission_id] ?? null })));
      if (held && !root.contains(document.activeElement)) (root.querySelector(".ask") ?? restPlace()).focus({ preventScroll: true });
      for (const { permission_id: id } of pending) {
        if (!state.permissions.full[id]) queueMicrotask(() => approving.readInFull(state.view.agentId, id));
      }
    },
  );
}

function approvalCard(app, { permission }) {
  const { t } = app.words;
  const id = permission.permission_id;
  const heading = h("h2", { class: "ask-title", id: `ask-${id}` });
  const note = h("small", { class: "ask-note" });
  const preview = h("div", { class: "ask-preview", tabindex: "0", role: "region", aria: { label: t("approval.preview") } });
  const fault = h("p", { class: "ask-fault", role: "alert", hidden: true });
  const decide = (decision, reason) => {
    if (element.contains(document.activeElement)) element.focus({ preventScroll: true });
    app.approving.decide(app.store.get().view.agentId, id, decision, reason);
  };
  const actions = actionRow(app, decide);
  const element = h("section", { class: "card ask", tabindex: "-1", aria: { labelledby: `ask-${id}` } }, h("header", { class: "ask-head" }, heading, note), preview, fault, actions.element);
  let drawnStatus = "none";

  function update({ permission: known, full }) {
    const whole = full?.permission ?? null;
    const shown = whole ?? known;
    const diff = whole?.diff && isDiff(whole.diff) ? parseDiff(whole.diff) : null;
    setText(heading, title(app, shown, diff));
    setText(note, subtitle(app, shown, diff));
    if (drawnStatus !== full?.status) preview.replaceChildren(...(whole ? previewOf(app, whole, diff) : waiting(app, id, full)));
    drawnStatus = full?.status;
    const words = full?.error ? app.words.tOr(`error.${full.error.code}`, "error.other") : "";
    fault.hidden = !words;
    setText(fault, words);
    actions.enable({ approve: Boolean(whole) && !full.deciding, deny: !full?.deciding });
  }

  return { element, update };
}

function title({ words: { t } }, permission, diff) {
  const ask = askOf(permission.tool_id);
  const target = ask === "delegate" ? oneLine(permission.preview.split("\n", 1)[0]) : (diff?.path ?? targetOf(permission.preview));
  return ask === "tool" || !target ? t("approval.tool", { tool: permission.tool_id }) : t(`approval.${ask}`, { target });
}

function subtitle({ words: { t, timeOfDay } }, permission, diff) {
  const asked = { tool: permission.tool_id, until: timeOfDay(permission.expires_at) };
  return diff ? t("approval.lines", { ...asked, n: Math.max(diff.added, diff.removed) }) : t("approval.asked_by", asked);
}

function waiting({ store, approving, words: { t } }, id, full) {
  if (full?.status !== "failed") return [h("p", { class: "ask-waiting" }, t("approval.reading"))];
  const again = () => approving.readInFull(store.get().view.agentId, id);
  return [h("p", { class: "ask-waiting" }, t("approval.unread")), h("button", { type: "button", class: "button small ask-again", onClick: again }, t("action.try_again"))];
}

function previewOf({ words: { t } }, permission, diff) {
  if (!diff) return [h("pre", { class: "ask-text" }, permission.diff ?? permission.preview)];
  const names = { add: t("diff.added"), remove: t("diff.removed") };
  return [h("div", { class: "diff", role: "list" }, diff.lines.map((line) => diffLine(line, names)))];
}

const SIGNS = { add: "+", remove: "-", same: " " };

function diffLine({ kind, number, text }, names) {
  if (kind === "gap") return h("div", { class: "diff-line gap", role: "listitem" }, "⋯");
  const spoken = names[kind] ? h("span", { class: "visually-hidden" }, names[kind]) : null;
  const sign = h("span", { class: "diff-sign", aria: { hidden: "true" } }, SIGNS[kind] ?? "");
  return h("div", { class: `diff-line ${kind}`, role: "listitem" }, h("span", { class: "diff-number" }, number ?? ""), spoken, sign, h("span", { class: "diff-text" }, text));
}

/** Approve and Deny…; Deny… first asks for an optional reason, which reaches the model as the operator's words. */
function actionRow({ words: { t } }, decide) {
  const approve = h("button", { type: "button", class: "button primary", onClick: () => decide("approve") }, t("approval.approve"));
  const deny = h("button", { type: "button", class: "button", onClick: () => ask(true) }, t("approval.deny_more"));
  const first = h("div", { class: "ask-actions" }, h("span", { class: "ask-promise" }, t("approval.promise")), deny, approve);
  const reason = h("input", { type: "text", class: "field", autocomplete: "off", maxlength: REASON_MAX_BYTES, placeholder: t("approval.reason"), aria: { label: t("approval.reason") } });
  const sure = h("button", { type: "submit", class: "button danger" }, t("approval.deny"));
  const back = h("button", { type: "button", class: "button", onClick: () => ask(false) }, t("action.back"));
  const second = h("form", { class: "ask-actions", hidden: true }, reason, back, sure);
  second.addEventListener("submit", (event) => {
    event.preventDefault();
    decide("deny", cutToBytes(reason.value.trim(), REASON_MAX_BYTES));
  });
  second.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.isComposing || event.keyCode === 229)) event.preventDefault();
    if (event.key === "Escape" && !event.isComposing) ask(false);
  });

  function ask(denying) {
    first.hidden = denying;
    second.hidden = !denying;
    (denying ? reason : deny).focus();
  }

  /** A finger that decides while the composer has the keyboard leaves it there: nothing moves under the finger. */
  const keepsKeyboard = (event) => document.activeElement?.id === "composer" && event.target.closest("button") && event.preventDefault();
  first.addEventListener("mousedown", keepsKeyboard);
  return {
    element: h("div", { class: "ask-foot" }, first, second),
    enable(allowed) {
      approve.disabled = !allowed.approve;
      deny.disabled = !allowed.deny;
      sure.disabled = !allowed.deny;
    },
  };
}

/** At most `limit` bytes of UTF-8, never half a character. */
export function cutToBytes(text, limit) {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= limit) return text;
  return new TextDecoder().decode(bytes.slice(0, limit)).replace(/\ufffd+$/, "");
}
