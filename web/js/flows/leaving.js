/** What another tab deleted cannot stay open: the page says so, goes to what is left, and takes the written text along. */
import { agentById, firstAgent } from "../state/agents.js";
import { draftKey, draftOf } from "../state/drafts.js";
import { pageOf } from "../state/turns.js";

const WITH_DRAFT = { "agent.gone": "agent.gone_kept", "conversation.gone": "conversation.gone_kept" };

/**
 * @returns {{reason: "agent.gone"|"conversation.gone", agentId: string} | null} what the shown place lacks,
 *   and the Agent that is shown instead
 */
export function goneFrom(state) {
  const { agentId, conversationId } = state.view;
  const { status, items } = state.agents;
  if (!agentId || status !== "ready" || !items.length) return null;
  if (!agentById(state, agentId)) return { reason: "agent.gone", agentId: firstAgent(items, null).agent_id };
  if (conversationId && pageOf(state, conversationId).error?.code === "not_found") return { reason: "conversation.gone", agentId };
  return null;
}

export function createLeaving({ store, navigation }) {
  const { dispatch } = store;

  function leave() {
    const state = store.get();
    const gone = goneFrom(state);
    if (!gone) return;
    const { agentId, conversationId } = state.view;
    const from = draftKey(agentId, conversationId);
    const to = draftKey(gone.agentId, null);
    const kept = Boolean(draftOf(state, from).text.trim());
    dispatch({ type: "draft/rescued", from, to });
    navigation.go(gone.agentId, null, { replace: true });
    if (conversationId) dispatch({ type: "conversation/removed", agentId, conversationId });
    dispatch({ type: "notice/shown", key: to, notice: { key: kept ? WITH_DRAFT[gone.reason] : gone.reason } });
  }

  return { watch: () => store.watch((state) => goneFrom(state)?.reason ?? null, (reason) => reason && queueMicrotask(leave)) };
}
