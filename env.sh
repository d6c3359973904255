# shellcheck shell=bash
# Sourced, never run: `source ./env.sh`. Drops what the caller's shell says about Python and package tools, and keeps every
# file those tools write inside the checkout. Safe to source under `set -eu`; sets no shell option itself.
umask 077
AGENT_BUILDER_ROOT="$(readlink -f -- "${BASH_SOURCE[0]}")"
AGENT_BUILDER_ROOT="${AGENT_BUILDER_ROOT%/*}"
export AGENT_BUILDER_ROOT
for _name in $(compgen -e); do
  case "$_name" in
    PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_CERT | UV_DEFAULT_INDEX | UV_INDEX_URL) ;; # where packages come from: the hashes decide what is taken
    PIP_* | UV_* | PYTHON* | CONDA* | _CE_* | VIRTUAL_ENV* | PYENV_VERSION | PYENV_VIRTUAL_ENV | CDPATH) unset "$_name" ;;
  esac
done
unset _name CDPATH

_runtime="$AGENT_BUILDER_ROOT/.runtime"
export HOME="$_runtime/home" TMPDIR="$_runtime/tmp"
export XDG_CACHE_HOME="$_runtime/cache" XDG_CONFIG_HOME="$_runtime/config" XDG_DATA_HOME="$_runtime/share"
export XDG_STATE_HOME="$_runtime/state" XDG_RUNTIME_DIR="$_runtime/xdg-runtime"
export PIP_CACHE_DIR="$_runtime/cache/pip" PIP_DISABLE_PIP_VERSION_CHECK=1
export UV_CACHE_DIR="$_runtime/cache/uv" UV_PYTHON_INSTALL_DIR="$_runtime/python" UV_NO_CONFIG=1 UV_SYSTEM_CERTS=true
export PYTHONPYCACHEPREFIX="$_runtime/cache/pycache" PYTHONNOUSERSITE=1 PYTHONUTF8=1
export PYTHONPATH="$AGENT_BUILDER_ROOT/src" PLAYWRIGHT_BROWSERS_PATH="$_runtime/cache/browsers"
export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" LC_ALL=C.UTF-8
mkdir -p -- "$HOME" "$TMPDIR" "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
unset _runtime
