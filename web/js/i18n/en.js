/** Every word of the page in English. */
import { errors } from "./en/errors.js";
import { page } from "./en/page.js";
import { runs } from "./en/runs.js";
import { server } from "./en/server.js";

export const en = { ...page, ...runs, ...errors, ...server };
