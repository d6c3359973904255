/** How full the window is: a short bar and a sentence; a click says the rest. */
import { h, setText, toggle } from "../dom/h.js";
import { openPopover } from "../dom/popover.js";
import { meterOf } from "../state/context_meter.js";
import { pageOf } from "../state/turns.js";

export function contextMeter(app) {
  const { store, words } = app;
  const { t } = words;
  const fill = h("span", { class: "meter-fill" });
  const bar = h("span", { class: "meter-bar", aria: { hidden: "true" } }, fill);
  const used = h("span", { class: "meter-used" });
  const left = h("span", { class: "meter-left" });
  const second = h("span", { class: "meter-second" });
  const lines = h("span", { class: "meter-lines" }, h("span", { class: "meter-first" }, used, left), second);
  const element = h("button", { type: "button", class: "meter", aria: { haspopup: "dialog", expanded: "false" } }, bar, lines);
  let meter = { kind: "unknown" };
  let popover = null;

  store.watch(
    (state) => [state.gateway.previews[state.view.conversationId], state.view.conversationId],
    ([preview, conversationId]) => {
      meter = meterOf(preview);
      element.hidden = !conversationId || meter.kind === "unknown";
      bar.hidden = meter.kind !== "measure";
      used.hidden = second.hidden = meter.kind !== "measure";
      if (meter.kind === "measure") {
        fill.style.width = `${100 - meter.leftPercent}%`;
        toggle(fill, "low", meter.leftPercent < 15);
        setText(used, t(meter.chatOnly ? "meter.used_chat" : "meter.used", { used: words.compact(meter.used), usable: words.compact(meter.usable) }));
        setText(left, t("meter.left", { percent: meter.leftPercent }));
        setText(second, t("meter.second", { safe: words.compact(meter.safeTokens), compaction: words.compact(meter.beforeCompaction) }));
      } else if (meter.kind === "reason") setText(left, words.tOr(`meter.short_${meter.reason}`, "meter.unavailable"));
    },
  );
  element.addEventListener("click", () => (popover ? popover.close() : open()));

  function open() {
    const panel = h("div", { class: "meter-panel", role: "dialog", tabindex: "-1", aria: { label: t("meter.title") } }, panelParts(app, meter, lastUsage(store.get())));
    element.setAttribute("aria-expanded", "true");
    popover = openPopover(panel, element, {
      align: "end",
      onClose: () => {
        popover = null;
        element.setAttribute("aria-expanded", "false");
      },
    });
    panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      popover.close();
      element.focus();
    });
    panel.addEventListener("focusout", (event) => !panel.contains(event.relatedTarget) && popover?.close());
    panel.focus();
  }

  return { element, current: () => meter };
}

function lastUsage(state) {
  return pageOf(state, state.view.conversationId).turns.findLast((turn) => turn.usage)?.usage ?? null;
}

function panelParts({ words }, meter, usage) {
  const { t, tOr, bytes } = words;
  const parts = [h("h2", null, t("meter.title"))];
  if (meter.kind === "reason") {
    parts.push(h("p", null, tOr(`meter.reason_${meter.reason}`, "meter.reason_other")), h("p", { class: "muted" }, t("meter.sends_anyway")));
  } else if (meter.kind === "measure") {
    parts.push(
      h("p", null, t("meter.sentence", { used: meter.used, usable: meter.usable, percent: meter.leftPercent })),
      meter.chatOnly ? h("p", { class: "muted" }, t("meter.chat_only")) : null,
      facts([
        [t("meter.safe"), t("meter.safe_value", { tokens: meter.safeTokens, size: bytes(meter.safeBytes) })],
        [t("meter.before_compaction"), t("meter.tokens", { n: meter.beforeCompaction })],
        [t("meter.window"), t("meter.window_value", { n: meter.window })],
        [t("meter.error"), meter.error ? t("meter.error_value", { tokens: meter.error }) : t("meter.exact")],
      ]),
    );
  }
  if (usage) parts.push(h("p", { class: "muted" }, t(usage.complete ? "meter.last_usage" : "meter.last_usage_incomplete", { input: usage.input, output: usage.output })));
  return parts;
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}
