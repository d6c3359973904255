/** Reading what the server knows into the store, again and again while somebody looks. */
import { agentPath } from "../api.js";
import { isSettling } from "../state/agents.js";
import { listOf } from "../state/conversations.js";
import { draftOf } from "../state/drafts.js";
import { namedModelId } from "../state/gateway.js";
import { pendingOf } from "../state/permissions.js";
import { pageOf } from "../state/turns.js";

const REFRESH_MS = 10_000;
/** While an Agent is rebuilt or deleted, or the server is still starting. */
const BUSY_REFRESH_MS = 2_000;
const FILE_LIST_LIMIT = 512;
const CROSSED_TRIES = 2;

export function createLists({ store, api }) {
  const { dispatch } = store;

  /**
   * One read: success and failure are both something that the page shows. An answer that crossed with a change of
   * what it tells of (`part`) may be older than the change, and is asked for again.
   */
  async function read(path, loaded, failed, part = () => null) {
    try {
      let before = part(store.get());
      let answer = await api.get(path);
      for (let again = 0; part(store.get()) !== before && again < CROSSED_TRIES; again += 1) {
        before = part(store.get());
        answer = await api.get(path);
      }
      loaded(answer);
      return answer;
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      failed?.(error);
      return null;
    }
  }

  const loadHealth = () =>
    read("/health", (health) => dispatch({ type: "health/loaded", health }), (error) => error.code === "network" && dispatch({ type: "health/failed" }));

  const loadModels = () =>
    read("/api/models", ({ items }) => dispatch({ type: "models/loaded", items }), () => dispatch({ type: "models/failed" }));

  function loadAgents() {
    dispatch({ type: "agents/loading" });
    return read("/api/agents", ({ items }) => dispatch({ type: "agents/loaded", items }), (error) => dispatch({ type: "agents/failed", error }), (state) => state.agents.items);
  }

  function loadConversations(agentId) {
    dispatch({ type: "conversations/loading", agentId });
    return read(
      agentPath(agentId, "sessions"),
      ({ items }) => dispatch({ type: "conversations/loaded", agentId, items }),
      (error) => dispatch({ type: "conversations/failed", agentId, error }),
      (state) => listOf(state, agentId).items,
    );
  }

  const loadPermissions = (agentId) =>
    read(agentPath(agentId, "permissions"), ({ items }) => dispatch({ type: "permissions/loaded", agentId, items }), undefined, (state) => pendingOf(state.permissions, agentId));

  const loadFiles = (agentId) =>
    read(`${agentPath(agentId, "workspace")}?limit=${FILE_LIST_LIMIT}`, ({ items, truncated }) => dispatch({ type: "files/loaded", agentId, items, truncated }));

  function loadCommands(agentId) {
    if (store.get().gateway.commands[agentId]) return null;
    return read(agentPath(agentId, "commands"), ({ items }) => dispatch({ type: "commands/loaded", agentId, items }));
  }

  /** For the model that the draft has chosen; the server knows which one it is otherwise. */
  function loadPreview(agentId, conversationId) {
    const modelId = namedModelId(store.get(), draftOf(store.get(), conversationId));
    const path = agentPath(agentId, "sessions", conversationId, "context-preview");
    return read(
      modelId ? `${path}?model_id=${encodeURIComponent(modelId)}` : path,
      (preview) => dispatch({ type: "preview/loaded", conversationId, preview }),
      (error) => dispatch({ type: "preview/loaded", conversationId, preview: { state: "unavailable", reason: error.code } }),
    );
  }

  function loadPage(agentId, conversationId) {
    dispatch({ type: "page/loading", conversationId });
    return read(
      agentPath(agentId, "sessions", conversationId),
      (answer) => dispatch({ type: "page/loaded", agentId, conversationId, answer }),
      (error) => dispatch({ type: "page/failed", conversationId, error }),
    );
  }

  /** A cursor does not outlive a rename or a restart: then the pages are walked again from the newest one. */
  async function loadEarlier(agentId, conversationId) {
    const before = pageOf(store.get(), conversationId).before;
    if (!before) return;
    dispatch({ type: "page/earlier_loading", conversationId });
    try {
      const answer = await earlierPage(agentId, conversationId, before);
      dispatch({ type: "page/earlier_loaded", conversationId, answer });
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      dispatch({ type: "page/earlier_failed", conversationId });
    }
  }

  async function earlierPage(agentId, conversationId, before) {
    const path = agentPath(agentId, "sessions", conversationId);
    try {
      return await api.get(`${path}?before=${encodeURIComponent(before)}`);
    } catch (error) {
      if (error.code !== "invalid_session_cursor") throw error;
      return walkTo(path, pageOf(store.get(), conversationId).turns[0]?.turn_id);
    }
  }

  /** The page in which the Turn stands, unless the Turn is its first one: then the page before. */
  async function walkTo(path, turnId) {
    let answer = await api.get(path);
    while (answer.page.next_before_cursor && answer.turns.findIndex((turn) => turn.turn_id === turnId) < 1) {
      const found = answer.turns[0]?.turn_id === turnId;
      answer = await api.get(`${path}?before=${encodeURIComponent(answer.page.next_before_cursor)}`);
      if (found) break;
    }
    return answer;
  }

  /** What another tab, or the server itself, may have changed meanwhile. */
  async function refresh() {
    const { agentId, conversationId } = store.get().view;
    const seen = stamp(conversationId);
    await Promise.all([loadHealth(), loadAgents(), agentId && loadConversations(agentId), agentId && loadPermissions(agentId), loadModels()]);
    if (conversationId && stamp(conversationId) !== seen) await loadPage(agentId, conversationId);
  }

  function stamp(conversationId) {
    const { conversations, view } = store.get();
    const item = conversations[view.agentId]?.items.find((each) => each.conversation_id === conversationId);
    return item ? `${item.updated_at} ${item.revision} ${item.running_run_id ?? ""}` : "";
  }

  function keepFresh() {
    let timer = 0;
    const tick = async () => {
      clearTimeout(timer);
      if (document.visibilityState === "visible") await refresh();
      clearTimeout(timer);
      timer = setTimeout(tick, isBusy(store.get()) ? BUSY_REFRESH_MS : REFRESH_MS);
    };
    const soon = (busy) => {
      clearTimeout(timer);
      timer = setTimeout(tick, busy ? BUSY_REFRESH_MS : REFRESH_MS);
    };
    store.watch(isBusy, soon);
    const back = () => {
      const { agentId } = store.get().view;
      if (agentId) loadFiles(agentId);
      return tick();
    };
    addEventListener("focus", back);
    document.addEventListener("resume", back);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && back());
  }

  return {
    loadHealth, loadModels, loadAgents, loadConversations, loadPermissions, loadFiles, loadCommands,
    loadPreview, loadPage, loadEarlier, refresh, keepFresh,
  };
}

function isBusy({ agents, gateway }) {
  return gateway.health?.status === "loading" || agents.items.some((agent) => agent.phase !== "damaged" && isSettling(agent));
}

