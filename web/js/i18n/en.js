/** Every word of the page in English. */
import { errors } from "./en/errors.js";
import { page } from "./en/page.js";
import { research } from "./en/research.js";
import { runs } from "./en/runs.js";
import { server } from "./en/server.js";
import { skills } from "./en/skills.js";
import { subagents } from "./en/subagents.js";
import { tasks } from "./en/tasks.js";

export const en = { ...page, ...runs, ...errors, ...server, ...research, ...skills, ...subagents, ...tasks };
