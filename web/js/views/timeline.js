/** The rows of the sequence diagram: a line with its head between two lanes, or a point on one. */
import { h, setAria, setText, toggle } from "../dom/h.js";
import { keyedList } from "../dom/keyed_list.js";
import { stepped } from "../state/timeline.js";

const PAGE_ROWS = 10;

/** @param {(key: string) => void} onSelect */
export function timeline(app, onSelect) {
  const { t } = app.words;
  const element = h("div", { class: "timeline", role: "listbox", tabindex: "0", aria: { label: t("details.events") } });
  const list = keyedList(element, { key: ({ row }) => row.key, create: ({ row }) => rowView(app, row, onSelect) });
  let rows = [];
  let selected = null;
  let drawn = [];

  element.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE_ROWS, PageUp: -PAGE_ROWS, Home: -Infinity, End: Infinity }[event.key];
    if (steps === undefined || !rows.length) return;
    event.preventDefault();
    onSelect(Number.isFinite(steps) ? stepped(rows, selected, steps) : rows.at(steps < 0 ? 0 : -1).key);
  });

  /** Only rows that changed, or gained or lost the selection, are drawn anew. */
  function show(next, nextSelected) {
    rows = next;
    const before = new Map(drawn.map((item) => [item.row, item]));
    drawn = next.map((row) => {
      const old = before.get(row);
      const isSelected = row.key === nextSelected;
      return old && old.selected === isSelected ? old : { row, selected: isSelected };
    });
    list.show(drawn);
    setAria(element, "activedescendant", nextSelected && list.get(nextSelected) ? domId(nextSelected) : null);
    if (nextSelected !== selected) list.get(nextSelected)?.element.scrollIntoView({ block: "nearest" });
    selected = nextSelected;
  }

  return { element, show };
}

function domId(key) {
  return `event-${key}`;
}

/** @param {import("../state/timeline.js").Label} label */
export function labelWords({ tOr }, { key, fallback = key, params, said = {} }) {
  const filled = Object.entries(said).map(([name, [word, other]]) => [name, tOr(word, other)]);
  return tOr(key, fallback, { ...params, ...Object.fromEntries(filled) });
}

function rowView({ words }, first, onSelect) {
  const { t } = words;
  const label = h("span", { class: "event-label" });
  const line = h("span", { class: "event-line" });
  const spoken = h("span", { class: "visually-hidden" });
  const element = h("div", { class: `event ${shape(first)}`, id: domId(first.key), role: "option", onClick: () => onSelect(first.key) }, line, label, spoken);
  toggle(element, "ephemeral", first.ephemeral);

  function update({ row, selected }) {
    const said = labelWords(words, row.label);
    setText(label, row.seq === null ? said : t("timeline.row", { seq: row.seq, words: said }));
    setText(spoken, t(`arrow.${row.arrow}`));
    toggle(element, "selected", selected);
    setAria(element, "selected", selected);
  }
  return { element, update };
}

/** Class names carry the geometry: `span-1-3 right` runs from the second to the fourth lane. */
function shape({ from, to, group, type }) {
  const ending = type === "run.completed" ? "good" : type === "run.failed" ? "bad" : "";
  if (from === to) return `point lane-${from} ${ending}`;
  if (group === "control") return "control span-0-3";
  return `span-${Math.min(from, to)}-${Math.max(from, to)} ${from < to ? "right" : "left"} ${group === "approval" ? "waits" : ""}`;
}
