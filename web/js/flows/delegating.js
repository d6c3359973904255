/** Delegations of the shown Conversation: read when a Turn has one, and again while one goes on. */
import { agentPath } from "../api.js";
import { delegates, delegationMark } from "../state/subagents.js";
import { pageOf } from "../state/turns.js";

const GOING_REFRESH_MS = 2_000;

export function createDelegating({ store, api, lists, navigation, looking }) {
  let timer = 0;

  /** A chain that cannot be read is left out: what the Turn itself says of the call stays. */
  async function load() {
    clearTimeout(timer);
    const { agentId, conversationId } = store.get().view;
    if (!conversationId || !delegationMark(store.get())) return;
    try {
      const { items } = await api.get(agentPath(agentId, "sessions", conversationId, "subagents"));
      store.dispatch({ type: "subagents/loaded", conversationId, items });
    } catch (error) {
      if (error.name !== "ApiError") throw error;
    }
    clearTimeout(timer);
    if (delegates(store.get())) timer = setTimeout(again, GOING_REFRESH_MS);
  }

  /** The other Agent may wait for the operator: that stands in the list of Agents. */
  function again() {
    if (document.visibilityState === "visible") lists.loadAgents();
    return load();
  }

  function openConversation({ agent_id: agentId, conversation_id: conversationId }) {
    lists.loadConversations(agentId);
    navigation.go(agentId, conversationId);
  }

  /** The child Run in the details, once its Conversation has been read. */
  async function openRun(child) {
    openConversation(child);
    await lists.loadPage(child.agent_id, child.conversation_id);
    const turn = pageOf(store.get(), child.conversation_id).turns.find((each) => each.run_id === child.run_id);
    if (turn && store.get().view.conversationId === child.conversation_id) looking.openDetails(turn);
  }

  store.watch((state) => `${state.view.conversationId} ${delegationMark(state)}`, () => queueMicrotask(load));
  return { openConversation, openRun };
}
