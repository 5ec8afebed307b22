"""Compressed files that ask for much more than their size are refused, by a limit that the message names."""

import gzip
import re
from pathlib import Path

import pytest

from relens.data.dataset import read_folder
from relens.data.tsv import read_lines
from relens.errors import InputError
from relens.unpacking import CEILING, FREE, MAX_UNPACKED, RATIO, check_unpacked, most_unpacked


@pytest.mark.parametrize(
    ("packed", "most"),
    [(0, FREE), (100, FREE), (FREE // RATIO, FREE), (10**6, 50 * 10**6), (2**40, CEILING)],
)
def test_the_limit_grows_with_the_file(packed: int, most: int) -> None:
    assert most_unpacked(packed) == most


def test_the_environment_replaces_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_UNPACKED, "12")
    assert most_unpacked(10**9) == 12
    for wrong in ("1e9", "-1", "٣", "9" * 5000, "much"):
        monkeypatch.setenv(MAX_UNPACKED, wrong)
        with pytest.raises(InputError, match=r"RELENS_MAX_UNPACKED is '.*', expected a number of bytes"):
            most_unpacked(0)


def test_content_up_to_the_limit_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    check_unpacked(file, FREE)
    with pytest.raises(InputError, match=re.escape(f"{file} has 1 bytes and unpacks to more than {FREE:,}, the limit")):
        check_unpacked(file, FREE + 1)


def test_a_gigabyte_of_line_ends_is_refused_by_its_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "train.txt.gz"
    file.write_bytes(gzip.compress(b"\n" * 2**20, mtime=0) * 1024)
    with pytest.raises(InputError, match=r"train\.txt\.gz has [\d,]+ bytes and unpacks to more than [\d,]+, the limit"):
        read_lines(file)
    monkeypatch.setenv(MAX_UNPACKED, str(2**30))
    file.write_bytes(gzip.compress(b"a\tr\tb\n" + b"\n" * FREE, mtime=0))
    for split in ("valid", "test"):
        (tmp_path / f"{split}.txt").touch()
    assert read_folder(tmp_path).counts["train"] == 1
