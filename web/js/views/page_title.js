/** The tab's title tells, even from behind, that something runs or waits. */
import { oneLine } from "../dom/plain_text.js";
import { conversationById } from "../state/conversations.js";

export function pageTitle({ store, words: { t } }) {
  store.watch(
    ({ view, conversations, permissions, agents }) => [view.agentId, view.conversationId, conversations, permissions.pending, agents.items],
    ([agentId, conversationId, conversations, pending, agents]) => {
      const name = oneLine(conversationById(store.get(), agentId, conversationId)?.title);
      const title = name ? t("title.quiet", { title: name }) : t("app.name");
      const elsewhere = agents.filter((agent) => agent.agent_id !== agentId);
      const waits = elsewhere.reduce((sum, agent) => sum + (agent.waiting ?? 0), pending[agentId]?.length ?? 0);
      const runs = elsewhere.some((agent) => agent.running) || conversations[agentId]?.items.some((item) => item.running_run_id);
      document.title = waits ? t("title.waits", { n: waits, title }) : runs ? t("title.runs", { title }) : title;
    },
  );
}
