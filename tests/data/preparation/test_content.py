"""The content of source files: compression, encodings, and files that are something else."""

import gzip
import sys

import pytest

from relens.data.preparation.content import inner_name
from relens.errors import DatasetError, InputError, MissingExtraError
from tests.reading import put, read

TEXT = "é\tr\tb\nb\tr\té\n"
ROWS = [("é", "r", "b"), ("b", "r", "é")]


def zstd():
    if sys.version_info >= (3, 14):
        return pytest.importorskip("compression.zstd")
    return pytest.importorskip("backports.zstd", reason="needs backports.zstd: pip install 'relens[zstd]'")


def test_compressed_text_is_read(tmp_path):
    (tmp_path / "g.tsv.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "g.tsv.zst").write_bytes(zstd().compress(TEXT.encode()[:9]) + zstd().compress(TEXT.encode()[9:]))
    assert read(tmp_path / "g.tsv.gz")[0] == read(tmp_path / "g.tsv.zst")[0] == ROWS
    assert inner_name(tmp_path / "A.NT.GZ") == "a.nt"


@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda content: b"plain text", lambda content: b""])
def test_damaged_zst_is_refused(tmp_path, damage):
    (tmp_path / "g.tsv.zst").write_bytes(damage(zstd().compress(TEXT.encode())))
    with pytest.raises(DatasetError, match=r"g.tsv.zst is (not a complete .zst file|empty)"):
        read(tmp_path / "g.tsv.zst")


def test_a_small_file_that_fills_the_memory_is_refused(tmp_path):
    (tmp_path / "g.tsv.zst").write_bytes(zstd().compress(bytes(2**25)))
    with pytest.raises(InputError, match=r"unpacks to more than 16,777,216, the limit for its size"):
        read(tmp_path / "g.tsv.zst")


def test_without_zstd_the_extra_is_named(tmp_path, monkeypatch):
    for module in ("compression", "compression.zstd", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "g.tsv.zst").write_bytes(b"x")
    with pytest.raises(MissingExtraError, match=r"reading .zst files needs an optional dependency: pip .*'\.\[zstd\]'"):
        read(tmp_path / "g.tsv.zst")


@pytest.mark.parametrize("name", ["g.tsv", "g.nt"])
def test_compressed_files_with_another_name(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(TEXT.encode()))
    with pytest.raises(DatasetError, match=rf"{name} is compressed, but its name does not end in .gz: rename it"):
        read(tmp_path / name)
    (tmp_path / "g.zip").write_bytes(b"PK")
    with pytest.raises(DatasetError, match=r"g.zip is an archive: unpack it first"):
        read(tmp_path / "g.zip")


def test_an_encoding_that_is_not_utf8_names_the_line_or_is_read_on_request(tmp_path):
    path = put(tmp_path / "g.tsv", "a\tr\tb\n" * 3000 + TEXT, "latin-1")
    message = (
        r"g.tsv, line 3001: found byte 0xe9, which is no UTF-8 text. If the file has another encoding, name it, "
        r"such as "
        r"`encoding=latin-1`; otherwise it is damaged"
    )
    with pytest.raises(DatasetError, match=message):
        read(path)
    assert read(path, encoding="latin-1")[0][-2:] == ROWS
    put(path, TEXT, "latin-1")
    with pytest.raises(DatasetError, match="line 1: found byte 0xe9"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_byte_order_marks_of_other_encodings(tmp_path, encoding):
    path = put(tmp_path / "g.tsv", TEXT, encoding)
    with pytest.raises(
        DatasetError, match=rf"begins with the byte-order mark of {encoding.upper()}, expected UTF-8: pass"
    ):
        read(path)
    assert read(path, encoding=encoding)[0] == ROWS
    path.write_bytes(TEXT.encode("utf-16")[:-1])
    with pytest.raises(DatasetError, match=r"g.tsv: found truncated data, which is no UTF-16 text"):
        read(path, encoding="utf-16")
    with pytest.raises(DatasetError, match=r"`encoding='latin-99'` is unknown"):
        read(path, encoding="latin-99")
