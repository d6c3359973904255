/** The sections of an Agent's panel, in their order. */

import { skillsSection } from "./skills_section.js";

export const AGENT_SECTIONS = [
  skillsSection,
];
