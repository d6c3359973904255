/** Chinese: delegation to another Agent. */
export const subagents = {
};
