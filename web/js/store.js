/** One place for what the page knows: actions go in, watchers hear of the part they selected. */

/**
 * @template S
 * @param {(state: S, action: {type: string}) => S} reduce pure; returns the same object when nothing changed
 * @param {S} initial
 */
export function createStore(reduce, initial) {
  let state = initial;
  const watchers = new Set();

  function dispatch(action) {
    const next = reduce(state, action);
    if (next === state) return;
    state = next;
    for (const watcher of [...watchers]) watcher();
  }

  /** Calls `show(selected)` now and whenever the selected value is another one; `signal` ends it. */
  function watch(select, show, { signal } = {}) {
    let seen = select(state);
    const watcher = () => {
      const value = select(state);
      if (sameSelection(value, seen)) return;
      seen = value;
      guarded(show, value);
    };
    watchers.add(watcher);
    signal?.addEventListener("abort", () => watchers.delete(watcher));
    guarded(show, seen);
  }

  return { get: () => state, dispatch, watch };
}

/** Selections may be arrays of parts; they are equal when each part is the same object. */
function sameSelection(a, b) {
  if (Object.is(a, b)) return true;
  if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
  return a.every((part, index) => Object.is(part, b[index]));
}

/** A fault in one view must be seen in the console and must not stop the other views. */
function guarded(show, value) {
  try {
    show(value);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
