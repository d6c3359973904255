/** What an Agent has beside its Conversations: one section each, read again and again while the panel is open. */
import { h } from "../dom/h.js";
import { oneLine } from "../dom/plain_text.js";

const BUSY_REFRESH_MS = 2_000;
const REFRESH_MS = 10_000;

/**
 * @typedef {{title: string, element: HTMLElement, refresh: () => Promise<boolean>}} AgentSection
 * `refresh` reads what the section shows and draws it; it gives whether work goes on there that is worth looking at again soon,
 * and shows its own failure. What an operator does in the section is followed by `changed()`.
 * @param {((app: object, agent: object, changed: () => void) => AgentSection)[]} makers
 */
export function openAgentPanel(app, agent, makers) {
  const { t } = app.words;
  const focused = document.activeElement;
  let timer = 0;
  const sections = makers.map((make) => make(app, agent, look));
  const close = h("button", { type: "button", class: "button", onClick: () => dialog.close() }, t("action.close"));
  const dialog = h(
    "dialog",
    { class: "dialog agent-sections", aria: { labelledby: "agent-panel-title" } },
    h("h2", { class: "dialog-title", id: "agent-panel-title" }, t("agent_panel.title", { name: oneLine(agent.name) })),
    sections.map(({ title, element }) => h("section", { class: "agent-section", aria: { label: title } }, h("h3", null, title), element)),
    h("div", { class: "dialog-actions" }, close),
  );

  async function look() {
    clearTimeout(timer);
    const busy = document.visibilityState === "visible" && (await Promise.all(sections.map(({ refresh }) => refresh()))).includes(true);
    clearTimeout(timer);
    if (dialog.open) timer = setTimeout(look, busy ? BUSY_REFRESH_MS : REFRESH_MS);
  }

  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    dialog.remove();
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
  look();
}
