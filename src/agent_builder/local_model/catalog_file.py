"""catalog_file: the model catalog that the Gateway reads while the embedded model is in use. The operator's own file is never touched."""

import json
import os
from pathlib import Path

from agent_builder.local_model import bounds
from agent_builder.local_model.engine import SLOTS
from agent_builder.local_model.ollama_shapes import Model

HEAD = "# Written by ./start.sh --local-model at every start; changes are lost. The operator's own catalog is config/models.toml.\n"


def write_catalog(path: Path, models: list[Model], port: int, key_file: str) -> None:
    """`key_file` is relative to the checkout. The first model is the default."""
    text = HEAD + f"default = {json.dumps(models[0].name)}\n" + "".join(_entry(each, port, key_file) for each in models)
    building = path.with_name(path.name + ".building")
    with building.open("w", encoding="utf-8") as file:
        building.chmod(0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)


def _entry(model: Model, port: int, key_file: str) -> str:
    window = min(bounds.WINDOW_CAP, model.gguf.context_length)
    return f"""
[[models]]
model_id = {json.dumps(model.name)}
label = {json.dumps(model.label)}
endpoint = "http://127.0.0.1:{port}"
provider_model = {json.dumps(model.name)}
api_key_file = {json.dumps(key_file)}
tools = {"true" if "tools" in model.capabilities else "false"}
window_cap = {window}
output_cap = {min(bounds.OUTPUT_CAP, window // 2)}
timeouts = {{ first_frame_s = {bounds.FIRST_FRAME_S}, idle_s = {bounds.IDLE_S}, silent_call_s = {bounds.SILENT_CALL_S}, \
call_s = {bounds.CALL_S}, queue_s = {bounds.QUEUE_S} }}
budgets = {{ run_s = {bounds.RUN_S}, delegate_s = {bounds.DELEGATE_S} }}
streams = 1
slots = {SLOTS}
several_calls = "in_order"
finalization = "marker_only"
"""
