# shellcheck shell=bash
# Sourced after env.sh and say.sh: finds a Python, and brings the pinned uv into .tools/uv.

UV="$AGENT_BUILDER_ROOT/.tools/uv/bin/uv"

# Prints the real path of every Python on PATH, newest first by name.
pythons() {
  local name
  for name in python3.13 python3.12 python3.11 python3 python3.14 python; do
    command -v -- "$name" >/dev/null || continue
    "$name" -I -c 'import os, sys; print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))' 2>/dev/null || true
  done
}

# Prints the interpreter the environments are made with: one of the machine, or else one that uv brings into .runtime/python.
runtime_python() {
  local candidate
  while IFS= read -r candidate; do
    "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' || continue
    printf '%s\n' "$candidate"
    return
  done < <(pythons)
  if [[ "${BOOTSTRAP_OFFLINE:-0}" != 1 ]]; then
    "$UV" python install --quiet --no-bin 3.12 >&2 || true
  fi
  UV_PYTHON_PREFERENCE=only-managed "$UV" python find 3.12 2>/dev/null ||
    die 3 "Python 3.11 or newer is needed, and none could be brought here: install it (Debian: apt-get install python3)"
}

# Puts the pinned uv into .tools/uv; its wheel is kept under .runtime/cache so that --offline can do this again.
ensure_uv() {
  local lock="$AGENT_BUILDER_ROOT/config/requirements-uv.txt" tools="$AGENT_BUILDER_ROOT/.tools" stamp
  stamp="$tools/uv/agent-builder-stamp"
  [[ -x "$UV" && -f "$stamp" && "$(<"$stamp")" == "$(environment_digest "$lock")" ]] && return 0
  local -x PIP_ROOT_USER_ACTION=ignore
  local pip=() wheels="$AGENT_BUILDER_ROOT/.runtime/cache/uv-wheel"
  find_pip
  say ".tools/uv: installing $(sed -n '1s/ .*//p' -- "$lock")"
  rm -rf -- "$tools/uv.building"
  mkdir -p -- "$tools" "$wheels"
  if [[ "${BOOTSTRAP_OFFLINE:-0}" != 1 ]]; then
    local near=()
    [[ -z "${AGENT_BUILDER_DOWNLOADS:-}" ]] || near=(--find-links "$AGENT_BUILDER_DOWNLOADS")
    "${pip[@]}" download --quiet --no-deps --only-binary :all: --require-hashes "${near[@]}" --dest "$wheels" -r "$lock" ||
      die 1 ".tools/uv: the download failed; nothing was changed"
  fi
  "${pip[@]}" install --quiet --no-index --find-links "$wheels" --no-deps --require-hashes --target "$tools/uv.building" -r "$lock" ||
    die 1 ".tools/uv: the installation failed; nothing was changed"
  environment_digest "$lock" >"$tools/uv.building/agent-builder-stamp"
  rm -rf -- "$tools/uv"
  mv -- "$tools/uv.building" "$tools/uv"
}

# Sets the array pip to a command that runs pip: of any Python here, or of a throwaway environment made with ensurepip.
find_pip() {
  local candidate
  while IFS= read -r candidate; do
    if "$candidate" -I -m pip --version >/dev/null 2>&1; then
      pip=("$candidate" -I -m pip)
      return
    fi
  done < <(pythons)
  while IFS= read -r candidate; do
    rm -rf -- "$TMPDIR/pip"
    if "$candidate" -I -m venv "$TMPDIR/pip" >/dev/null 2>&1; then
      pip=("$TMPDIR/pip/bin/python" -I -m pip)
      return
    fi
  done < <(pythons)
  die 3 "a Python with pip is needed once, to install uv: apt-get install python3-pip (or python3-venv)"
}
