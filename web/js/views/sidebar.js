/** The left side: Agent, Conversations, and at its foot what belongs to this browser. */
import { h, setText, toggle } from "../dom/h.js";
import { dots, icon } from "../dom/icons.js";
import { attachMenu } from "../dom/menu.js";
import { LOCALES } from "../i18n/index.js";
import { remember, remembered } from "../flows/remembering.js";
import { agentDrawer } from "./agent_drawer.js";
import { conversationList } from "./conversation_list.js";

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
  const { t, locale } = app.words;
  const theme = remembered("theme") ?? "system";
  const languages = Object.entries(LOCALES).map(([id, { name }]) => ({ label: name, checked: id === locale, run: () => app.speak(id) }));
  const themes = ["system", "light", "dark"].map((id) => ({ label: t(`theme.${id}`), checked: id === theme, run: () => setTheme(id) }));
  return [
    { heading: t("settings.theme") },
    ...themes,
    { heading: t("settings.language") },
    ...languages,
    { separator: true },
    { label: t("settings.sign_out"), run: app.signOut },
  ];
}

function setTheme(id) {
  remember("theme", id === "system" ? null : id);
  if (id === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", id);
}
