/** From the composer to the server: messages, slash commands, and what the answer of the server means. */
import { agentPath } from "../api.js";
import { randomId } from "../dom/random_id.js";
import { wellFormed } from "../dom/plain_text.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { attachmentsOf } from "../state/file_names.js";
import { namedModelId } from "../state/gateway.js";
import { pageOf } from "../state/turns.js";

/** Control characters that a terminal left in a pasted text; line feed and tab stay. */
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function sendable(text) {
  return wellFormed(text).replace(/\r\n?/g, "\n").replace(CONTROLS, "");
}

/** Refusals after which the very same request may be tried again. */
const UNCERTAIN = new Set(["network", "unexpected"]);

export function createSending({ store, api, lists, navigation, follow, focusComposer }) {
  const { dispatch } = store;
  /** What was last put into each composer: as long as it stands there unchanged, it is nobody's writing. */
  const filled = new Map();

  /** Sends the draft once: while one request is on its way, a second Enter does nothing. */
  async function send() {
    const state = store.get();
    const { agentId, conversationId } = state.view;
    const key = draftKey(agentId, conversationId);
    const draft = draftOf(state, key);
    if (!agentId || draft.sending || !draft.text.trim()) return;
    const requestId = draft.requestId ?? randomId();
    dispatch({ type: "draft/sending", key, requestId });
    let id = conversationId;
    try {
      id ??= await createConversation(agentId, key);
      const task = draft.text.startsWith("/") ? runCommand : startTurn;
      await task(agentId, id, { ...draft, requestId });
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      refused(agentId, id ?? key, error);
    }
  }

  /** The new Conversation takes the draft with it before the message is on its way. */
  async function createConversation(agentId, key) {
    const conversation = await api.post(agentPath(agentId, "sessions"), {});
    const id = conversation.conversation_id;
    dispatch({ type: "draft/moved", from: key, to: id });
    dispatch({ type: "conversation/upserted", agentId, conversation });
    dispatch({ type: "page/loaded", agentId, conversationId: id, answer: { conversation, turns: [], page: {} } });
    const { view } = store.get();
    if (view.agentId === agentId && view.conversationId === null) navigation.go(agentId, id);
    return id;
  }

  async function startTurn(agentId, conversationId, draft) {
    const files = attachmentsOf(draft, store.get().gateway.files[agentId]);
    const message = sendable(draft.text);
    const body = { message, client_request_id: draft.requestId };
    if (files.length) body.attachments = files.map((file) => file.path);
    const modelId = namedModelId(store.get(), draft);
    if (modelId) body.model_id = modelId;
    if (draft.compact) body.compact = true;
    const accepted = await api.post(agentPath(agentId, "sessions", conversationId, "runs"), body);
    const turn = {
      turn_id: accepted.turn_id,
      run_id: accepted.run_id,
      state: "preparing",
      user_text: message,
      attachments: files.map(({ path, bytes }) => ({ path, bytes, digest: "", truncated: false })),
      created_at: new Date(api.serverNow()).toISOString(),
    };
    const known = pageOf(store.get(), conversationId).turns.some((each) => each.turn_id === turn.turn_id);
    dispatch({ type: "draft/sent", key: conversationId });
    if (!known) dispatch({ type: "turn/accepted", agentId, conversationId, turn });
    if (store.get().view.conversationId === conversationId) follow();
    lists.loadConversations(agentId);
    if (known) await lists.loadPage(agentId, conversationId);
  }

  async function runCommand(agentId, conversationId, draft) {
    const input = draft.text.trim();
    const result = await api.post(agentPath(agentId, "sessions", conversationId, "commands"), { input });
    dispatch({ type: "draft/sent", key: conversationId });
    if (result.parameter?.model_id) dispatch({ type: "draft/model", key: conversationId, modelId: result.parameter.model_id });
    if (result.parameter?.compact !== undefined) dispatch({ type: "draft/compact", key: conversationId, compact: Boolean(result.parameter.compact) });
    dispatch({ type: "command/result", key: conversationId, result: { input, output: result.output, lines: result.lines } });
  }

  function refused(agentId, key, error) {
    dispatch({ type: "draft/refused", key, error, keepRequestId: UNCERTAIN.has(error.code) });
    if (error.code === "conversation_busy") lists.refresh();
    if (error.code === "not_found") lists.loadConversations(agentId);
  }

  /** Puts a text into the composer, for the operator to look at and send. What is written there stays in front of it. */
  function fill(text) {
    const { agentId, conversationId } = store.get().view;
    const key = draftKey(agentId, conversationId);
    const draft = draftOf(store.get(), key);
    if (!draft.sending) dispatch({ type: "draft/typed", key, text: beside(draft.text, key, text) });
    focusComposer();
  }

  function beside(written, key, text) {
    if (written === text || written.endsWith(`\n\n${text}`)) return written;
    if (written.trim() && written !== filled.get(key)) return `${written.trimEnd()}\n\n${text}`;
    filled.set(key, text);
    return text;
  }

  return { send, fill };
}
