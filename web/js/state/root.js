/** The whole state of the page and the one function that moves it on. */
import { agents } from "./agents.js";
import { conversations } from "./conversations.js";
import { drafts } from "./drafts.js";
import { gateway } from "./gateway.js";
import { permissions } from "./permissions.js";
import { runs } from "./run_events.js";
import { subagents } from "./subagents.js";
import { pages } from "./turns.js";
import { view } from "./view.js";

const SLICES = { agents, conversations, drafts, gateway, pages, permissions, runs, subagents, view };

export function reduce(state, action) {
  let changed = false;
  const next = {};
  for (const [name, slice] of Object.entries(SLICES)) {
    next[name] = slice(state[name], action);
    changed ||= next[name] !== state[name];
  }
  return changed ? next : state;
}

export function initialState(drafts = {}) {
  return reduce({ drafts }, { type: "start" });
}
