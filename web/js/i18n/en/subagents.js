/** English: delegation to another Agent. */
export const subagents = {
};
