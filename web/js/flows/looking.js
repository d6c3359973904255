/** Arriving somewhere: what has to be read for the Agent and the Conversation that come into view. */
import { firstAgent } from "../state/agents.js";
import { activeTurn, isActive, pageOf } from "../state/turns.js";
import { parsePlace } from "./navigation.js";
import { remember, remembered } from "./remembering.js";
import { wantedRuns } from "./running.js";

export function createLooking(app) {
  const { store, lists, running, navigation } = app;
  const { dispatch } = store;
  let settledOn = false;

  function arrive({ agentId, conversationId }) {
    settledOn = true;
    remember("agent", agentId);
    const { conversations } = store.get();
    if (!conversations[agentId]) {
      lists.loadConversations(agentId);
      lists.loadFiles(agentId);
    }
    lists.loadPermissions(agentId);
    dispatch({ type: "memory/kept", conversationIds: store.get().view.recent, runIds: wantedRuns(store.get()).map((run) => run.runId) });
    if (!conversationId) return;
    lists.loadPage(agentId, conversationId).then(() => restoreDetails(conversationId));
    lists.loadPreview(agentId, conversationId);
  }

  /** With the details open, a finished Conversation shows the durable timeline of its last Run. */
  function restoreDetails(conversationId) {
    const { view } = store.get();
    const last = pageOf(store.get(), conversationId).turns.at(-1);
    if (view.conversationId === conversationId && view.details.open && last) openDetails(last);
  }

  function openDetails(turn) {
    const { agentId, details } = store.get().view;
    if (!details.open) navigation.openDrawer("details");
    dispatch({ type: "details/opened", target: { runId: turn.run_id, turnId: turn.turn_id } });
    if (!isActive(turn)) running.replay(agentId, turn.run_id);
  }

  function closeDetails() {
    dispatch({ type: "details/closed" });
    navigation.closeDrawer();
  }

  function toggleDetails() {
    const { details, conversationId } = store.get().view;
    const last = pageOf(store.get(), conversationId).turns.at(-1);
    if (details.open) closeDetails();
    else if (last) openDetails(last);
  }

  async function stopRun() {
    const { agentId, conversationId } = store.get().view;
    const turn = activeTurn(pageOf(store.get(), conversationId));
    if (!turn || store.get().view.stopping[turn.run_id] === "asked") return;
    try {
      await running.stop(agentId, conversationId, turn);
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      dispatch({ type: "notice/shown", key: conversationId, notice: { error } });
    }
  }

  /** The place in the address bar where it exists, else the Agent looked at last. While no list is there, the next one decides. */
  function settle() {
    store.watch(
      (state) => state.agents.items,
      (items) => {
        if (settledOn || !items.length) return;
        const place = parsePlace(location.hash);
        const known = place && items.some((agent) => agent.agent_id === place.agentId);
        const agent = known ? null : firstAgent(items, remembered("agent"));
        navigation.go(known ? place.agentId : agent.agent_id, known ? place.conversationId : null, { replace: true });
      },
    );
  }

  return { arrive, openDetails, closeDetails, toggleDetails, stopRun, settle };
}
