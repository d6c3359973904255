#!/usr/bin/env bash
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/environment.sh"

usage() {
  cat <<'HELP'
usage: ./bootstrap.sh [--offline] [--dev]

Creates .venv from the hash-locked config/requirements.txt, with the pinned uv in .tools. Does nothing when nothing changed.
  --dev       also the packages of the tests and checks (config/requirements-dev.txt)
  --offline   use only what earlier runs left in this checkout's caches
AGENT_BUILDER_DOWNLOADS=FOLDER is a read-only folder of wheels that is looked into first; their hashes are checked.
exit: 0 ready · 1 failed, the former environment is unchanged · 2 wrong argument · 3 the machine lacks something · 75 busy
HELP
}

kind=runtime lock="$AGENT_BUILDER_ROOT/config/requirements.txt"
for argument in "$@"; do
  case "$argument" in
    --dev) kind=dev lock="$AGENT_BUILDER_ROOT/config/requirements-dev.txt" ;;
    --offline) export BOOTSTRAP_OFFLINE=1 ;;
    -h | --help) usage && exit 0 ;;
    *) die 2 "unknown argument: $argument (./bootstrap.sh --help)" ;;
  esac
done
ensure_environment "$AGENT_BUILDER_ROOT/.venv" "$kind" "$lock"
say "bootstrap: ready"
