/** The sections of an Agent's panel, in their order. */

export const AGENT_SECTIONS = [
];
