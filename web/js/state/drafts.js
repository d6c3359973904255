/** What the operator is writing in each Conversation: text, model, compaction, files. */

/**
 * @typedef {{text: string, modelId: string|null, compact: boolean, dismissed: string[],
 *   sending: boolean, requestId: string|null, error: object|null}} Draft
 */

export const emptyDraft = { text: "", modelId: null, compact: false, dismissed: [], sending: false, requestId: null, error: null };

/** The draft of a Conversation that does not exist yet lives under its Agent. */
export function draftKey(agentId, conversationId) {
  return conversationId ?? `new:${agentId}`;
}

/** @param {Record<string, Draft>} state by draft key */
export function drafts(state = {}, action) {
  const draft = state[action.key] ?? emptyDraft;
  const put = (next) => ({ ...state, [action.key]: next });
  switch (action.type) {
    case "draft/typed":
      if (draft.text === action.text) return state;
      return put({ ...draft, text: action.text, requestId: null, error: null, dismissed: stillNamed(draft.dismissed, action.text) });
    case "draft/model":
      return put({ ...draft, modelId: action.modelId, requestId: null });
    case "draft/compact":
      return put({ ...draft, compact: action.compact, requestId: null });
    case "draft/file_dismissed":
      return put({ ...draft, dismissed: [...draft.dismissed, action.path], requestId: null });
    case "draft/sending":
      return put({ ...draft, sending: true, requestId: action.requestId, error: null });
    case "draft/sent":
      return put({ ...emptyDraft, modelId: draft.modelId });
    case "draft/refused":
      return put({ ...draft, sending: false, requestId: action.keepRequestId ? draft.requestId : null, error: action.error });
    case "draft/error_closed":
      return put({ ...draft, error: null });
    case "draft/moved":
      return moved(state, action.from, action.to);
    case "draft/rescued":
      return rescued(state, action.from, action.to);
    case "conversation/removed":
      return without(state, action.conversationId);
    default:
      return state;
  }
}

export function draftOf(state, key) {
  return state.drafts[key] ?? emptyDraft;
}

/** What a later visit should find: what was written or chosen, and the id under which that very text was sent without an answer. */
export function savedDrafts(state) {
  const kept = Object.entries(state).filter(([, draft]) => draft.text || draft.modelId || draft.compact);
  return Object.fromEntries(kept.map(([key, { text, modelId, compact, dismissed, requestId }]) => [key, { text, modelId, compact, dismissed, requestId }]));
}

/** @param {unknown} saved whatever the browser's storage gave back */
export function restoredDrafts(saved) {
  if (!saved || typeof saved !== "object") return {};
  const valid = Object.entries(saved).filter(([, draft]) => typeof draft?.text === "string");
  return Object.fromEntries(
    valid.map(([key, draft]) => [
      key,
      {
        ...emptyDraft,
        text: draft.text,
        modelId: typeof draft.modelId === "string" ? draft.modelId : null,
        compact: draft.compact === true,
        requestId: typeof draft.requestId === "string" ? draft.requestId : null,
        dismissed: Array.isArray(draft.dismissed) ? draft.dismissed.filter((path) => typeof path === "string") : [],
      },
    ]),
  );
}

function stillNamed(paths, text) {
  return paths.every((path) => text.includes(path)) ? paths : paths.filter((path) => text.includes(path));
}

function moved(state, from, to) {
  if (from === to || !(from in state)) return state;
  const { [from]: draft, ...rest } = state;
  return { ...rest, [to]: draft };
}

/** The text of a place that is no more stands behind what is already written in the other one. */
function rescued(state, from, to) {
  const { [from]: draft, ...rest } = state;
  if (from === to || !draft?.text.trim()) return state;
  const other = rest[to] ?? emptyDraft;
  const text = other.text.trim() ? `${other.text.trimEnd()}\n\n${draft.text}` : draft.text;
  return { ...rest, [to]: { ...other, text, requestId: null } };
}

function without(state, key) {
  if (!(key in state)) return state;
  const { [key]: _gone, ...rest } = state;
  return rest;
}
