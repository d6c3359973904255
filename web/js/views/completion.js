/** What the composer offers while typing: commands behind a first `/`, workspace paths behind `@`. */
import { agentPath } from "../api.js";
import { h, setAria, setText } from "../dom/h.js";
import { oneLine } from "../dom/plain_text.js";
import { draftKey } from "../state/drafts.js";
import { completionAt } from "../state/file_names.js";
import { commandHelp, fileReason } from "./server_words.js";

const FILE_OFFERS = 20;
const ASK_DELAY_MS = 120;

export function completion(app, box, place) {
  const { store, words } = app;
  const { t } = words;
  const list = h("ul", { class: "offers", id: "offers", role: "listbox", hidden: true, aria: { label: t("completion.label") } });
  const count = h("p", { class: "visually-hidden", role: "status" });
  place.prepend(list, count);
  for (const [name, value] of Object.entries({ autocomplete: "list", controls: "offers", expanded: "false", haspopup: "listbox" })) setAria(box, name, value);
  box.setAttribute("role", "combobox");
  let offers = [];
  let at = 0;
  let span = null;
  let asked = 0;

  function close() {
    asked += 1;
    offers = [];
    span = null;
    list.hidden = true;
    setAria(box, "expanded", "false");
    setAria(box, "activedescendant", null);
    setText(count, "");
  }

  /** An answer that comes after more was typed is no longer asked for. */
  async function look() {
    const mine = ++asked;
    const found = completionAt(box.value, box.selectionStart);
    if (!found || box.readOnly) return close();
    const { agentId } = store.get().view;
    const next = found.kind === "command" ? await commandOffers(app, agentId, found.prefix) : await fileOffers(app, agentId, found.prefix, () => mine === asked);
    if (mine !== asked || !next.length) return mine === asked ? close() : undefined;
    span = found;
    offers = next;
    at = 0;
    draw();
    setText(count, t("completion.count", { n: offers.length }));
  }

  function draw() {
    list.hidden = false;
    setAria(box, "expanded", "true");
    list.replaceChildren(...offers.map((offer, index) => row(offer, index)));
    setAria(box, "activedescendant", `offer-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function row(offer, index) {
    const element = h("li", { class: "offer", id: `offer-${index}`, role: "option", aria: { selected: index === at, disabled: offer.disabled ? "true" : null } }, h("code", null, offer.label), h("span", { class: "offer-note" }, offer.note));
    element.addEventListener("mousedown", (event) => {
      event.preventDefault();
    });
    element.addEventListener("click", () => !offer.disabled && choose(offer));
    return element;
  }

  function choose(offer) {
    const { start, end } = span;
    const text = box.value.slice(0, start) + offer.text + box.value.slice(end);
    const { agentId, conversationId } = store.get().view;
    if (offer.file) store.dispatch({ type: "files/offered", agentId, file: offer.file });
    store.dispatch({ type: "draft/typed", key: draftKey(agentId, conversationId), text });
    box.focus();
    box.setSelectionRange(start + offer.text.length, start + offer.text.length);
    close();
  }

  /** @returns {boolean} whether the key was for the offers */
  function onKey(event) {
    if (list.hidden || !offers.length) return false;
    const { key } = event;
    const exact = span.kind === "command" && offers[at].whole === box.value.trim();
    if (key === "ArrowDown" || key === "ArrowUp") at = (at + (key === "ArrowDown" ? 1 : -1) + offers.length) % offers.length;
    else if (key === "Escape") close();
    else if (key === "Tab" || (key === "Enter" && !event.shiftKey && !exact)) {
      if (!offers[at].disabled) choose(offers[at]);
      else if (key === "Tab") return false;
    } else {
      if (key === "Enter") close();
      return false;
    }
    event.preventDefault();
    event.stopPropagation();
    if (!list.hidden) draw();
    return true;
  }

  /** From the menu: puts the sign where the caret is and offers. */
  function start(sign) {
    box.focus();
    if (sign === "/" && box.value) return;
    const before = box.value.slice(0, box.selectionStart);
    const gap = sign === "@" && before && !/\s$/.test(before) ? " " : "";
    box.setRangeText(gap + sign, box.selectionStart, box.selectionEnd, "end");
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }

  box.addEventListener("input", (event) => !event.isComposing && look());
  box.addEventListener("compositionend", look);
  box.addEventListener("blur", close);
  store.watch(({ view }) => view.conversationId, close);
  return { onKey, start };
}

async function commandOffers({ lists, store, words }, agentId, prefix) {
  await lists.loadCommands(agentId);
  const wanted = prefix.toLowerCase();
  const commands = store.get().gateway.commands[agentId] ?? [];
  return commands
    .filter(({ name, aliases }) => [name, ...(aliases ?? [])].some((each) => bare(each).startsWith(wanted)))
    .map(({ name, aliases, help, arguments: schema }) => {
      const argument = Object.keys(schema?.properties ?? {})[0];
      const whole = [name, ...(aliases ?? [])].map(bare).includes(wanted) ? `/${wanted}` : `/${bare(name)}`;
      return { label: argument ? `/${bare(name)} [${argument}]` : `/${bare(name)}`, note: commandHelp(words, { name, help }), text: argument ? `/${bare(name)} ` : `/${bare(name)}`, whole };
    });
}

function bare(name) {
  return name.replace(/^\//, "");
}

async function fileOffers({ api, words }, agentId, prefix, stillAsked) {
  await new Promise((resolve) => setTimeout(resolve, ASK_DELAY_MS));
  if (!stillAsked()) return [];
  try {
    const { items } = await api.get(`${agentPath(agentId, "workspace")}?prefix=${encodeURIComponent(prefix)}&limit=${FILE_OFFERS}`);
    return items.map((file) => ({
      label: oneLine(file.path),
      note: file.attachable ? words.bytes(file.bytes) : fileReason(words, file),
      text: `${file.path} `,
      file,
      disabled: !file.attachable,
    }));
  } catch (error) {
    if (error.name !== "ApiError") throw error;
    return [];
  }
}
