"""The catalog file: what it may say, who may have written it, and on which line it is wrong."""

import os
from pathlib import Path

import pytest

from agent_builder.llm.catalog import Catalog, CatalogError, load_catalog
from agent_builder.protocol import limits
from agent_builder.protocol.model_profile import Budgets, ModelProfile, Sampling, Timeouts

PROJECT = Path(__file__).resolve().parents[2]
HEAD = 'default = "m"\n[[models]]\nmodel_id = "m"\nlabel = "M"\nendpoint = "http://127.0.0.1:11434"\nprovider_model = "m:1b"\n'


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "models.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def fault(folder: Path, text: str) -> tuple[int, str]:
    with pytest.raises(CatalogError) as caught:
        load_catalog(write(folder, text), folder)
    return caught.value.line, caught.value.reason


def test_the_delivered_catalog_holds_the_default_model() -> None:
    catalog = load_catalog(PROJECT / "config/models.toml")
    (model,) = catalog.models
    assert catalog.default == model.model_id == "qwen3.5:2b"
    assert (model.endpoint, model.window_cap, model.output_cap, model.think, model.tools) == ("http://iollama:11434", 32768, 4096, False, True)
    assert model.timeouts == Timeouts(60, 20, 20, 120, 30)
    assert model.budgets == Budgets(4, 2, 240, 600, 45)


def test_what_is_left_out_takes_the_defaults(tmp_path: Path) -> None:
    expected = ModelProfile("m", "M", "http://127.0.0.1:11434", "m:1b")
    assert load_catalog(write(tmp_path, HEAD), tmp_path) == Catalog("m", (expected,))
    assert expected.think is None


def test_every_key_is_read(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("k")
    key.chmod(0o600)
    text = HEAD + """api_key_file = "key"
enabled = true
tools = false
think = true
window_cap = 8192
output_cap = 2048
estimator = "bytes"
keep_alive = "1h30m"
timeouts = { first_frame_s = 0.5, idle_s = 2, silent_call_s = 3, call_s = 1800, queue_s = 600 }
budgets = { model_calls = 33, tool_calls = 32, run_s = 1800, approval_s = 900, delegate_s = 300 }
streams = 4
slots = 16
text_tool_calls = "off"
several_calls = "in_order"
finalization = "marker_only"
generation = { plain = { temperature = 0.5, top_p = 0.9, top_k = 5, presence_penalty = -1, seed = 7 }, tools = { temperature = 0 } }
"""
    (model,) = load_catalog(write(tmp_path, text), tmp_path).models
    assert model == ModelProfile(
        "m", "M", "http://127.0.0.1:11434", "m:1b", key, True, False, True, 8192, 2048, "bytes", "1h30m", Timeouts(0.5, 2, 3, 1800, 600),
        Budgets(33, 32, 1800, 900, 300), 4, 16, "off", "in_order", "marker_only", Sampling(0.5, 7, 0.9, 5, -1), Sampling(0.0),
    )


def test_several_entries_stand_side_by_side(tmp_path: Path) -> None:
    second = HEAD.split("\n", 1)[1].replace('"m"', '"n"')
    assert [model.model_id for model in load_catalog(write(tmp_path, HEAD + second), tmp_path).models] == ["m", "n"]


@pytest.mark.parametrize(("more", "line", "key"), [
    ("windowcap = 8192\n", 7, "windowcap is not a known key"),
    ("\n# streams = 1\nstreams = 5\n", 9, "streams"),
    ("streams = 0\n", 7, "streams"),
    ("slots = 17\n", 7, "slots"),
    ("slots = 0\n", 7, "slots"),
    ("streams = true\n", 7, "streams"),
    ("tools = 1\n", 7, "tools"),
    ("window_cap = 262145\n", 7, "window_cap"),
    ("window_cap = 511\n", 7, "window_cap"),
    ("output_cap = 32769\n", 7, "output_cap"),
    ("estimator = \"best\"\n", 7, "estimator"),
    ("keep_alive = \"30\"\n", 7, "keep_alive"),
    ("keep_alive = \"24h1s\"\n", 7, "keep_alive"),
    ("keep_alive = \"-1m\"\n", 7, "keep_alive"),
    ("\ntimeouts = { first_frame_s = 60,\n idle_s = 601 }\n".replace(",\n", ", "), 8, "timeouts.idle_s"),
    ("timeouts = { first_frame_s = 0 }\n", 7, "timeouts.first_frame_s"),
    ("timeouts = { call_s = 1801 }\n", 7, "timeouts.call_s"),
    ("timeouts = { calls_s = 1 }\n", 7, "timeouts.calls_s is not a known key"),
    ("[models.timeouts]\nidle_s = 5\nqueue_s = \"5\"\n", 9, "timeouts.queue_s"),
    ("budgets = { model_calls = 34 }\n", 7, "budgets.model_calls"),
    ("budgets = { tool_calls = 33 }\n", 7, "budgets.tool_calls"),
    ("budgets = { run_s = 1801 }\n", 7, "budgets.run_s"),
    ("budgets = { approval_s = 901 }\n", 7, "budgets.approval_s"),
    ("budgets = { delegate_s = 301 }\n", 7, "budgets.delegate_s"),
    ("generation = { plain = { temperature = 3 } }\n", 7, "generation.plain.temperature"),
    ("api_key_file = \"missing\"\n", 7, "api_key_file does not exist"),
    ("api_key_file = \"../key\"\n", 7, "api_key_file must lie inside the checkout"),
    ("api_key_file = \"/etc/hostname\"\n", 7, "api_key_file must lie inside the checkout"),
    ("x = [\n", 8, "Invalid"),
    ("label = \"again\"\n", 7, "Cannot overwrite"),
])
def test_a_fault_is_told_with_its_line(more: str, line: int, key: str, tmp_path: Path) -> None:
    found, reason = fault(tmp_path, HEAD + more)
    assert (found, reason.startswith(key)) == (line, True), reason


def test_faults_of_a_second_entry_are_found_in_it(tmp_path: Path) -> None:
    second = HEAD.split("\n", 1)[1].replace('"m"', '"n"') + "idle = 1\n"
    assert fault(tmp_path, HEAD + second) == (12, "idle is not a known key")


@pytest.mark.parametrize(("old", "new", "line", "reason"), [
    ('label = "M"\n', "", 2, "label is missing"),
    ('default = "m"', 'default = "n"', 1, "default names no enabled entry"),
    ('default = "m"', 'defaults = "m"', 1, "default is missing"),
    ('label = "M"', 'label = ""', 4, "label: must be a printable text"),
    ('label = "M"', 'label = "a\\u0007"', 4, "label: must be a printable text"),
    ("http://127.0.0.1:11434", "ftp://h", 5, "endpoint: must begin with http:// or https://"),
    ("http://127.0.0.1:11434", "http://h/v1", 5, "endpoint: must be the server's base address, without /v1 or /api"),
    ("http://127.0.0.1:11434", "http://u:p@h", 5, "endpoint: must name a host, without user name or password"),
    ("http://127.0.0.1:11434", "http://h?x=1", 5, "endpoint: must not have blanks, a query or a fragment"),
    ("http://127.0.0.1:11434", "http://h:99999", 5, "endpoint: Port out of range 0-65535"),
])
def test_required_keys_and_addresses(old: str, new: str, line: int, reason: str, tmp_path: Path) -> None:
    assert fault(tmp_path, HEAD.replace(old, new)) == (line, reason)


@pytest.mark.parametrize(("key", "bound"), [
    ("model_id", limits.MODEL_ID_BYTES), ("label", limits.MODEL_ID_BYTES), ("provider_model", limits.PROVIDER_MODEL_BYTES),
])
def test_texts_have_a_bound_of_bytes(key: str, bound: int, tmp_path: Path) -> None:
    def text(size: int) -> str:
        value = "中" * (size // 3) + "x" * (size % 3)
        return "\n".join(f'{key} = "{value}"' if line.startswith(key) else line for line in HEAD.replace('default = "m"', f'default = "{value if key == "model_id" else "m"}"').split("\n"))

    assert load_catalog(write(tmp_path, text(bound)), tmp_path).models
    assert fault(tmp_path, text(bound + 1))[1] == f"{key}: must have at most {bound} bytes"


def test_two_entries_with_one_id_are_refused(tmp_path: Path) -> None:
    assert fault(tmp_path, HEAD + HEAD.split("\n", 1)[1]) == (8, "model_id stands twice")


def test_a_default_that_is_switched_off_is_refused(tmp_path: Path) -> None:
    assert fault(tmp_path, HEAD + "enabled = false\n") == (1, "default names no enabled entry")


def test_there_are_at_most_sixteen_entries(tmp_path: Path) -> None:
    entry = HEAD.split("\n", 1)[1]
    entries = "".join(entry.replace('"m"', f'"m{number}"') for number in range(limits.CATALOG_MODELS))
    assert len(load_catalog(write(tmp_path, 'default = "m0"\n' + entries), tmp_path).models) == limits.CATALOG_MODELS
    assert fault(tmp_path, 'default = "m0"\n' + entries + entry)[1].startswith("models")


def test_the_file_has_a_bound(tmp_path: Path) -> None:
    padding = "#" * (limits.CATALOG_BYTES - len(HEAD))
    assert load_catalog(write(tmp_path, HEAD + padding), tmp_path).models
    assert fault(tmp_path, HEAD + padding + "#")[0] == 0


def test_a_file_that_its_group_may_write_is_tightened_once(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD, 0o664)
    assert load_catalog(path, tmp_path).notice == "models.toml could be written by its group; only its owner can write it now."
    assert path.stat().st_mode & 0o777 == 0o644
    assert load_catalog(path, tmp_path).notice is None


def test_files_that_others_may_have_written_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD, 0o666)
    with pytest.raises(CatalogError, match="can be written by everyone"):
        load_catalog(path, tmp_path)
    os.chown(path, 12345, -1)
    path.chmod(0o600)
    with pytest.raises(CatalogError, match="does not belong"):
        load_catalog(path, tmp_path)


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    fifo = tmp_path / "fifo.toml"
    os.mkfifo(fifo)
    for refused in (link, fifo, tmp_path, tmp_path / "nothing"):
        with pytest.raises(CatalogError):
            load_catalog(refused, tmp_path)


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_bytes(HEAD.encode() + b"# \xff\n")
    path.chmod(0o600)
    with pytest.raises(CatalogError) as caught:
        load_catalog(path, tmp_path)
    assert (caught.value.line, caught.value.reason) == (7, "is not UTF-8")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("k")
    key.chmod(mode)
    assert fault(tmp_path, HEAD + 'api_key_file = "key"\n') == (7, "api_key_file must be readable by its owner only: chmod 600")
