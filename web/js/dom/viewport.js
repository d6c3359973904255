/** The height that is really visible: an on-screen keyboard takes its part, a pinch zoom does not. */

export function visibleHeight({ viewportHeight, scale, layoutHeight }) {
  if (scale > 1.01) return null;
  return viewportHeight < layoutHeight - 1 ? Math.round(viewportHeight) : null;
}

/** Below this many visible pixels only what is being written and decided keeps its place. */
const SHORT_PX = 560;
/** The same while a keyboard is open: it stands there for writing, and a long text needs room beside a question. */
const SHORT_WITH_KEYBOARD_PX = 700;
/** No keyboard takes less; bars of a browser that come and go take less than this. */
const KEYBOARD_PX = 150;

/** @param {{height: number, tallest: number}} seen visible pixels now, and the most there were at this width */
export function isShort({ height, tallest }) {
  return height < (tallest - height >= KEYBOARD_PX ? SHORT_WITH_KEYBOARD_PX : SHORT_PX);
}

export function trackVisibleHeight(root = document.documentElement) {
  const viewport = globalThis.visualViewport;
  if (!viewport) return;
  let seen = { width: 0, tallest: 0 };
  const apply = () => {
    const zoomed = viewport.scale > 1.01;
    const height = visibleHeight({ viewportHeight: viewport.height, scale: viewport.scale, layoutHeight: innerHeight });
    if (!zoomed) seen = { width: innerWidth, tallest: Math.max(seen.width === innerWidth ? seen.tallest : 0, viewport.height) };
    root.classList.toggle("short", !zoomed && isShort({ height: viewport.height, tallest: seen.tallest }));
    if (height === null) root.style.removeProperty("--visible-height");
    else root.style.setProperty("--visible-height", `${height}px`);
    if (height !== null) scrollTo(0, 0);
  };
  viewport.addEventListener("resize", apply);
  apply();
}
