/** The Skills of one Agent: read, install from a file, make a version active, remove. */
import { agentPath, ApiError } from "../api.js";

const ARCHIVE_TYPE = "application/zip";
const ARCHIVE_MAX_BYTES = 2 * 1024 * 1024;

export function skillsOf(api, agentId) {
  const path = (...parts) => agentPath(agentId, "skills", ...parts);

  /** @param {{size: number, arrayBuffer: () => Promise<ArrayBuffer>}} file what is surely refused is not sent */
  async function install(file) {
    if (file.size > ARCHIVE_MAX_BYTES) throw new ApiError({ code: "invalid_request", details: { reason: "archive_too_large" } });
    return api.upload(path(), await read(file), ARCHIVE_TYPE);
  }

  return {
    list: async () => (await api.get(path())).items,
    install,
    setActive: (skillId, active) => api.patch(path(skillId), { active }),
    remove: (skillId) => api.remove(path(skillId)),
  };
}

/** A file may be gone or changed since it was chosen, and a folder that was dropped is none. */
async function read(file) {
  try {
    return await file.arrayBuffer();
  } catch (cause) {
    throw new ApiError({ code: "invalid_request", message: String(cause), details: { reason: "unreadable" } });
  }
}
