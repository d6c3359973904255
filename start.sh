#!/usr/bin/env bash
# Starts Agent Builder; ./start.sh --help explains. Exit codes are listed there.
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/environment.sh"

ensure_environment "$AGENT_BUILDER_ROOT/.venv" runtime "$AGENT_BUILDER_ROOT/config/requirements.txt"
exec "$AGENT_BUILDER_ROOT/.venv/bin/python" -m agent_builder.ops.supervise start "$@"
