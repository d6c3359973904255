/** The page's line drawings. */
import { svg } from "./h.js";

const PATHS = {
  plus: ["M8 3v10", "M3 8h10"],
  close: ["M4 4l8 8", "M12 4l-8 8"],
  menu: ["M2.5 4.5h11", "M2.5 8h11", "M2.5 11.5h11"],
  chevron: ["M4.5 6.5L8 10l3.5-3.5"],
  check: ["M3.5 8.5l3 3 6-7"],
  arrowUp: ["M8 13V3.5", "M4 7l4-3.5L12 7"],
  arrowDown: ["M8 3v9.5", "M4 9l4 3.5L12 9"],
  branch: ["M5 3v10", "M5 9c0-3 6-1 6-5", "M11 4V3"],
  back: ["M10.5 3.5L6 8l4.5 4.5"],
  forward: ["M5.5 3.5L10 8l-4.5 4.5"],
  play: ["M5 3.5v9l7-4.5z"],
  pause: ["M5.5 3.5v9", "M10.5 3.5v9"],
  warning: ["M8 2.5l6 11H2z", "M8 6.5v3", "M8 11.4v.2"],
  file: ["M4 2.5h5l3 3v8H4z", "M9 2.5v3h3"],
};

export function icon(name, className) {
  return svg(PATHS[name], className ? `icon ${className}` : "icon");
}

/** Filled shapes: three dots, a stop square. */
export function dots() {
  return svg(["M3 8h.01", "M8 8h.01", "M13 8h.01"], "icon icon-dots");
}

export function square() {
  return svg(["M4.5 4.5h7v7h-7z"], "icon icon-solid");
}
