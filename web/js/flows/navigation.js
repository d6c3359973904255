/**
 * The address bar names Agent and Conversation (`#/<agent>/<conversation>`), so that Back, Forward and a reload
 * find the same place. An open drawer of a narrow page is a history entry of its own: Back closes it.
 */

const PLACE = /^#\/([0-9a-f-]{36})(?:\/([0-9a-f-]{36}))?$/;

/** @returns {{agentId: string, conversationId: string|null} | null} */
export function parsePlace(hash) {
  const match = PLACE.exec(hash);
  return match ? { agentId: match[1], conversationId: match[2] ?? null } : null;
}

export function formatPlace(agentId, conversationId) {
  return conversationId ? `#/${agentId}/${conversationId}` : `#/${agentId}`;
}

/**
 * @param {{store: object, onPlace: (place: {agentId: string, conversationId: string|null}) => void, isNarrow: () => boolean}} app
 */
export function createNavigation({ store, onPlace, isNarrow }) {
  function go(agentId, conversationId, { replace = false } = {}) {
    const place = formatPlace(agentId, conversationId);
    const stay = replace || location.hash === place || history.state?.drawer;
    history[stay ? "replaceState" : "pushState"]({}, "", place);
    arrive({ agentId, conversationId });
  }

  function arrive(place) {
    store.dispatch({ type: "view/drawer", drawer: null });
    store.dispatch({ type: "view/opened", ...place });
    onPlace(place);
  }

  function openDrawer(drawer) {
    const { drawer: open } = store.get().view;
    if (open === drawer) return;
    if (isNarrow()) history[open ? "replaceState" : "pushState"]({ drawer }, "", location.hash);
    store.dispatch({ type: "view/drawer", drawer });
  }

  function closeDrawer() {
    if (!store.get().view.drawer) return;
    if (history.state?.drawer) history.back();
    else store.dispatch({ type: "view/drawer", drawer: null });
  }

  addEventListener("popstate", (event) => {
    store.dispatch({ type: "view/drawer", drawer: event.state?.drawer ?? null });
    const place = parsePlace(location.hash);
    const { agentId, conversationId } = store.get().view;
    if (place && (place.agentId !== agentId || place.conversationId !== conversationId)) arrive(place);
  });

  return { go, openDrawer, closeDrawer };
}
