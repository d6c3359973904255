"""The installer's end of a research environment. A script plays uv except where there is no network; the real one is in tests/flows."""

import asyncio
import logging
from pathlib import Path

import pytest

from agent_builder.capsule.research_env import staging
from agent_builder.capsule.research_install import InstallFailed, PackageSource, install
from agent_builder.protocol.checkout import Checkout
from agent_builder.protocol.ids import SYSTEM_AGENT_ID
from agent_builder.protocol.limits import PACKAGE_OUTPUT_BYTES
from agent_builder.settings import read_settings
from agent_builder.system_clock import SystemClock
from tests.support.research import HANGING, PACKAGE_ENVIRONMENT, ended, equip, installer_started, script_installer

AGENT = SYSTEM_AGENT_ID
told: list[tuple[str, int, int]] = []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path / "checkout 中文")
    for path in (made.agent_data(AGENT), made.agent_runtime(AGENT), made.runtime / "home", made.runtime / "tmp"):
        path.mkdir(parents=True)
    told.clear()
    return made


async def fail(checkout: Checkout, source: PackageSource) -> str:
    with pytest.raises(InstallFailed) as failure:
        await install(checkout, AGENT, source, SystemClock(), lambda *progress: told.append(progress))
    assert not staging(checkout, AGENT).exists()
    assert not checkout.research_env(AGENT).exists()
    return failure.value.code


@pytest.mark.parametrize(("script", "code"), [
    ("echo 'error: No space left on device (os error 28)' >&2; exit 2", "disk_full"),
    ("echo 'cause: Because cffi==2.1.1 has no usable wheels and you require cffi==2.1.1' >&2; exit 1", "no_fitting_file"),
    ("kill -9 $$", "download_failed"),
    ("yes 'error: all wrong' | head -c 1000000 >&2; exit 2", "download_failed"),
    ("rm -- \"$0\"", "installer_missing"),
    ("exit 0", "check_failed"),
    ("echo 'broken(' >module.py", "check_failed"),
])  # fmt: skip
async def test_each_failure_has_its_code_and_leaves_nothing(checkout: Checkout, script: str, code: str, caplog: pytest.LogCaptureFixture) -> None:
    script_installer(checkout.root, script)
    with caplog.at_level(logging.ERROR):
        assert await fail(checkout, PackageSource(None, {})) == code
    assert all(len(record.getMessage()) < PACKAGE_OUTPUT_BYTES + 1000 for record in caplog.records)


async def test_the_progress_counts_packages(checkout: Checkout) -> None:
    script_installer(checkout.root, "exit 0")
    await fail(checkout, PackageSource(None, {}))
    assert told == [*(("downloading", done, 7) for done in range(7)), ("checking", 7, 7)]


async def test_the_installer_gets_one_requirement_with_hashes_and_a_clean_environment(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    script_installer(checkout.root, 'echo "$@" >"$HOME/arguments"; env >"$HOME/environment"; cat >"$HOME/requirement"; pwd >"$HOME/place"; exit 1')
    monkeypatch.setenv("UV_CONFIG_FILE", "elsewhere")
    monkeypatch.setenv("SECRET", "nobody's business")
    await fail(checkout, PackageSource(Path("/wheels"), {"HTTPS_PROXY": "http://proxy.invalid", "HOME": "/elsewhere"}))
    home = checkout.runtime / "home"
    arguments = (home / "arguments").read_text()
    assert all(one in arguments for one in ("--require-hashes", "--no-deps", "--only-binary :all:", "--find-links /wheels", f"--target {staging(checkout, AGENT)}"))
    names = {line.partition("=")[0] for line in (home / "environment").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {
        "HOME", "HTTPS_PROXY", "LC_ALL", "PATH", "TMPDIR", "UV_CACHE_DIR", "UV_NO_CONFIG", "UV_PYTHON_DOWNLOADS", "UV_SYSTEM_CERTS",
    }
    requirement = (home / "requirement").read_text()
    assert requirement.startswith("cffi==")
    assert requirement.count("==") == 1 < requirement.count("--hash=sha256:")
    assert (home / "place").read_text().strip() == str(staging(checkout, AGENT))


def test_the_operators_environment_names_folder_index_proxy_and_certificates() -> None:
    said = {"UV_DEFAULT_INDEX": "a", "https_proxy": "b", "SSL_CERT_FILE": "c"}
    settings = read_settings({**said, "AGENT_BUILDER_DOWNLOADS": "wheels", "UV_CACHE_DIR": "d", "SECRET": "e", "HTTP_PROXY": ""})
    assert (settings.downloads, settings.package_environment) == (Path("wheels").resolve(), said)
    assert read_settings({}).downloads is None


async def test_whoever_is_cancelled_leaves_no_installer_and_no_file(checkout: Checkout) -> None:
    script_installer(checkout.root, HANGING)
    task = asyncio.create_task(fail(checkout, PackageSource(None, {})))
    pid = await installer_started(checkout.root)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await ended(pid)
    assert not staging(checkout, AGENT).exists()


async def test_without_a_network_it_says_so(checkout: Checkout) -> None:
    equip(checkout.root, cache=False)
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    source = PackageSource(None, {**PACKAGE_ENVIRONMENT, **nowhere, "UV_HTTP_RETRIES": "0"})
    assert await fail(checkout, source) == "download_failed"
