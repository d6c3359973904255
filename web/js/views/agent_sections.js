/** The sections of an Agent's panel, in their order. */
import { researchSection } from "./research_section.js";

export const AGENT_SECTIONS = [
  researchSection,
];
