/** What stands in place of a page that has not begun: that it is being opened, or that it could not be, and Try again. */
import { h } from "../dom/h.js";

/** A server that answers sooner than this is not worth a word. */
const PATIENCE_MS = 400;

/**
 * @param {{t: (key: string) => string}} words
 * @param {HTMLElement} place
 * @param {string} className of what is shown
 * @param {() => void} reveal makes the place visible
 */
export function startState({ t }, place, className, reveal = () => {}) {
  const timer = setTimeout(() => show(h("p", { class: "muted", role: "status" }, t("start.waiting"))), PATIENCE_MS);

  function show(...parts) {
    place.replaceChildren(h("div", { class: className }, parts));
    reveal();
  }

  return {
    done: () => clearTimeout(timer),
    failed(again) {
      clearTimeout(timer);
      const button = h("button", { type: "button", class: "button", onClick: () => again() }, t("action.try_again"));
      show(h("div", { role: "alert" }, h("h2", null, t("start.failed")), h("p", null, t("start.failed_note"))), button);
      button.focus({ preventScroll: true });
    },
  };
}
