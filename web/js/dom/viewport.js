/** The height that is really visible: an on-screen keyboard takes its part, a pinch zoom does not. */

export function visibleHeight({ viewportHeight, scale, layoutHeight }) {
  if (scale > 1.01) return null;
  return viewportHeight < layoutHeight - 1 ? Math.round(viewportHeight) : null;
}

/** Below this many visible pixels, as on a phone with its keyboard, only what is being written and decided keeps its place. */
export const SHORT_PX = 560;

export function trackVisibleHeight(root = document.documentElement) {
  const viewport = globalThis.visualViewport;
  if (!viewport) return;
  const apply = () => {
    const height = visibleHeight({ viewportHeight: viewport.height, scale: viewport.scale, layoutHeight: innerHeight });
    root.classList.toggle("short", viewport.scale <= 1.01 && viewport.height < SHORT_PX);
    if (height === null) root.style.removeProperty("--visible-height");
    else root.style.setProperty("--visible-height", `${height}px`);
    if (height !== null) scrollTo(0, 0);
  };
  viewport.addEventListener("resize", apply);
  apply();
}
