/** Background Tasks: started beside a Run, listed, read, followed to their end, and ended. */
import { agentPath } from "../api.js";
import { isActiveTask } from "../state/tasks.js";

const FOLLOW_MS = 2_000;

export function createTasks({ api }) {
  const path = (agentId, ...rest) => agentPath(agentId, "tasks", ...rest);
  const read = (agentId, taskId) => api.get(path(agentId, taskId));

  /** Gives each new state to `changed` until the last one. @returns {() => void} stops looking */
  function follow(agentId, task, changed) {
    let timer = 0;
    let stopped = false;

    async function look() {
      try {
        const found = await read(agentId, task.task_id);
        if (stopped) return;
        changed(found);
        if (!isActiveTask(found)) return;
      } catch (error) {
        if (error.name !== "ApiError") throw error;
        if (stopped || !error.retryable) return;
      }
      timer = setTimeout(look, FOLLOW_MS);
    }

    look();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }

  return {
    start: (agentId, runId) => api.post(agentPath(agentId, "runs", runId, "tasks"), { kind: "runtime-compile" }),
    list: async (agentId) => (await api.get(path(agentId))).items,
    read,
    cancel: (agentId, taskId) => api.post(path(agentId, taskId, "cancel")),
    follow,
  };
}
