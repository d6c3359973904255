/** The sections of an Agent's panel, in their order. */
import { tasksSection } from "./tasks_section.js";

export const AGENT_SECTIONS = [
  tasksSection,
];
