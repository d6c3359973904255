/** Runs before the first paint, so that a chosen theme does not flash in the other one. */
try {
  const theme = localStorage.getItem("agent-builder.theme");
  if (theme === "light" || theme === "dark") document.documentElement.setAttribute("data-theme", theme);
} catch (refused) {
  console.info("no storage in this browser, the theme follows the system", refused.name);
}
