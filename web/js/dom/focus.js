/** Where the keyboard's place goes when what held it disappears: never to the top of the page. */

/** A drawer that slides in or out is hidden, and what lies under it inert, for some frames. */
const FRAMES = 30;

/** Whether no part of the page that can be used has the focus. */
export function isFocusLost() {
  const { activeElement } = document;
  return !activeElement || activeElement === document.body || Boolean(activeElement.closest("[inert], [hidden]"));
}

/** The calm place: the composer, or on a touch screen the Conversation, since the composer would bring up the keyboard. */
export function restPlace() {
  return document.getElementById(matchMedia("(pointer: coarse)").matches ? "talk" : "composer");
}

export function rest() {
  restPlace()?.focus({ preventScroll: true });
}

/** Goes to what `find` returns as soon as it can take the focus, unless the operator went somewhere else meanwhile. */
export function focusSoon(find, frames = FRAMES) {
  const from = document.activeElement;
  const element = find();
  element?.focus({ preventScroll: true });
  if (!frames || (element && document.activeElement === element)) return;
  requestAnimationFrame(() => (document.activeElement === from || isFocusLost()) && focusSoon(find, frames - 1));
}
