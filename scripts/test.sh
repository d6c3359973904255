#!/usr/bin/env bash
# Runs the tests: ./scripts/test.sh [pytest arguments]. Bootstraps --dev and finds or gets a browser first.
# exit: 0 all passed · 1 a test failed or something could not be prepared · 2 wrong argument · 3 the machine lacks something · 75 busy
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/environment.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/browser.sh"

ensure_environment "$AGENT_BUILDER_ROOT/.venv" dev "$AGENT_BUILDER_ROOT/config/requirements-dev.txt"
say "tests: packages are ready"
find_browser
say "tests: browser is $AGENT_BUILDER_CHROMIUM"
cd -- "$AGENT_BUILDER_ROOT"
# Two at a time, whole files each: much of a test is waiting for processes, and a file may share a server among its tests.
# In the order of their names: the slow files, which hold few tests, would come last otherwise, and one of them alone at the end.
exec ./.venv/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@"
