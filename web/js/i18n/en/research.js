/** English: the research and document environment. */
export const research = {
};
