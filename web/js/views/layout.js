/** The frame: two sides that are columns on a wide page and exclusive drawers on a narrow one. */
import { focusSoon, isFocusLost, restPlace } from "../dom/focus.js";
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
  const skip = document.getElementById("skip");
  skip.textContent = t("nav.skip");
  skip.hidden = false;
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
    if (navDrawer) return "nav";
    return run.open && (detailsDrawer || !narrow.matches) ? "details" : null;
  }

  /** A drawer takes the focus, and gives it back to what opened it; a column goes away and leaves it at the composer. */
  let side = null;
  let opener = null;
  function moveFocus(now) {
    if (now === side) return;
    if (!side) opener = document.activeElement;
    side = now;
    if (now === "nav") focusSoon(() => sidebar.querySelector("button"));
    else if (now === "details" && narrow.matches) focusSoon(() => details.querySelector("button"));
    else if (!now) queueMicrotask(() => isFocusLost() && focusSoon(placeAfter));
  }

  function placeAfter() {
    return narrow.matches && opener !== body && opener?.checkVisibility() ? opener : restPlace();
  }

  store.watch(
    ({ view }) => [view.drawer, view.details.open],
    ([drawer, open]) => {
      if (narrow.matches && open && drawer !== "details") store.dispatch({ type: "details/closed" });
      moveFocus(apply());
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
