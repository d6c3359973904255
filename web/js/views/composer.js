/** Where the operator writes: text, files it names, model, compaction, the meter, and Send. */
import { h, setAria, setText, toggle } from "../dom/h.js";
import { dots, icon, square } from "../dom/icons.js";
import { attachMenu } from "../dom/menu.js";
import { byteLength, oneLine } from "../dom/plain_text.js";
import { isClosed } from "../state/agents.js";
import { messageFit, MESSAGE_MAX_BYTES } from "../state/context_meter.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { attachmentsOf, MAX_ATTACHMENTS, namedFiles } from "../state/file_names.js";
import { activeTurn, pageOf } from "../state/turns.js";
import { completion } from "./completion.js";
import { contextMeter } from "./context_meter.js";
import { modelSelect } from "./model_select.js";
import { fileReason } from "./server_words.js";

export function composer(app, root) {
  const { store } = app;
  const { t } = app.words;
  const box = h("textarea", { class: "composer-text", id: "composer", rows: "1", placeholder: t("composer.placeholder"), aria: { label: t("composer.label") }, enterkeyhint: "send", disabled: true });
  const chips = h("ul", { class: "chips composer-chips", aria: { label: t("composer.files") } });
  const hint = h("p", { class: "composer-hint", role: "status" });
  const meter = contextMeter(app);
  const send = h("button", { type: "button", class: "send" });
  const more = h("button", { type: "button", class: "icon-button", aria: { label: t("composer.more") } }, dots());
  const row = h("div", { class: "composer-row" }, modelSelect(app), more, h("span", { class: "spring" }), meter.element, send);
  const compactChip = h("button", { type: "button", class: "chip removable", onClick: () => setCompact(app, false) }, t("composer.compact_on"), icon("close"));
  const element = h("div", { class: "card composer" }, chips, box, hint, row);
  root.append(element);
  const suggestions = completion(app, box, element);
  attachMenu(more, () => moreMenu(app, suggestions), { align: "start" });

  box.addEventListener("input", () => {
    const { agentId, conversationId } = store.get().view;
    store.dispatch({ type: "draft/typed", key: draftKey(agentId, conversationId), text: box.value });
    grow(box);
  });
  box.addEventListener("keydown", (event) => onKey(event, suggestions, app));
  let stoppedMeaningStop = -LATE_CLICK_MS;
  send.addEventListener("click", () => {
    if (sendMeans(store.get()) === "stop") app.stopRun();
    else if (performance.now() - stoppedMeaningStop >= LATE_CLICK_MS) app.sending.send();
  });

  store.watch(
    (state) => [state.view.agentId, currentDraft(state), state.gateway.files[state.view.agentId], activeTurn(pageOf(state, state.view.conversationId)), state.gateway.previews[state.view.conversationId], isClosed(state)],
    ([agentId, draft, files]) => {
      box.disabled = !agentId;
      box.readOnly = draft.sending;
      toggle(box, "long", draft.text.length > LONG_CHARS);
      if (box.value !== draft.text) {
        box.value = draft.text;
        grow(box);
      }
      drawChips(app, chips, draft, files, compactChip);
      const fit = messageFit(quickBytes(draft.text), meter.current());
      const waits = sendMeans(store.get()) === "stop" && draft.text.trim();
      setText(hint, waits ? t("composer.waits") : hintWords(app, draft, files, fit));
      toggle(hint, "bad", fit === "too_long");
      if (drawSend(app, send, draft, fit)) stoppedMeaningStop = performance.now();
    },
  );
  return { focus: () => box.focus({ preventScroll: true }) };
}

/** An Enter that picks a word of an input method never sends: `keyCode` 229 is what older engines report for it. */
function onKey(event, suggestions, app) {
  if (event.isComposing || event.keyCode === 229) return;
  if (suggestions.onKey(event)) return;
  if (event.key !== "Enter" || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (!event.repeat && sendMeans(app.store.get()) === "send") app.sending.send();
}

function currentDraft(state) {
  return draftOf(state, draftKey(state.view.agentId, state.view.conversationId));
}

/** The one round button: Stop while a Run is active, unless a command is written; else Send. */
function sendMeans(state) {
  const draft = currentDraft(state);
  if (activeTurn(pageOf(state, state.view.conversationId)) && !draft.text.startsWith("/")) return "stop";
  if (isClosed(state)) return "nothing";
  return draft.text.trim() && !draft.sending && messageFit(quickBytes(draft.text), { kind: "unknown" }) === "fine" ? "send" : "nothing";
}

/** @returns {boolean} whether the button was Stop until now */
function drawSend({ words: { t }, store }, send, draft, fit) {
  const means = sendMeans(store.get());
  const stops = means === "stop";
  send.disabled = means === "nothing" || fit === "too_long";
  toggle(send, "busy", draft.sending);
  const before = send.getAttribute("aria-label");
  if (before === t(stops ? "run.stop" : "composer.send")) return false;
  setAria(send, "label", t(stops ? "run.stop" : "composer.send"));
  send.replaceChildren(stops ? square() : icon("arrowUp"));
  return before === t("run.stop");
}

/** Below this many characters a text cannot pass the byte limit, whatever is in it. */
function quickBytes(text) {
  return text.length * 3 <= MESSAGE_MAX_BYTES / 4 ? text.length : byteLength(text);
}

function hintWords(app, draft, files, fit) {
  const { t, bytes } = app.words;
  if (fit === "too_long") return t("composer.too_long", { size: bytes(byteLength(draft.text)), max: bytes(MESSAGE_MAX_BYTES) });
  if (fit === "beyond_safe") return t("composer.beyond_safe");
  const named = namedFiles(draft.text, files).filter((file) => !draft.dismissed.includes(file.path));
  const refused = named.find((file) => !file.attachable);
  if (refused) return t("composer.file_refused", { path: oneLine(refused.path), reason: fileReason(app.words, refused) });
  return named.length > MAX_ATTACHMENTS ? t("composer.too_many_files", { max: MAX_ATTACHMENTS }) : "";
}

function drawChips(app, list, draft, files, compactChip) {
  const { t, bytes } = app.words;
  const rows = attachmentsOf(draft, files).map((file) => {
    const path = oneLine(file.path);
    const remove = () => app.store.dispatch({ type: "draft/file_dismissed", key: keyOf(app), path: file.path });
    const label = t("composer.remove_file", { path });
    return h("li", null, h("button", { type: "button", class: "chip removable", title: label, aria: { label }, onClick: remove }, t("turn.file", { path, size: bytes(file.bytes) }), icon("close")));
  });
  if (draft.compact) rows.push(h("li", null, compactChip));
  const focused = [...list.children].findIndex((row) => row.contains(document.activeElement));
  list.hidden = !rows.length;
  list.replaceChildren(...rows);
  if (focused >= 0) (rows[Math.min(focused, rows.length - 1)]?.firstChild ?? document.getElementById("composer")).focus();
}

function keyOf({ store }) {
  const { agentId, conversationId } = store.get().view;
  return draftKey(agentId, conversationId);
}

function setCompact(app, compact) {
  app.store.dispatch({ type: "draft/compact", key: keyOf(app), compact });
}

function moreMenu(app, suggestions) {
  const { t } = app.words;
  const { compact, text } = currentDraft(app.store.get());
  return [
    { label: t("composer.compact"), note: t("composer.compact_note"), checked: compact, run: () => setCompact(app, !compact) },
    { label: t("composer.attach"), note: t("composer.attach_note"), run: () => suggestions.start("@") },
    { label: t("composer.commands"), note: t("composer.commands_note"), disabled: Boolean(text), run: () => suggestions.start("/") },
  ];
}

/** A click on Stop that comes as the Run ends by itself must not send what is written. */
const LATE_CLICK_MS = 500;

/** From here on the field has its greatest height and the browser need not measure the text to find it. */
const LONG_CHARS = 4_000;

const GROWS_BY_ITSELF = globalThis.CSS?.supports?.("field-sizing", "content");

/** Browsers without `field-sizing` get the height of the text by measuring it. */
function grow(box) {
  if (GROWS_BY_ITSELF || box.value.length > LONG_CHARS) return;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}
