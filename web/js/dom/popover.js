/** A panel in the top layer, above or below its button, never outside what is visible. */

const GAP_PX = 6;
const EDGE_PX = 8;

/**
 * Where the panel goes. All in CSS pixels of the layout viewport.
 * @param {{left: number, right: number, top: number, bottom: number}} anchor
 * @param {{width: number, height: number}} panel
 * @param {{left: number, top: number, width: number, height: number}} viewport what is visible
 * @param {"start"|"end"} align which side of the anchor the panel keeps
 */
export function placePanel(anchor, panel, viewport, align = "start") {
  const bottomEdge = viewport.top + viewport.height - EDGE_PX;
  const below = bottomEdge - anchor.bottom - GAP_PX;
  const above = anchor.top - GAP_PX - viewport.top - EDGE_PX;
  const goesBelow = below >= panel.height || below >= above;
  const maxHeight = Math.max(0, goesBelow ? below : above);
  const height = Math.min(panel.height, maxHeight);
  const top = goesBelow ? anchor.bottom + GAP_PX : anchor.top - GAP_PX - height;
  const wanted = align === "start" ? anchor.left : anchor.right - panel.width;
  const rightmost = viewport.left + viewport.width - EDGE_PX - panel.width;
  const left = Math.max(viewport.left + EDGE_PX, Math.min(wanted, rightmost));
  return { left, top: Math.max(viewport.top + EDGE_PX, top), maxHeight };
}

/**
 * @param {HTMLElement} panel not yet in the document
 * @param {HTMLElement} anchor
 * @param {{align?: "start"|"end", onClose?: () => void}} [options]
 * @returns {{close: () => void, place: () => void}}
 */
export function openPopover(panel, anchor, { align = "start", onClose } = {}) {
  const life = new AbortController();
  const { signal } = life;
  panel.setAttribute("popover", "manual");
  panel.classList.add("popover");
  (anchor.closest("dialog") ?? document.body).append(panel);
  panel.showPopover?.();

  function place() {
    panel.style.maxHeight = "";
    const viewport = visibleBox();
    const spot = placePanel(anchor.getBoundingClientRect(), panel.getBoundingClientRect(), viewport, align);
    panel.style.left = `${spot.left}px`;
    panel.style.top = `${spot.top}px`;
    panel.style.maxHeight = `${spot.maxHeight}px`;
  }

  function close() {
    if (signal.aborted) return;
    life.abort();
    panel.remove();
    onClose?.();
  }

  place();
  addEventListener("resize", place, { signal });
  globalThis.visualViewport?.addEventListener("resize", place, { signal });
  globalThis.visualViewport?.addEventListener("scroll", place, { signal });
  const outside = (event) => !panel.contains(event.target) && !anchor.contains(event.target) && close();
  document.addEventListener("pointerdown", outside, { signal, capture: true });
  return { close, place };
}

function visibleBox() {
  const view = globalThis.visualViewport;
  if (!view) return { left: 0, top: 0, width: innerWidth, height: innerHeight };
  return { left: view.offsetLeft, top: view.offsetTop, width: view.width, height: view.height };
}
