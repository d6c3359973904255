import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_builder.protocol.frames import Final, FrameError, LocalResult, ModelText, ToolResult, to_message
from agent_builder.protocol.framing import FramingError, LineBuffer, decode_frame, encode_frame
from agent_builder.protocol.limits import ECHO_BYTES, IPC_FRAME_BYTES, IPC_TOTAL_BYTES, IPC_TOTAL_FRAMES
from agent_builder.worker.host_link import HostLink


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    yield read_end, write_end
    os.close(read_end)
    os.close(write_end)


Reading = Callable[[bytes], HostLink]


@pytest.fixture
def reading(tmp_path: Path) -> Iterator[Reading]:
    """A link that will read the given bytes and then the end."""
    with contextlib.ExitStack() as files:

        def make(data: bytes) -> HostLink:
            (tmp_path / "input").write_bytes(data)
            return HostLink(files.enter_context((tmp_path / "input").open("rb")).fileno(), -1)

        yield make


def test_frames_come_out_as_the_host_sent_them(reading: Reading) -> None:
    frames = [ModelText(1, "h\u00e9"), ToolResult("c1", "ok")]
    link = reading(b"".join(encode_frame(to_message(frame)) for frame in frames))
    assert list(link.frames()) == frames


def test_the_longest_frame_is_read_and_a_longer_one_refused(reading: Reading) -> None:
    spare = IPC_FRAME_BYTES - len(b'{"kind":"model_text","call":1,"text":""}\n')
    assert len(list(reading(b'{"kind":"model_text","call":1,"text":""}' + b" " * spare + b"\n").frames())) == 1


def test_a_frame_one_byte_too_long_is_refused(reading: Reading) -> None:
    spare = IPC_FRAME_BYTES - len(b'{"kind":"model_text","call":1,"text":""}\n') + 1
    link = reading(b'{"kind":"model_text","call":1,"text":""}' + b" " * spare + b"\n")
    with pytest.raises(FramingError):
        list(link.frames())


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"\n", FramingError), (b"[]\n", FramingError), (b"{\n", FramingError), (b"\xff\n", FramingError), (b"null\n", FramingError),
        (b'{"kind":"start","kind":"start"}\n', FramingError), (b'{"kind":"x"}\n', FrameError), (b"{}\n", FrameError),
        (b'{"kind":"ready","version":2,"pid":1,"catalog_digest":"a"}\n', FrameError),
        (b'{"kind":"tool_result","call_id":"c","outcome":"ok","more":1}\n', FrameError),
        (b'{"kind":"tool_result","call_id":"c"}\n', FrameError),
        (b'{"kind":"tool_result","call_id":"c","outcome":"great"}\n', FrameError),
        (b'{"kind":"model_text","call":true,"text":"a"}\n', FrameError),
        (b'{"kind":"model_text","call":NaN,"text":"a"}\n', FramingError),
    ],
)
def test_what_is_no_frame_is_refused(line: bytes, error: type[Exception], reading: Reading) -> None:
    with pytest.raises(error):
        list(reading(line).frames())


def test_an_unfinished_line_at_the_end_is_dropped(reading: Reading) -> None:
    link = reading(encode_frame(to_message(ToolResult("c1", "ok"))) + b'{"kind":')
    assert list(link.frames()) == [ToolResult("c1", "ok")]


def test_the_number_of_sent_frames_is_bounded() -> None:
    with open(os.devnull, "wb") as sink:
        link = HostLink(-1, sink.fileno())
        link.send([Final(1)] * IPC_TOTAL_FRAMES)
        with pytest.raises(FramingError, match="too much"):
            link.send([Final(1)])


def test_the_bytes_of_all_sent_frames_are_bounded() -> None:
    frame = LocalResult("c", "a" * ECHO_BYTES)
    size = len(encode_frame(to_message(frame)))
    with open(os.devnull, "wb") as sink:
        link = HostLink(-1, sink.fileno())
        link.send([frame] * (IPC_TOTAL_BYTES // size))
        with pytest.raises(FramingError, match="too much"):
            link.send([frame])


def test_a_frame_larger_than_the_pipe_is_sent_whole(pipe: tuple[int, int]) -> None:
    line = b"x" * (IPC_FRAME_BYTES * 3)
    received: list[bytes] = []

    def read() -> None:
        with os.fdopen(os.dup(pipe[0]), "rb") as file:
            received.append(file.read(len(line)))

    reader = threading.Thread(target=read)
    reader.start()
    HostLink(-1, pipe[1]).send_line(line)
    reader.join()
    assert received == [line]


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_bytes_in_any_cut_give_the_same_lines(parts: list[bytes]) -> None:
    whole, cut = LineBuffer(), LineBuffer()
    assert [line for part in parts for line in cut.feed(part)] == whole.feed(b"".join(parts))
    assert cut.pending == whole.pending


@given(st.binary(max_size=200))
def test_any_line_is_an_object_or_a_framing_error(line: bytes) -> None:
    try:
        assert isinstance(decode_frame(line), dict)
    except FramingError:
        return
