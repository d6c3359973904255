"""Command line of the embedded model: `fetch MODE…` brings weights, `serve` answers until it is terminated.

serve prints one JSON line `{"listening": PORT}` when it takes requests. Exit: 0 done, 1 failed with one line, 2 wrong argument.
"""

import argparse
import ctypes
import json
import os
import secrets
import signal
import sys
import threading
from pathlib import Path

from agent_builder.local_model import bounds
from agent_builder.local_model.catalog_file import write_catalog
from agent_builder.local_model.gguf import GgufError
from agent_builder.local_model.ollama_shapes import Model, open_model
from agent_builder.local_model.server import ModelServer
from agent_builder.local_model.weights import CATALOG, FetchFailed, fetch, is_verified, own_digest

KEY_FILE = ".runtime/local-model/key"
PR_SET_PDEATHSIG = 1


def main() -> int:
    arguments = _arguments()
    checkout = Path(arguments.checkout).resolve()
    try:
        if arguments.command == "fetch":
            downloads = os.environ.get("AGENT_BUILDER_DOWNLOADS")
            for mode in arguments.modes:
                fetch(CATALOG[mode], checkout, Path(downloads) if downloads else None)
            return 0
        return _serve(checkout, _models(checkout, arguments.modes, arguments.model_file), arguments.port)
    except (FetchFailed, GgufError, OSError) as error:
        print(f"agent-builder: {error}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="agent_builder.local_model", description="The embedded local model.")
    parser.add_argument("--checkout", required=True, help="root of the checkout")
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="bring and verify weights")
    fetching.add_argument("modes", nargs="+", choices=list(CATALOG))
    serving = commands.add_parser("serve", help="answer on loopback until terminated")
    serving.add_argument("modes", nargs="*", metavar="{" + ",".join(CATALOG) + "}")
    serving.add_argument("--model-file", type=Path, help="weights the operator already has")
    serving.add_argument("--port", type=int, default=0, help="0 takes a free port")
    given = parser.parse_args()
    for mode in given.modes:
        if mode not in CATALOG:
            parser.error(f"unknown model {mode!r}")
    return given


def _models(checkout: Path, modes: list[str], model_file: Path | None) -> list[Model]:
    """Raises FetchFailed when weights are not there or were changed since they were verified."""
    models = []
    if model_file is not None:
        path = model_file.resolve(strict=True)
        name = path.stem.encode()[: bounds.FILE_NAME_BYTES].decode(errors="ignore")
        models.append(open_model(f"{name.lower()}:file", f"{name} (local file)", path, own_digest(path)))
    for each in (CATALOG[mode] for mode in modes):
        path = checkout / ".runtime/local-model/weights" / each.file
        if not is_verified(path, each.sha256):
            raise FetchFailed(f"the weights of {each.label} are not here or were changed: ./start.sh --local-model fetches them")
        models.append(open_model(each.model, each.label, path, each.sha256))
    if not models:
        raise FetchFailed("no model to serve was named")
    return models


def _serve(checkout: Path, models: list[Model], port: int) -> int:
    _end_with_parent()
    _prepare_openmp()
    server = ModelServer(port, _key(checkout / KEY_FILE), models)
    write_catalog(checkout / ".runtime/local-model/models.toml", models, server.server_port, KEY_FILE)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"listening": server.server_port}), flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    os._exit(0)  # an answer may be in the middle of llama.cpp; nothing here has to be written or closed


def _prepare_openmp() -> None:
    """llama.cpp computes with OpenMP from the machine's libgomp. Its threads must not spin while they wait: beside another
    busy process that costs most of the speed. Raises FetchFailed when the library is missing."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when the library is loaded
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError as error:
        raise FetchFailed("libgomp.so.1 is missing: install it (Debian: apt-get install libgomp1)") from error


def _key(path: Path) -> str:
    """The bearer token of this checkout's model server, made once."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        building = path.with_name("key.building")
        building.write_text(secrets.token_hex(32))
        building.chmod(0o600)
        building.replace(path)
    return path.read_text().strip()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
