"""Checksums: every change of a file is noticed."""

import os

import numpy as np
import pytest

from relens.checksums import FACTOR, LANES, SHIFT, array_checksum, file_checksum, verify_file
from relens.errors import DamagedError, InputError, RanksError
from relens.files import VERIFY, read_json, write_json

pytestmark = pytest.mark.kernels


def mixed(lane: int, words: list[int]) -> int:
    for word in words:
        lane = (lane ^ word) * FACTOR % 2**64
        lane ^= lane >> SHIFT
    return lane


@pytest.mark.parametrize("size", [0, 1, 8, 63, 64, 65, 1000])
def test_the_checksum_is_that_of_plain_integers(tmp_path, size):
    content = np.random.default_rng(size).bytes(size)
    (tmp_path / "file").write_bytes(content)
    padded = content + bytes(64 - size % 64)
    words = [int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8)]
    lanes = [mixed(lane + 1, words[lane::LANES]) for lane in range(LANES)]
    assert file_checksum(tmp_path / "file") == f"{mixed(size, lanes):016x}"


def test_every_flipped_bit_and_every_other_length_changes_the_checksum(tmp_path):
    file, content = tmp_path / "file", np.random.default_rng(0).bytes(150)

    def checksum(changed: bytes) -> str:
        file.write_bytes(changed)
        return file_checksum(file)

    flips = ((1 << bit).to_bytes(150, "little") for bit in range(8 * 150))
    changed = [bytes(a ^ b for a, b in zip(content, flip, strict=True)) for flip in flips]
    changed += [content + b"\0", content[:-1], content[64:] + content[:64], b""]
    assert checksum(content) not in map(checksum, changed)


def test_a_damaged_file_is_named_with_its_remedy(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    with pytest.raises(RanksError, match=r"file is damaged: its checksum is \w{16}, expected beef. Pack it again."):
        verify_file(file, "beef", "Pack it again.", RanksError)


def test_a_flipped_bit_is_noticed_even_if_size_and_time_stay(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    expected, before = file_checksum(file), file.stat()
    verify_file(file, expected, "")
    file.write_bytes(bytes(50) + b"\1" + bytes(49))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(DamagedError, match="is damaged"):
        verify_file(file, expected, "")
    monkeypatch.setenv(VERIFY, "0")
    verify_file(file, expected, "")


def test_a_missing_file_is_named_with_its_remedy(tmp_path):
    with pytest.raises(DamagedError, match=r"gone cannot be read: No such file or directory. Find it."):
        verify_file(tmp_path / "gone", "beef", "Find it.")


@pytest.mark.parametrize("array", [np.arange(23, dtype="<u2"), np.arange(24, dtype="<i8").reshape(4, 6)[:, 1:3]])
def test_the_checksum_of_an_array_is_that_of_its_file(tmp_path, array):
    array.tofile(tmp_path / "file")
    assert array_checksum(array) == file_checksum(tmp_path / "file")


def test_records_are_verified_whatever_their_layout(tmp_path, monkeypatch):
    file, value = tmp_path / "a.json", {"b": [1, 0.1, 1e300, "é"], "a": {"2": None}}
    write_json(file, {"b": (1, 0.1, 1e300, "é"), "a": {2: None}})
    assert read_json(file, "thing") == value
    file.write_text("\n".join(line.strip() for line in file.read_text().splitlines()))
    assert read_json(file, "thing") == value
    file.write_text(file.read_text().replace("0.1", "0.2"))
    with pytest.raises(InputError, match=r"thing .*a.json is damaged, or was edited: .* Find it. .*remove the line"):
        read_json(file, "thing", "Find it.")
    monkeypatch.setenv(VERIFY, "0")
    assert read_json(file, "thing")["b"][1] == 0.2
