/** 页面的全部简体中文文字。 */
import { errors } from "./zh-CN/errors.js";
import { page } from "./zh-CN/page.js";
import { runs } from "./zh-CN/runs.js";
import { server } from "./zh-CN/server.js";

export const zhCN = { ...page, ...runs, ...errors, ...server };
