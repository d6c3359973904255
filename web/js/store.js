/** One place for what the page knows: actions go in, watchers hear of the part they selected. */

/**
 * @template S
 * @param {(state: S, action: {type: string}) => S} reduce pure; returns the same object when nothing changed
 * @param {S} initial
 */
export function createStore(reduce, initial) {
  let state = initial;
  const watchers = new Set();
  let told = state;
  let batches = 0;

  function dispatch(action) {
    state = reduce(state, action);
    if (!batches) tell();
  }

  function tell() {
    if (state === told) return;
    told = state;
    for (const watcher of [...watchers]) watcher();
  }

  /** Several actions that belong together are told of once, when `change` is done. */
  function batch(change) {
    batches += 1;
    try {
      change();
    } finally {
      batches -= 1;
      if (!batches) tell();
    }
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

  return { get: () => state, dispatch, batch, watch };
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
