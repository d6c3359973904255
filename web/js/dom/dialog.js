/** Questions that must be answered before anything else: confirm, and ask for a name. */
import { h } from "./h.js";

/**
 * @param {{title: string, body?: (Node|string)[], confirm: string, cancel: string, danger?: boolean}} words
 * @returns {Promise<boolean>}
 */
export function confirmDialog({ title, body = [], confirm, cancel, danger = false }) {
  const action = h("button", { type: "submit", value: "yes", class: danger ? "button danger" : "button primary" }, confirm);
  const back = h("button", { type: "submit", value: "", class: "button", autofocus: danger }, cancel);
  return ask(title, body.map((part) => (typeof part === "string" ? h("p", null, part) : part)), [back, action]).then(
    (answer) => answer === "yes",
  );
}

/**
 * @param {{title: string, label: string, value?: string, maxLength: number, confirm: string, cancel: string,
 *   check: (text: string) => string|null}} words `check` gives the reason against a text, or null
 * @returns {Promise<string|null>} the accepted text, or null when it was left
 */
export function promptDialog({ title, label, value = "", confirm, cancel, check }) {
  const field = h("input", { type: "text", class: "field", id: "dialog-field", autocomplete: "off", aria: { describedby: "dialog-fault" } });
  const fault = h("p", { class: "field-fault", id: "dialog-fault", role: "alert" });
  field.value = value;
  const back = h("button", { type: "button", class: "button" }, cancel);
  const action = h("button", { type: "submit", value: "yes", class: "button primary" }, confirm);
  const answer = ask(title, [h("label", { class: "field-label", for: "dialog-field" }, label), field, fault], [back, action], (form, close) => {
    back.addEventListener("click", () => close(""));
    form.addEventListener("submit", (event) => {
      const reason = check(field.value);
      if (!reason) return;
      event.preventDefault();
      fault.textContent = reason;
      field.setAttribute("aria-invalid", "true");
      field.focus();
    });
    field.select();
  });
  return answer.then((given) => (given === "yes" ? field.value.trim() : null));
}

/** @returns {Promise<string>} the value of the button that closed it; empty for Escape */
function ask(title, body, buttons, prepare) {
  const heading = h("h2", { class: "dialog-title", id: "dialog-title" }, title);
  const form = h("form", { method: "dialog" }, heading, body, h("div", { class: "dialog-actions" }, buttons));
  const dialog = h("dialog", { class: "dialog", aria: { labelledby: "dialog-title" } }, form);
  const focused = document.activeElement;
  document.body.append(dialog);
  dialog.showModal();
  prepare?.(form, (value) => dialog.close(value));
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (focused?.isConnected) focused.focus({ preventScroll: true });
      resolve(dialog.returnValue);
    });
  });
}
