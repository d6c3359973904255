/** What belongs to this browser: appearance and language. */
import { LOCALES } from "../i18n/index.js";
import { remember, remembered } from "../flows/remembering.js";

/**
 * @param {{t: (key: string) => string, locale: string}} words
 * @param {(locale: string) => void} speak
 * @returns {import("../dom/menu.js").MenuItem[]}
 */
export function settingsItems({ t, locale }, speak) {
  const theme = remembered("theme") ?? "system";
  const themes = ["system", "light", "dark"].map((id) => ({ label: t(`theme.${id}`), checked: id === theme, run: () => setTheme(id) }));
  const languages = Object.entries(LOCALES).map(([id, { name }]) => ({ label: name, checked: id === locale, run: () => speak(id) }));
  return [{ heading: t("settings.theme") }, ...themes, { heading: t("settings.language") }, ...languages];
}

function setTheme(id) {
  remember("theme", id === "system" ? null : id);
  if (id === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", id);
}
