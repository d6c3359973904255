/** The frame: two sides that are columns on a wide page and exclusive drawers on a narrow one. */
import { toggle } from "../dom/h.js";

const NARROW = "(max-width: 1100px)";

export function layout(app) {
  const { store, navigation } = app;
  const { t } = app.words;
  const { body } = document;
  const sidebar = document.getElementById("sidebar");
  const details = document.getElementById("details");
  const main = document.getElementById("main");
  const shade = document.getElementById("shade");
  const narrow = matchMedia(NARROW);
  const phone = matchMedia("(max-width: 820px)");
  document.getElementById("skip").textContent = t("nav.skip");
  document.getElementById("noscript")?.remove();

  function apply() {
    const { drawer, details: run } = store.get().view;
    const navDrawer = phone.matches && drawer === "nav";
    const detailsDrawer = narrow.matches && drawer === "details";
    toggle(body, "with-details", run.open && !narrow.matches);
    toggle(body, "nav-open", navDrawer);
    toggle(body, "details-open", detailsDrawer);
    sidebar.inert = (phone.matches && !navDrawer) || detailsDrawer;
    details.inert = narrow.matches && !detailsDrawer;
    main.inert = navDrawer || detailsDrawer;
    shade.hidden = !navDrawer && !detailsDrawer;
    return { navDrawer, detailsDrawer };
  }

  store.watch(
    ({ view }) => [view.drawer, view.details.open],
    ([drawer, open]) => {
      if (narrow.matches && open && drawer !== "details") store.dispatch({ type: "details/closed" });
      const { navDrawer, detailsDrawer } = apply();
      if (navDrawer) sidebar.querySelector("button")?.focus();
      if (detailsDrawer) details.querySelector("button")?.focus();
    },
  );
  narrow.addEventListener("change", apply);
  phone.addEventListener("change", apply);
  shade.addEventListener("click", navigation.closeDrawer);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing || event.defaultPrevented) return;
    if (document.querySelector("dialog[open], [popover]")) return;
    if (store.get().view.drawer) navigation.closeDrawer();
    else if (store.get().view.details.open && details.contains(document.activeElement)) app.closeDetails();
  });
  body.classList.remove("starting");
}
