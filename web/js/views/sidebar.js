/** The left side: Agent, Conversations, and at its foot what belongs to this browser. */
import { h, setText, toggle } from "../dom/h.js";
import { dots, icon } from "../dom/icons.js";
import { attachMenu } from "../dom/menu.js";
import { agentDrawer } from "./agent_drawer.js";
import { conversationList } from "./conversation_list.js";
import { settingsItems } from "./settings_menu.js";

export function sidebar(app, root) {
  const { t } = app.words;
  root.setAttribute("aria-label", t("nav.label"));
  const close = h("button", { type: "button", class: "icon-button drawer-close", aria: { label: t("action.close") }, onClick: app.navigation.closeDrawer }, icon("close"));
  const top = h("div", { class: "sidebar-top" }, agentDrawer(app), close);
  root.replaceChildren(top, conversationList(app).element, foot(app));
}

function foot(app) {
  const { store, words } = app;
  const { t } = words;
  const dot = h("span", { class: "dot" });
  const label = h("span", { class: "server-state" });
  const settings = h("button", { type: "button", class: "icon-button", aria: { label: t("settings.label") } }, dots());
  attachMenu(settings, () => settingsMenu(app), { align: "end" });
  store.watch(
    ({ gateway }) => serverState(gateway),
    (state) => {
      setText(label, t(`server.${state}`));
      toggle(dot, "waits", ["loading", "degraded", "draining"].includes(state));
      toggle(dot, "lost", state === "unreachable");
    },
  );
  return h("div", { class: "sidebar-foot" }, h("p", { class: "server", role: "status" }, dot, label), settings);
}

export function serverState({ health, reachable }) {
  if (!reachable) return "unreachable";
  if (!health) return "unknown";
  return ["loading", "ready", "degraded", "draining"].includes(health.status) ? health.status : "unknown";
}

function settingsMenu(app) {
  return [...settingsItems(app.words, app.speak), { separator: true }, { label: app.words.t("settings.sign_out"), run: app.signOut }];
}
