/** Chinese: the research and document environment. */
export const research = {
};
