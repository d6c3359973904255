/** A menu button: arrow keys, Home, End, Escape, and the focus goes back where it came from. */
import { h } from "./h.js";
import { icon } from "./icons.js";
import { openPopover } from "./popover.js";

/**
 * @typedef {{label: string, run: () => void, danger?: boolean, checked?: boolean|null, disabled?: boolean, note?: string}
 *   | {heading: string} | {separator: true}} MenuItem
 */

/** Makes `button` open a menu of `items()`, read anew at each opening. */
export function attachMenu(button, items, { align = "end", label } = {}) {
  let popover = null;
  button.setAttribute("aria-haspopup", "menu");
  button.setAttribute("aria-expanded", "false");

  function open(focusLast = false) {
    const panel = h("div", { class: "menu", role: "menu", aria: { label: label ?? button.getAttribute("aria-label") ?? button.textContent } });
    panel.append(...items().map((item) => menuRow(item, close)));
    button.setAttribute("aria-expanded", "true");
    popover = openPopover(panel, button, { align, onClose: closed });
    panel.addEventListener("keydown", (event) => onKey(event, panel));
    const rows = choices(panel);
    (focusLast ? rows.at(-1) : rows[0])?.focus();
  }

  function closed() {
    popover = null;
    button.setAttribute("aria-expanded", "false");
  }

  function close(returnFocus = true) {
    popover?.close();
    if (returnFocus) button.focus();
  }

  function onKey(event, panel) {
    const rows = choices(panel);
    const at = rows.indexOf(document.activeElement);
    const to = { ArrowDown: (at + 1) % rows.length, ArrowUp: (at - 1 + rows.length) % rows.length, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      rows[to].focus();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "Tab") close();
  }

  button.addEventListener("click", () => (popover ? close() : open()));
  button.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    if (!popover) open(event.key === "ArrowUp");
  });
}

function choices(panel) {
  return [...panel.querySelectorAll("[role^=menuitem]:not([aria-disabled=true])")];
}

function menuRow(item, close) {
  if (item.separator) return h("div", { class: "menu-line", role: "separator" });
  if (item.heading) return h("div", { class: "menu-heading", role: "presentation" }, item.heading);
  const checkable = item.checked !== undefined && item.checked !== null;
  return h(
    "button",
    {
      type: "button",
      class: item.danger ? "menu-item danger" : "menu-item",
      role: checkable ? "menuitemcheckbox" : "menuitem",
      tabindex: "-1",
      aria: { checked: checkable ? item.checked : null, disabled: item.disabled ? "true" : null },
      onClick: () => {
        if (item.disabled) return;
        close();
        item.run();
      },
    },
    h("span", { class: "menu-mark" }, item.checked ? icon("check") : null),
    h("span", { class: "menu-label" }, item.label, item.note ? h("small", null, item.note) : null),
  );
}
