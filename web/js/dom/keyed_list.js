/** A list drawn once per item and moved, not rebuilt: focus, selection and scroll places survive. */

/**
 * @template T
 * @param {Element} parent
 * @param {{key: (item: T) => string, create: (item: T) => {element: Element, update: (item: T) => void, dispose?: () => void}}} kind
 */
export function keyedList(parent, { key, create }) {
  let drawn = new Map();

  function show(items) {
    const next = new Map();
    let place = parent.firstChild;
    for (const item of items) {
      const id = key(item);
      const row = drawn.get(id) ?? { ...create(item), item: undefined };
      drawn.delete(id);
      next.set(id, row);
      if (row.item !== item) {
        row.item = item;
        row.update(item);
      }
      if (row.element === place) place = place.nextSibling;
      else parent.insertBefore(row.element, place);
    }
    for (const row of drawn.values()) {
      row.element.remove();
      row.dispose?.();
    }
    drawn = next;
  }

  return { show, get: (id) => drawn.get(id) ?? null };
}
