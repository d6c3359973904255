/** How much of what was looked at a page keeps: a day of work must not make it slow. */

/** Conversations whose Turns and events stay at hand; any other one is read again when it is opened. */
export const KEPT_CONVERSATIONS = 8;

/** The entries whose key and value pass; the same object when all do. */
export function only(entries, passes) {
  const kept = Object.entries(entries).filter(([key, value]) => passes(key, value));
  return kept.length === Object.keys(entries).length ? entries : Object.fromEntries(kept);
}
