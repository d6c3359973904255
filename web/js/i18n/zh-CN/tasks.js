/** Chinese: background Tasks. */
export const tasks = {
};
