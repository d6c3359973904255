# shellcheck shell=bash
# Sourced by the scripts: one line per step, and one line with a documented exit code when something cannot be done.

say() { printf 'agent-builder: %s\n' "$*"; }

# die CODE MESSAGE…   1 failed · 2 wrong argument · 3 the machine lacks something · 75 another start, stop or bootstrap is busy
die() {
  local code=$1
  shift
  printf 'agent-builder: %s\n' "$*" >&2
  exit "$code"
}
