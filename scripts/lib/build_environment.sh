#!/usr/bin/env bash
# Builds one virtual environment from a hash-locked file: build_environment.sh FOLDER KIND LOCK-FILE DIGEST (called under the
# bootstrap lock). The new environment is made beside the old one and moved into place when it is whole, so a failure or a
# kill at any point leaves the former one usable. BOOTSTRAP_OFFLINE=1 uses the checkout's own caches only.
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../../env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/environment.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/python.sh"

folder=$1 kind=$2 lock=$3 digest=$4
name="${folder#"$AGENT_BUILDER_ROOT"/}"
building="$folder.building" former="$folder.former"

main() {
  [[ -e "$folder" || ! -e "$former" ]] || mv -- "$former" "$folder" # killed between the two renames of an earlier run
  environment_is_current "$folder" "$kind" "$digest" && return 0  # another start built it while this one waited
  refuse_while_running
  rm -rf -- "$building" "$former"
  trap 'rm -rf -- "$building"' EXIT
  ensure_uv
  local python
  python="$(runtime_python)"
  say "$name: creating with $("$python" -V 2>&1) ($python)"
  mkdir -p -- "$(dirname -- "$folder")"
  "$UV" venv --quiet --relocatable --no-project --python "$python" -- "$building" || die 1 "$name: the environment could not be created"
  say "$name: installing $(grep -c '==' -- "$lock") packages"
  install_packages || die 1 "$name: the packages could not be installed; the former environment, if any, is unchanged"
  "$building/bin/python" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die 1 "$name: the new environment does not run"
  rm -f -- "$building/.lock" # uv's own, writable for everyone
  printf '%s\n' "$kind" "$digest" "$AGENT_BUILDER_ROOT" >"$building/agent-builder-stamp"
  [[ ! -e "$folder" ]] || mv -- "$folder" "$former"
  mv -- "$building" "$folder"
  rm -rf -- "$former"
  say "$name: ready"
}

install_packages() {
  local options=(--quiet --python "$building/bin/python" --require-hashes --no-deps --only-binary :all: --link-mode copy)
  [[ -z "${AGENT_BUILDER_DOWNLOADS:-}" ]] || options+=(--find-links "$AGENT_BUILDER_DOWNLOADS")
  [[ "${BOOTSTRAP_OFFLINE:-0}" != 1 ]] || options+=(--offline)
  "$UV" pip install "${options[@]}" -r "$lock"
}

refuse_while_running() {
  local held="$AGENT_BUILDER_ROOT/.runtime/control-plane/supervisor.lock"
  [[ ! -e "$folder" || ! -e "$held" ]] || flock -n -- "$held" true ||
    die 75 "$name has to be rebuilt, but Agent Builder is running: ./stop.sh first"
}

main
