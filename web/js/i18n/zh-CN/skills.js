/** Chinese: Skills. */
export const skills = {
};
