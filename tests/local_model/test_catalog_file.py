"""The catalog that the embedded server writes is one that the Gateway reads."""

from pathlib import Path

from agent_builder.llm.catalog import load_catalog
from agent_builder.local_model.catalog_file import write_catalog
from agent_builder.local_model.gguf import Gguf
from agent_builder.local_model.ollama_shapes import Model
from agent_builder.protocol.model_profile import Budgets, ModelProfile, Timeouts

TEMPLATE = "{% if tools %}{% endif %}"


def model(name: str, window: int, template: str) -> Model:
    metadata = {"general.architecture": "a", "a.context_length": window, "tokenizer.chat_template": template}
    return Model(name, f"{name} “label”", Gguf(Path("w.gguf"), metadata, []), "d" * 64)


def test_every_entry_has_the_values_of_a_slow_local_model(tmp_path: Path) -> None:
    folder = tmp_path / ".runtime/local-model"
    folder.mkdir(parents=True)
    (folder / "key").write_text("k" * 64)
    (folder / "key").chmod(0o600)
    path = folder / "models.toml"
    write_catalog(path, [model("big:1b", 32768, TEMPLATE), model("tiny:1b", 2048, "")], 4711, ".runtime/local-model/key")
    assert path.stat().st_mode & 0o777 == 0o600
    catalog = load_catalog(path, root=tmp_path)
    big, tiny = catalog.models
    assert catalog.default == "big:1b"
    assert big == ModelProfile(
        model_id="big:1b",
        label="big:1b “label”",
        endpoint="http://127.0.0.1:4711",
        provider_model="big:1b",
        api_key_file=folder / "key",
        window_cap=8192,
        output_cap=2048,
        timeouts=Timeouts(first_frame_s=120, idle_s=60, silent_call_s=240, call_s=300, queue_s=300),
        budgets=Budgets(run_s=600, delegate_s=240),
        streams=1,
        slots=2,
        several_calls="in_order",
        finalization="marker_only",
    )
    assert (tiny.tools, tiny.window_cap, tiny.output_cap) == (False, 2048, 1024)
