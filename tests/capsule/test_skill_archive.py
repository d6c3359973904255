import io
import stat
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_builder.capsule.skill_archive import SkillRefused, files_digest, read_archive
from agent_builder.protocol.limits import (
    SKILL_ARCHIVE_BYTES,
    SKILL_BYTES,
    SKILL_DESCRIPTION_CHARS,
    SKILL_ENTRIES,
    SKILL_FILE_BYTES,
    SKILL_MD_BYTES,
    SKILL_NAME_CHARS,
    SKILL_RATIO,
    SKILL_VERSION_CHARS,
)
from tests.support.skills import HELLO, archive, packed, skill_md


def refusal(data: bytes) -> SkillRefused:
    with pytest.raises(SkillRefused) as refused:
        read_archive(data)
    return refused.value


def with_entry(name: str = "x", content: bytes = b"", mode: int = 0, flags: int = 0, packing: int = zipfile.ZIP_STORED) -> bytes:
    """A good archive with one more entry, as the directory of the archive describes it."""
    target = io.BytesIO(packed({"SKILL.md": skill_md()}))
    with zipfile.ZipFile(target, "a") as opened:
        entry = zipfile.ZipInfo(name)
        entry.external_attr, entry.compress_type = mode << 16, packing
        opened.writestr(entry, content)
    data = bytearray(target.getvalue())
    if flags:
        place = data.rindex(b"PK\x01\x02")
        data[place + 8 : place + 10] = struct.pack("<H", flags)
    return bytes(data)


def test_a_skill_is_read_from_its_folder_or_from_the_root() -> None:
    found = read_archive(archive(more={"references/a.txt": "data"}))
    assert (found.text.name, found.text.version, found.text.description) == ("greet", "1.0.0", "Greets people by name.")
    assert found.text.instructions.startswith("# Greeting\n")
    assert (sorted(found.files), found.scripts) == (["SKILL.md", "references/a.txt", "scripts/hello.py"], ("hello.py",))
    flat = read_archive(packed({"SKILL.md": skill_md(), "scripts/": "", "scripts/hello.py": HELLO, "references/a.txt": "data"}))
    assert flat.digest == found.digest == files_digest(found.files)


def test_the_digest_names_paths_and_contents() -> None:
    first = read_archive(archive(more={"a": "1"})).digest
    assert len({first, read_archive(archive(more={"b": "1"})).digest, read_archive(archive(more={"a": "2"})).digest}) == 3


def test_only_python_files_directly_in_scripts_can_be_run() -> None:
    scripts = {"b.py": HELLO, "a.py": HELLO, "run.sh": "ls", "lib/c.py": "x = 1\n"}
    assert read_archive(archive(scripts, more={"other.py": "x = 1\n"})).scripts == ("a.py", "b.py")


def test_what_a_mac_adds_is_passed_over() -> None:
    found = read_archive(packed({"greet/SKILL.md": skill_md(), "greet/.DS_Store": b"\0", "__MACOSX/greet/._SKILL.md": b"\0"}))
    assert list(found.files) == ["SKILL.md"]


def test_a_version_may_stand_in_the_metadata() -> None:
    text = '---\nname: greet\ndescription: >\n  Greets\n  people.\nmetadata:\n  version: "2.0"\n---\nDo it.\n'
    found = read_archive(packed({"SKILL.md": text})).text
    assert (found.version, found.description) == ("2.0", "Greets people.")


def test_a_name_of_an_entry_in_utf_8_without_its_mark_is_read() -> None:
    data = packed({"SKILL.md": skill_md(), "r/\u4e2d.txt": "x"})
    unmarked = bytearray(data)
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = unmarked.rindex(signature)
        unmarked[place + offset : place + offset + 2] = b"\0\0"
    assert sorted(read_archive(bytes(unmarked)).files) == ["SKILL.md", "r/\u4e2d.txt"]


@pytest.mark.parametrize("name", [
    "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\\b", "C:\\x", "a/.git/config", "\u202eevil", "a\nb", "a\x7f", ".agent-builder-x", "n" * 256,
    "d/" * 40 + "x", "..", " /../x",
])
def test_a_name_out_of_its_plain_form_is_refused(name: str) -> None:
    assert refusal(with_entry(name, b"x")).reason == "name"


@pytest.mark.parametrize(("mode", "reason"), [
    (stat.S_IFLNK | 0o777, "link"), (stat.S_IFCHR | 0o600, "special"), (stat.S_IFBLK, "special"), (stat.S_IFIFO, "special"), (stat.S_IFSOCK, "special"),
    (stat.S_IFDIR | 0o755, "special"),
])
def test_links_and_devices_are_refused(mode: int, reason: str) -> None:
    assert refusal(with_entry("x", b"/etc/passwd", mode)).reason == reason


def test_set_user_bits_mean_nothing() -> None:
    assert "x" in read_archive(with_entry("x", b"", stat.S_IFREG | 0o6777)).files


def test_encrypted_and_otherwise_packed_entries_are_refused() -> None:
    assert refusal(with_entry(flags=1)).reason == "encrypted"
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        assert refusal(with_entry(content=b"x" * 99, packing=packing)).reason == "packing"


@pytest.mark.parametrize("names", [
    ("a", "a"), ("a", "A"), ("d/a", "D/b"), ("a", "a/b"), ("a/b", "a"), ("stra\u00dfe", "STRASSE"), ("\u00e9", "e\u0301"), ("a/", "a"), ("skill.md", "b"),
])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_collide_are_refused(names: tuple[str, str]) -> None:
    target = io.BytesIO(packed({"SKILL.md": skill_md()}))
    with zipfile.ZipFile(target, "a") as opened:
        for name in names:
            opened.writestr(name, b"")
    assert refusal(target.getvalue()).reason == "duplicate"


def test_a_folder_may_stand_as_an_entry_before_and_after_its_files() -> None:
    assert sorted(read_archive(packed({"g/": "", "g/SKILL.md": skill_md(), "g/d/a": "", "g/d/": ""})).files) == ["SKILL.md", "d/a"]


@pytest.mark.parametrize(("files", "reason"), [
    ({"README.md": "x"}, "no_skill_md"), ({}, "no_skill_md"), ({"a/b/SKILL.md": skill_md()}, "no_skill_md"), ({"Skill.md": skill_md()}, "no_skill_md"),
    ({"a/SKILL.md": skill_md(), "b/SKILL.md": skill_md()}, "several_skill_md"), ({"SKILL.md": skill_md(), "a/SKILL.md": skill_md()}, "several_skill_md"),
    ({"a/SKILL.md": skill_md(), "b/x": ""}, "beside"), ({"a/SKILL.md": skill_md(), "x": ""}, "beside"),
    ({"SKILL.md": b"\xff\xfe"}, "not_text"), ({"SKILL.md": skill_md() + "\0"}, "not_text"), ({"SKILL.md": skill_md(), "scripts/a.py": b"\xff"}, "not_text"),
    ({"SKILL.md": "# no front matter\n"}, "front_matter"), ({"SKILL.md": "---\nname greet\n---\nx\n"}, "front_matter"),
    ({"SKILL.md": "---\ndescription: d\nversion: 1\n---\nx\n"}, "name_missing"), ({"SKILL.md": "---\nname: a\nversion: 1\n---\nx\n"}, "description_missing"),
    ({"SKILL.md": "---\nname: a\ndescription: d\n---\nx\n"}, "version_missing"), ({"SKILL.md": skill_md(body=" \n\n")}, "no_instructions"),
    ({"SKILL.md": skill_md(description='"a\\u202eb"')}, "bad_description"), ({"SKILL.md": skill_md(description="[a]")}, "description_missing"),
])
def test_an_archive_that_is_no_skill_is_refused(files: dict[str, str | bytes], reason: str) -> None:
    assert refusal(packed(files)).reason == reason


@pytest.mark.parametrize("name", ["Greet", "greet_people", "-greet", "greet-", "gr--eet", "gr eet", "gr\u00e9et", "../greet", "greet/"])
def test_a_name_has_small_letters_digits_and_hyphens(name: str) -> None:
    refused = refusal(packed({"SKILL.md": skill_md(name=name)}))
    assert (refused.reason, refused.line) == ("bad_name", 2)


@pytest.mark.parametrize("version", ["1 0", "..", "-1", "1/2", "\u0661"])
def test_a_version_has_letters_digits_and_dots(version: str) -> None:
    assert refusal(packed({"SKILL.md": skill_md(version=version)})).reason == "bad_version"


@pytest.mark.parametrize(("field", "most", "reason"), [
    ("name", SKILL_NAME_CHARS, "bad_name"), ("version", SKILL_VERSION_CHARS, "bad_version"), ("description", SKILL_DESCRIPTION_CHARS, "bad_description"),
])
def test_each_field_has_its_bound(field: str, most: int, reason: str) -> None:
    assert getattr(read_archive(archive(**{field: "a" * most})).text, field) == "a" * most
    assert refusal(archive(**{field: "a" * (most + 1)})).reason == reason


def test_sizes_and_counts_have_their_bounds() -> None:
    whole = skill_md(body="")
    assert read_archive(packed({"SKILL.md": whole + "x" * (SKILL_MD_BYTES - len(whole))})).text.name == "greet"
    assert refusal(packed({"SKILL.md": whole + "x" * (SKILL_MD_BYTES - len(whole) + 1)})).reason == "instructions_too_long"
    many: dict[str, str | bytes] = {"SKILL.md": skill_md(), **{f"{number}": "" for number in range(SKILL_ENTRIES - 1)}}
    assert len(read_archive(packed(many)).files) == SKILL_ENTRIES
    assert refusal(packed({**many, "more": ""})).reason == "too_many_entries"
    assert refusal(b"PK" + b"x" * (SKILL_ARCHIVE_BYTES - 1)).reason == "archive_too_large"


def test_a_file_has_its_bound_whatever_the_archive_says_of_it() -> None:
    skill = {"SKILL.md": skill_md()}
    assert len(read_archive(packed({**skill, "x": bytes(SKILL_FILE_BYTES)}, zipfile.ZIP_STORED)).files) == 2
    assert refusal(packed({**skill, "x": bytes(SKILL_FILE_BYTES + 1)}, zipfile.ZIP_STORED)).reason == "file_too_large"
    data = bytearray(packed({**skill, "x": b"longer than it says"}))
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = struct.pack("<I", 10)
    assert refusal(bytes(data)).reason == "damaged"


def test_bombs_are_refused_by_ratio_and_by_their_whole_size() -> None:
    small = {"SKILL.md": skill_md(), **{str(number): bytes(SKILL_FILE_BYTES // 2) for number in range(4)}}
    data = packed(small)
    assert len(data) * SKILL_RATIO < 4 * (SKILL_FILE_BYTES // 2)
    assert refusal(data).reason == "too_large_unpacked"
    noise = bytes((number * number >> 3) & 255 for number in range(1 << 16))
    large = {"SKILL.md": skill_md(), "noise": noise * 2, **{str(number): bytes(SKILL_FILE_BYTES) for number in range(SKILL_BYTES // SKILL_FILE_BYTES)}}
    assert refusal(packed(large)).reason == "too_large_unpacked"


def test_entries_that_share_their_bytes_are_counted_each() -> None:
    """The directory names one packed entry again and again."""
    data = packed({"SKILL.md": skill_md(), "0": bytes(SKILL_FILE_BYTES)})
    start = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", start + 4)
    end = data.index(b"PK\x05\x06")
    repeated = data[second:end] * 100
    directory = data[start:second] + repeated
    tail = bytearray(data[end:])
    tail[8:16] = struct.pack("<HHI", 101, 101, len(directory))
    assert refusal(data[:start] + directory + bytes(tail)).reason in ("duplicate", "too_large_unpacked", "damaged")


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip", b"\x1f\x8b\x08", b"PK\x03\x04" + bytes(100), b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    assert refusal(data).reason in ("not_zip", "damaged", "no_skill_md")


GOOD = archive(more={"references/a.txt": "data" * 100})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6), st.integers(0, len(GOOD)))
def test_damaged_bytes_are_read_or_refused(changes: list[tuple[int, int]], end: int) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    for tried in (bytes(data), bytes(data[:end])):
        try:
            found = read_archive(tried)
        except SkillRefused:
            continue
        assert found.digest == files_digest(found.files)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet=st.sampled_from("aA./\\\0\u00e9~ -\u202e\n"), min_size=1, max_size=9), min_size=1, max_size=5))
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_whatever_the_names_are_each_file_lies_below_the_folder_once(names: list[str]) -> None:
    target = io.BytesIO(packed({"SKILL.md": skill_md()}))
    with zipfile.ZipFile(target, "a") as opened:
        for name in names:
            opened.writestr(zipfile.ZipInfo(name), b"x")
    try:
        files = read_archive(target.getvalue()).files
    except SkillRefused:
        return
    assert all(not path.startswith("/") and ".." not in path.split("/") and "\\" not in path for path in files)
    assert len({path.casefold() for path in files}) == len(files)
