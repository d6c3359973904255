/** What this browser keeps: drafts, the last place, language and theme. Without storage the page works and forgets. */
import { restoredDrafts, savedDrafts } from "../state/drafts.js";

const SAVE_DELAY_MS = 300;

export function remembered(name) {
  try {
    return localStorage.getItem(`agent-builder.${name}`);
  } catch {
    return null;
  }
}

/** @returns {boolean} whether the browser kept it */
export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`agent-builder.${name}`);
    else localStorage.setItem(`agent-builder.${name}`, value);
    return true;
  } catch {
    return false;
  }
}

export function rememberedDrafts() {
  const saved = remembered("drafts");
  if (!saved) return {};
  try {
    return restoredDrafts(JSON.parse(saved));
  } catch {
    return {};
  }
}

/** Writes drafts shortly after the last key, and at once when the page may go away. Other tabs' drafts stay. */
export function keepDrafts(store) {
  let timer = 0;
  let saved = store.get().drafts;
  const save = () => {
    clearTimeout(timer);
    timer = 0;
    const drafts = store.get().drafts;
    if (drafts === saved) return;
    remember("drafts", JSON.stringify(savedDrafts(withChanges(rememberedDrafts(), saved, drafts))));
    saved = drafts;
  };
  store.watch(
    (state) => state.drafts,
    () => {
      timer ||= setTimeout(save, SAVE_DELAY_MS);
    },
  );
  addEventListener("pagehide", save);
  document.addEventListener("visibilitychange", save);
  return { save };
}

/** What this tab changed since it last wrote, laid over what is stored. */
export function withChanges(stored, before, after) {
  const merged = { ...stored };
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (before[key] === after[key]) continue;
    if (after[key]) merged[key] = after[key];
    else delete merged[key];
  }
  return merged;
}
