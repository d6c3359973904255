/** English: background Tasks. */
export const tasks = {
};
