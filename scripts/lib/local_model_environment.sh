#!/usr/bin/env bash
# Builds .runtime/local-model/venv, the embedded model's own environment, unless it is current.
set -Eeuo pipefail
source "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../../env.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/say.sh"
source "$AGENT_BUILDER_ROOT/scripts/lib/environment.sh"

ensure_environment "$AGENT_BUILDER_ROOT/.runtime/local-model/venv" local-model "$AGENT_BUILDER_ROOT/config/requirements-local-model.txt"
