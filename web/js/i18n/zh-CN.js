/** 页面的全部简体中文文字。 */
import { errors } from "./zh-CN/errors.js";
import { page } from "./zh-CN/page.js";
import { research } from "./zh-CN/research.js";
import { runs } from "./zh-CN/runs.js";
import { server } from "./zh-CN/server.js";
import { skills } from "./zh-CN/skills.js";
import { subagents } from "./zh-CN/subagents.js";
import { tasks } from "./zh-CN/tasks.js";

export const zhCN = { ...page, ...runs, ...errors, ...server, ...research, ...skills, ...subagents, ...tasks };
