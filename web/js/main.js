/** The wiring of the page: makes each part once, gives it what it needs, and starts. Nothing is decided here. */
import { createApi } from "./api.js";
import { trackVisibleHeight } from "./dom/viewport.js";
import { createApproving } from "./flows/approving.js";
import { createDelegating } from "./flows/delegating.js";
import { createLeaving } from "./flows/leaving.js";
import { createLists } from "./flows/lists.js";
import { createLooking } from "./flows/looking.js";
import { createNavigation } from "./flows/navigation.js";
import { createOrganising } from "./flows/organising.js";
import { keepDrafts, remember, remembered, rememberedDrafts } from "./flows/remembering.js";
import { createRunning } from "./flows/running.js";
import { createSending } from "./flows/sending.js";
import { createTasks } from "./flows/tasks.js";
import { createWords, pickLocale } from "./i18n/index.js";
import { initialState, reduce } from "./state/root.js";
import { createStore } from "./store.js";
import { approvalCards } from "./views/approval_card.js";
import { composer } from "./views/composer.js";
import { dockNotes } from "./views/dock_notes.js";
import { layout } from "./views/layout.js";
import { pageTitle } from "./views/page_title.js";
import { runDetails } from "./views/run_details.js";
import { sidebar } from "./views/sidebar.js";
import { startState } from "./views/start_state.js";
import { stageLine } from "./views/stage_line.js";
import { topbar } from "./views/topbar.js";
import { transcript } from "./views/transcript.js";

const place = (id) => document.getElementById(id);

function build() {
  const words = createWords(pickLocale(remembered("locale"), navigator.languages));
  const store = createStore(reduce, initialState(rememberedDrafts()));
  const drafts = keepDrafts(store);
  const toLogin = (reason) => {
    drafts.save();
    location.replace(`/login${reason ? `?${reason}` : ""}${location.hash}`);
  };
  const onSignedOut = () => toLogin("expired");
  const api = createApi({ fetch: (...args) => fetch(...args), onSignedOut });
  const app = { store, words, api, say: announcer(words), focusComposer: () => app.composer.focus() };
  app.lists = createLists(app);
  app.running = createRunning({ ...app, onSignedOut });
  app.navigation = createNavigation({ store, isNarrow: () => matchMedia("(max-width: 1100px)").matches, onPlace: (at) => app.looking.arrive(at) });
  app.looking = createLooking(app);
  app.approving = createApproving(app);
  app.delegating = createDelegating(app);
  app.organising = createOrganising(app);
  app.tasks = createTasks(app);
  app.sending = createSending({ ...app, follow: () => app.transcript.follow() });
  Object.assign(app, {
    openDetails: app.looking.openDetails,
    closeDetails: app.looking.closeDetails,
    toggleDetails: app.looking.toggleDetails,
    revealTurn: (turnId) => turnId && app.transcript.reveal(turnId),
    stopRun: app.looking.stopRun,
    toLogin,
    speak(locale) {
      drafts.save();
      remember("locale", locale);
      location.reload();
    },
    async signOut() {
      await api.logout();
      toLogin("");
    },
  });
  return app;
}

function draw(app) {
  layout(app);
  sidebar(app, place("sidebar"));
  topbar(app, place("topbar"));
  app.transcript = transcript(app, place("talk"));
  dockNotes(app, place("notes"));
  approvalCards(app, place("approvals"));
  stageLine(app, place("stage"));
  app.composer = composer(app, place("compose"));
  runDetails(app, place("details"));
  pageTitle(app);
  trackVisibleHeight();
}

/** Says something to screen readers, once. */
function announcer({ t }) {
  return (key, manner = "polite") => {
    const region = place(manner === "assertive" ? "alerts" : "announcements");
    region.textContent = "";
    setTimeout(() => {
      region.textContent = t(key);
    }, 50);
  };
}

async function start(app) {
  const state = startState(app.words, place("talk"), "empty-page", () => document.body.classList.remove("starting"));
  const session = await known(app, state);
  if (!session) return;
  if (!session.authenticated) return app.toLogin("");
  draw(app);
  await Promise.all([app.lists.loadAgents(), app.lists.loadHealth(), app.lists.loadModels()]);
  app.running.listen();
  app.lists.keepFresh();
  app.looking.settle();
  createLeaving(app).watch();
}

/** @returns the session, or null after the page has said that it could not be read */
async function known(app, state) {
  try {
    return await app.api.session();
  } catch (error) {
    if (error.name !== "ApiError") throw error;
    if (error.code !== "unauthenticated") state.failed(() => start(app));
    return null;
  } finally {
    state.done();
  }
}

const app = build();
document.documentElement.lang = app.words.locale;
start(app);
