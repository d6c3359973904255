#!/usr/bin/env bash
# Checks everything that needs no running program: ruff, mypy --strict, the page's own tests, shell syntax. Every step runs.
# exit: 0 all clean · 1 a step failed · 3 the machine lacks something · 75 busy
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/environment.sh"

ensure_environment "$AGENT_BUILDER_ROOT/.venv" dev "$AGENT_BUILDER_ROOT/config/requirements-dev.txt"
cd -- "$AGENT_BUILDER_ROOT"
failed=()

step() {
  local name=$1
  shift
  say "check: $name"
  "$@" || failed+=("$name")
}

shell_syntax() {
  local file
  for file in ./*.sh scripts/*.sh scripts/lib/*.sh .ci/run; do
    bash -n -- "$file" || return 1
  done
}

page_tests() {
  command -v node >/dev/null || die 3 "node is missing: apt-get install nodejs (20 or newer)"
  local files
  mapfile -t files < <(find web/test \( -name '*.test.js' -o -name '*.test.mjs' -o -name 'test_*.js' \) | sort)
  ((${#files[@]} > 0)) || { say "web/test holds no test"; return 1; }
  node --test "${files[@]}"
}

step "ruff" ./.venv/bin/python -m ruff check --cache-dir .runtime/cache/ruff src tests scripts
step "mypy --strict" ./.venv/bin/python -m mypy
step "page tests" page_tests
step "shell syntax" shell_syntax
((${#failed[@]} == 0)) || die 1 "check: failed: ${failed[*]}"
say "check: all clean"
