#!/usr/bin/env bash
# Stops what this checkout started; ./stop.sh --help explains. Exit codes are listed there.
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"

python="$AGENT_BUILDER_ROOT/.venv/bin/python"
if [[ ! -x "$python" ]]; then # purged or never built: stopping needs the standard library only
  source "$AGENT_BUILDER_ROOT/scripts/lib/python.sh"
  python="$(BOOTSTRAP_OFFLINE=1 runtime_python)"
fi
exec "$python" -m agent_builder.ops.supervise stop "$@"
