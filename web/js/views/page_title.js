/** The tab's title tells, even from behind, that something runs or waits. */
import { oneLine } from "../dom/plain_text.js";
import { conversationById } from "../state/conversations.js";

export function pageTitle({ store, words: { t } }) {
  store.watch(
    ({ view, conversations, permissions }) => [view.agentId, view.conversationId, conversations, permissions.pending],
    ([agentId, conversationId, conversations, pending]) => {
      const title = oneLine(conversationById(store.get(), agentId, conversationId)?.title) || t("app.name");
      const waits = Object.values(pending).reduce((sum, items) => sum + items.length, 0);
      const runs = Object.values(conversations).some(({ items }) => items.some((item) => item.running_run_id));
      document.title = waits ? t("title.waits", { n: waits, title }) : runs ? t("title.runs", { title }) : t("title.quiet", { title });
    },
  );
}
