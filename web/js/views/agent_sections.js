/** The sections of an Agent's panel, in their order. */
import { researchSection } from "./research_section.js";
import { skillsSection } from "./skills_section.js";
import { tasksSection } from "./tasks_section.js";

export const AGENT_SECTIONS = [
  researchSection,
  skillsSection,
  tasksSection,
];
