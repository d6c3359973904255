import errno

import pytest

from agent_builder.sandbox import linux_calls
from agent_builder.sandbox.linux_calls import call_number, library_call, prctl, raw_system_call, system_call


def test_a_failing_library_call_raises_with_its_errno() -> None:
    """Its -1 is a C int; read as a long it would pass for success."""
    with pytest.raises(OSError, match="prctl") as raised:
        prctl(999)
    assert raised.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="socket"):
        library_call("socket", 999, 1, 0)


def test_a_success_after_a_failure_is_a_success() -> None:
    with pytest.raises(OSError, match="prctl"):
        prctl(999)
    assert prctl(linux_calls.PR_CAPBSET_READ, 0) in (0, 1)


def test_a_failing_system_call_raises_with_its_errno() -> None:
    with pytest.raises(OSError, match="Bad address") as raised:
        system_call("openat2", -100, None, None, 24)
    assert raised.value.errno == errno.EFAULT
    with pytest.raises(OSError, match="9999"):
        raw_system_call(9999)


def test_a_machine_without_numbers_has_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call_number("openat2") == 437
    monkeypatch.setattr(linux_calls, "MACHINE", "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        call_number("openat2")
