# shellcheck shell=bash
# Sourced after env.sh and say.sh: sets and exports AGENT_BUILDER_CHROMIUM, a Chromium or Chrome that the browser tests drive.

find_browser() {
  local found
  found="$(installed_browser)" || found="$(packaged_browser)" || found="$(downloaded_browser)" ||
    die 3 "no browser for the tests: install the package chromium (Debian: apt-get install chromium), or any Chrome, and run this again"
  export AGENT_BUILDER_CHROMIUM="$found"
}

installed_browser() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
    command -v -- "$name" && return
  done
  return 1
}

# Debian's package, where this user may install one.
packaged_browser() {
  [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null || return 1
  say "tests: installing the package chromium" >&2
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; } >&2 || return 1
  installed_browser
}

# Playwright's own download, into .runtime/cache/browsers.
downloaded_browser() {
  say "tests: downloading a browser" >&2
  "$AGENT_BUILDER_ROOT/.venv/bin/python" -m playwright install chromium >&2 || return 1
  "$AGENT_BUILDER_ROOT/.venv/bin/python" -c 'from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    print(playwright.chromium.executable_path)'
}
