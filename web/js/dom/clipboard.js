/** Copying works on plain http too, where `navigator.clipboard` does not exist. */

/** @returns {Promise<boolean>} whether the text, byte for byte, is on the clipboard */
export async function copyText(text) {
  if (globalThis.isSecureContext && navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (refused) {
      console.info("clipboard refused, copying by selection", refused.name);
    }
  }
  return copyBySelection(text);
}

/** The copy event carries the exact text: a selection alone would lose what a text field normalises. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.readOnly = true;
  area.className = "off-screen";
  area.setAttribute("aria-hidden", "true");
  const focused = document.activeElement;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const exact = (event) => {
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
  };
  document.addEventListener("copy", exact, { once: true });
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", exact);
  area.remove();
  focused?.focus({ preventScroll: true });
  return copied;
}

/** Shows what to copy by hand when the browser copies nothing. */
export function selectContents(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}
