/**
 * Keeps the newest line in sight while the reader is at the end. Scrolling back pauses it; coming back to the end,
 * or asking for it, starts it again.
 */

/** A reader within this many pixels of the end is at the end. */
export const END_SLACK_PX = 32;

export function isAtEnd({ scrollTop, clientHeight, scrollHeight }) {
  return scrollHeight - scrollTop - clientHeight <= END_SLACK_PX;
}

/**
 * What a scroll event means.
 * @param {boolean} following
 * @param {{top: number, height: number}} before `scrollTop` and `scrollHeight` at the last look
 * @param {{scrollTop: number, clientHeight: number, scrollHeight: number}} now
 */
export function followsAfterScroll(following, before, now) {
  if (isAtEnd(now)) return true;
  const movedUp = now.scrollTop < before.top - 1;
  const shrank = now.scrollHeight < before.height;
  return following && (!movedUp || shrank);
}

/**
 * @param {HTMLElement} scroller
 * @param {HTMLElement} content
 * @param {(following: boolean) => void} onChange
 * @param {() => boolean} hasEnd whether there is something whose end matters; a page of words is read from its top
 */
export function createScrollFollower(scroller, content, onChange, hasEnd = () => true) {
  let following = true;
  let before = { top: 0, height: 0 };

  function look() {
    before = { top: scroller.scrollTop, height: scroller.scrollHeight };
  }

  function setFollowing(value) {
    if (value === following) return;
    following = value;
    onChange(following);
  }

  function toEnd() {
    scroller.scrollTop = hasEnd() ? scroller.scrollHeight : 0;
    look();
  }

  scroller.addEventListener(
    "scroll",
    () => {
      if (hasEnd()) setFollowing(followsAfterScroll(following, before, scroller));
      look();
    },
    { passive: true },
  );
  scroller.addEventListener("wheel", (event) => event.deltaY < 0 && leave(), { passive: true });

  /** A wheel turned up means "let me read", even when new text moves the end in the same moment. */
  function leave() {
    if (hasEnd() && scroller.scrollTop > 0 && scroller.scrollHeight > scroller.clientHeight) setFollowing(false);
  }

  const sizes = new ResizeObserver(() => following && toEnd());
  sizes.observe(content);
  sizes.observe(scroller);

  return {
    follow() {
      setFollowing(true);
      toEnd();
    },
    /** After a jump to another place: follows on only where that place is the end. */
    settle: () => setFollowing(isAtEnd(scroller)),
    isFollowing: () => following,
    /**
     * Runs `change` so that what the reader sees stays where it is.
     * @param {() => () => number|null} mark called before; what it returns says after the change how far that moved down
     */
    keepPlace(mark, change) {
      if (following) {
        change();
        return toEnd();
      }
      const moved = mark();
      change();
      scroller.scrollTop += moved() ?? 0;
      look();
    },
  };
}
