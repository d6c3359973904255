/** The sign-in page: one token, one button, and back to where the operator was. */
import { createApi } from "./api.js";
import { h, setText } from "./dom/h.js";
import { dots } from "./dom/icons.js";
import { attachMenu } from "./dom/menu.js";
import { remember, remembered } from "./flows/remembering.js";
import { createWords, pickLocale } from "./i18n/index.js";
import { settingsItems } from "./views/settings_menu.js";
import { startState } from "./views/start_state.js";

const words = createWords(pickLocale(remembered("locale"), navigator.languages));
const { t } = words;
const api = createApi({ fetch: (...args) => fetch(...args), onSignedOut: () => {} });

function speak(locale) {
  remember("locale", locale);
  location.reload();
}

function settings() {
  const button = h("button", { type: "button", class: "icon-button login-settings", aria: { label: t("settings.label") } }, dots());
  attachMenu(button, () => settingsItems(words, speak));
  return button;
}

function goOn() {
  location.replace(`/${location.hash}`);
}

function form() {
  const field = h("input", { type: "password", name: "token", id: "token", class: "field", required: true, autocomplete: "current-password", autofocus: true, spellcheck: "false", aria: { describedby: "login-fault login-hint" } });
  const button = h("button", { type: "submit", class: "button primary" }, t("login.button"));
  const fault = h("p", { class: "field-fault", id: "login-fault", role: "alert" });
  const expired = location.search === "?expired" ? h("p", { class: "login-note", role: "status" }, t("login.expired")) : null;
  const element = h(
    "form",
    { class: "login-form", method: "post", action: "/login" },
    h("span", { class: "agent-sign login-sign", aria: { hidden: "true" } }, "A"),
    h("h1", null, t("login.title")),
    expired,
    h("label", { class: "field-label", for: "token" }, t("login.field")),
    field,
    fault,
    button,
    h("p", { class: "login-hint", id: "login-hint" }, t("login.hint")),
  );
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    setText(fault, "");
    try {
      await api.login(field.value.trim());
      goOn();
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      setText(fault, error.code === "unauthenticated" ? t("login.wrong") : words.tOr(`error.${error.code}`, "error.other"));
      field.setAttribute("aria-invalid", "true");
      field.select();
    } finally {
      button.disabled = false;
    }
  });
  return { element, field };
}

async function start() {
  const place = document.getElementById("login");
  const state = startState(words, place, "login-form");
  try {
    const { authenticated } = await api.session();
    if (authenticated) return goOn();
    const { element, field } = form();
    place.replaceChildren(element, settings());
    field.focus();
  } catch (error) {
    if (error.name !== "ApiError") throw error;
    state.failed(start);
  } finally {
    state.done();
  }
}

document.documentElement.lang = words.locale;
document.title = t("login.title");

start();
