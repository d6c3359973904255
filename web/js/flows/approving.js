/** Permissions: the whole of it is read first, then the operator's word goes to the server once. */
import { agentPath } from "../api.js";
import { draftKey } from "../state/drafts.js";

export function createApproving({ store, api, lists, say }) {
  const { dispatch } = store;
  const announced = new Set();

  store.watch(
    ({ permissions }) => permissions.pending,
    (pending) => {
      const fresh = Object.values(pending).flat().filter(({ permission_id: id }) => !announced.has(id));
      for (const { permission_id: id } of fresh) announced.add(id);
      if (fresh.length) say("announce.approval", "assertive");
    },
  );

  async function readInFull(agentId, permissionId) {
    if (["loading", "ready"].includes(store.get().permissions.full[permissionId]?.status)) return;
    dispatch({ type: "permission/loading", permissionId });
    try {
      const permission = await api.get(agentPath(agentId, "permissions", permissionId));
      dispatch({ type: "permission/loaded", permission });
      if (permission.state !== "pending") dispatch({ type: "permission/gone", permissionId });
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      dispatch({ type: "permission/failed", permissionId, error });
    }
  }

  async function decide(agentId, permissionId, decision, reason) {
    if (store.get().permissions.full[permissionId]?.deciding) return;
    dispatch({ type: "permission/deciding", permissionId });
    const { view } = store.get();
    const key = draftKey(view.agentId, view.conversationId);
    const body = reason ? { decision, reason } : { decision };
    try {
      await api.post(agentPath(agentId, "permissions", permissionId), body);
      dispatch({ type: "permission/gone", permissionId });
    } catch (error) {
      if (error.name !== "ApiError") throw error;
      dispatch({ type: "permission/undecided", permissionId, error });
      if (error.code === "permission_stale" || error.code === "not_found") {
        dispatch({ type: "permission/gone", permissionId });
        dispatch({ type: "notice/shown", key, notice: { key: "error.permission_stale" } });
      }
      lists.loadPermissions(agentId);
    }
  }

  return { readInFull, decide };
}
