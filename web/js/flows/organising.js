/** Making, naming, branching and deleting Agents and Conversations. */
import { agentPath } from "../api.js";
import { confirmDialog, promptDialog } from "../dom/dialog.js";
import { rest } from "../dom/focus.js";
import { oneLine } from "../dom/plain_text.js";
import { draftKey } from "../state/drafts.js";

const TITLE_MAX_CHARS = 120;
const AGENT_NAME_MAX_CHARS = 64;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

/** @returns {string|null} the key of the reason against a name */
export function nameFault(text, maxChars) {
  const trimmed = text.trim();
  if (!oneLine(trimmed)) return "name.blank";
  if (CONTROL.test(trimmed)) return "name.control";
  return [...trimmed].length > maxChars ? "name.long" : null;
}

export function createOrganising({ store, api, lists, navigation, words }) {
  const { dispatch } = store;
  const { t } = words;

  const place = () => draftKey(store.get().view.agentId, store.get().view.conversationId);

  /**
   * Runs one change; a refusal becomes a notice in words, in the place where it was asked for.
   * @param {(stays: () => boolean) => Promise<void>} change `stays`: whether the operator is still in that place
   */
  async function attempt(change) {
    const key = place();
    try {
      await change(() => place() === key);
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      dispatch({ type: "notice/shown", key, notice: { error } });
    }
  }

  function askName(title, label, value, maxChars, confirm) {
    const check = (text) => {
      const fault = nameFault(text, maxChars);
      return fault && t(fault, { max: maxChars });
    };
    return promptDialog({ title, label, value, confirm, cancel: t("action.cancel"), check });
  }

  async function renameConversation(agentId, conversation) {
    const title = await askName(t("conversation.rename_title"), t("conversation.name"), conversation.title, TITLE_MAX_CHARS, t("action.rename"));
    if (title === null || title === conversation.title) return;
    await attempt(async () => {
      const renamed = await api.patch(agentPath(agentId, "sessions", conversation.conversation_id), { title });
      dispatch({ type: "conversation/upserted", agentId, conversation: renamed });
    });
  }

  async function deleteConversation(agentId, conversation) {
    const sure = await confirmDialog({
      title: t("conversation.delete_title", { title: oneLine(conversation.title) }),
      body: [t("conversation.delete_body")],
      confirm: t("action.delete"),
      cancel: t("action.keep"),
      danger: true,
    });
    if (!sure) return;
    await attempt(async () => {
      await api.remove(agentPath(agentId, "sessions", conversation.conversation_id));
      const shown = store.get().view.conversationId === conversation.conversation_id;
      if (shown) navigation.go(agentId, null, { replace: true });
      dispatch({ type: "conversation/removed", agentId, conversationId: conversation.conversation_id });
      rest();
    });
  }

  async function branch(agentId, conversationId) {
    await attempt(async (stays) => {
      const made = await api.post(agentPath(agentId, "sessions", conversationId, "continue"), { mode: "branch" });
      dispatch({ type: "conversation/upserted", agentId, conversation: made });
      dispatch({ type: "notice/shown", key: made.conversation_id, notice: { key: "conversation.branched" } });
      if (stays()) navigation.go(agentId, made.conversation_id);
    });
  }

  async function createAgent() {
    const name = await askName(t("agent.create_title"), t("agent.name"), "", AGENT_NAME_MAX_CHARS, t("action.create"));
    if (name === null) return;
    await attempt(async (stays) => {
      const agent = await api.post("/api/agents", { name });
      dispatch({ type: "agent/upserted", agent });
      if (stays()) navigation.go(agent.agent_id, null);
    });
  }

  async function renameAgent(agent) {
    const name = await askName(t("agent.rename_title"), t("agent.name"), agent.name, AGENT_NAME_MAX_CHARS, t("action.rename"));
    if (name === null || name === agent.name) return;
    await attempt(async () => dispatch({ type: "agent/upserted", agent: await api.patch(agentPath(agent.agent_id), { name }) }));
  }

  async function deleteAgent(agent) {
    const sure = await confirmDialog({
      title: t("agent.delete_title", { name: oneLine(agent.name) }),
      body: [t("agent.delete_body")],
      confirm: t("action.delete"),
      cancel: t("action.keep"),
      danger: true,
    });
    if (!sure) return;
    await attempt(async () => {
      const leaving = await api.remove(agentPath(agent.agent_id));
      dispatch({ type: "agent/upserted", agent: leaving });
      if (store.get().view.agentId === agent.agent_id) leaveAgent(agent.agent_id);
      rest();
      await lists.loadAgents();
    });
  }

  function leaveAgent(agentId) {
    const other = store.get().agents.items.find((each) => each.system) ?? store.get().agents.items.find((each) => each.agent_id !== agentId);
    if (other) navigation.go(other.agent_id, null, { replace: true });
  }

  async function rebuildAgent(agent) {
    const sure = await confirmDialog({
      title: t("agent.rebuild_title", { name: oneLine(agent.name) }),
      body: [t("agent.rebuild_body")],
      confirm: t("agent.rebuild"),
      cancel: t("action.cancel"),
    });
    if (!sure) return;
    await attempt(async () => {
      dispatch({ type: "agent/upserted", agent: await api.post(agentPath(agent.agent_id, "upgrade")) });
    });
  }

  return { renameConversation, deleteConversation, branch, createAgent, renameAgent, deleteAgent, rebuildAgent };
}
