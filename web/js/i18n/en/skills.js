/** English: Skills. */
export const skills = {
};
