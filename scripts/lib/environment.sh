# shellcheck shell=bash
# Sourced after env.sh and say.sh: decides whether an environment is current (a few milliseconds) and has it built if not.

# environment_digest FILE…   one digest over the lock files an environment is made of
environment_digest() { cat -- "$@" | sha256sum | cut -d' ' -f1; }

# environment_is_current FOLDER KIND DIGEST   a development environment also serves as a runtime one; a moved checkout has none
environment_is_current() {
  local stamp="$1/agent-builder-stamp" kind digest root
  [[ -f "$stamp" && -x "$1/bin/python" ]] || return 1
  { IFS= read -r kind && IFS= read -r digest && IFS= read -r root; } <"$stamp" || return 1
  [[ "$digest" == "$3" && "$root" == "$AGENT_BUILDER_ROOT" ]] && [[ "$kind" == "$2" || "$kind" == dev ]]
}

# ensure_environment FOLDER KIND LOCK-FILE   builds the environment beside the old one and swaps; nothing to do is the usual case
ensure_environment() {
  local folder=$1 kind=$2 lock=$3 config="$AGENT_BUILDER_ROOT/config" digest
  if [[ "$kind" == local-model ]]; then
    digest="$(environment_digest "$lock")"
  else
    digest="$(environment_digest "$config/requirements.txt" "$config/requirements-dev.txt" "$config/requirements-uv.txt")"
  fi
  environment_is_current "$folder" "$kind" "$digest" && return 0
  command -v flock >/dev/null || die 3 "flock is missing: install the package util-linux"
  local status=0
  flock -w 300 -E 75 -o -- "$AGENT_BUILDER_ROOT/.runtime/bootstrap.lock" \
    bash "$AGENT_BUILDER_ROOT/scripts/lib/build_environment.sh" "$folder" "$kind" "$lock" "$digest" || status=$?
  ((status != 75)) || die 75 "another bootstrap holds .runtime/bootstrap.lock for more than 300 s; try again when it has ended"
  ((status == 0)) || exit "$status"
}
