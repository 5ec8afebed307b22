"""Files of ``torch.save`` are read without torch, and nothing that they name is called."""

import collections
import io
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.torch_files import ADMITTED, read_saved  # noqa: E402
from relens.errors import DatasetError, InputError  # noqa: E402
from tests.patience import HANG  # noqa: E402

CONTENT: dict[str, Any] = {
    "head_type": ["disease", "drug", "disease"],
    "head": np.array([3, 1, 2**40]),
    "empty": np.empty((0, 500), dtype=np.int64),
    "by column": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "big-endian": np.array([1, 258], dtype=">i4"),
    "halves": np.array([0.5, -0.25], dtype=np.float32),
    "flags": np.array([True, False]),
    "count": np.int64(7),
    "graph": {("a", "r", "b"): np.arange(2), "edge_feat": None, "num_nodes": 4},
    "nested": [np.arange(3), (np.arange(2), "text")],
}
FORMS = [(protocol, zipped) for protocol in (2, 3, 4) for zipped in (True, False)]


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and found.dtype == expected.dtype and np.array_equal(found, expected)
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return type(found) is type(expected) and all(map(same, found, expected)) and len(found) == len(expected)
    return bool(found == expected)


@pytest.mark.parametrize(("protocol", "zipped"), FORMS)
def test_saved_files_are_read_back(tmp_path, protocol, zipped):
    path = tmp_path / "train.pt"
    torch.save(CONTENT, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    assert zipfile.is_zipfile(path) == zipped
    assert same(read_saved(path), CONTENT)
    with_torch = torch.load(path, weights_only=False)
    arrays = [key for key, value in CONTENT.items() if isinstance(value, np.ndarray)]
    assert all(np.array_equal(read_saved(path)[key], with_torch[key]) for key in arrays)


@pytest.mark.parametrize("package", ["numpy.core", "numpy._core"])
def test_arrays_of_older_and_newer_numpy_are_read(tmp_path, package):
    path = tmp_path / "train.pt"
    torch.save(CONTENT["head"], path, _use_new_zipfile_serialization=False)
    raw = path.read_bytes()
    assert b"numpy._core.multiarray" in raw
    path.write_bytes(raw.replace(b"numpy._core.multiarray", f"{package}.multiarray".encode()))
    assert same(read_saved(path), CONTENT["head"])


def test_torch_is_not_needed(tmp_path):
    path = tmp_path / "train.pt"
    torch.save(CONTENT, path, pickle_protocol=4)
    code = "from pathlib import Path; from relens.data.torch_files import read_saved; import sys\n"
    code += f"print(len(read_saved(Path({str(path)!r}))), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG)
    assert done.stdout.split() == [str(len(CONTENT)), "False"]


class Harmful:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(("protocol", "zipped"), FORMS)
def test_code_in_a_file_is_not_run(tmp_path, protocol, zipped):
    path, trace = tmp_path / "valid.pt", tmp_path / "trace"
    saving = {"pickle_protocol": protocol, "_use_new_zipfile_serialization": zipped}
    torch.save({"head": np.arange(2), "tail": Harmful(trace)}, path, **saving)
    with pytest.raises(
        DatasetError, match=rf"valid\.pt holds {os.mkdir.__module__}\.mkdir, which relens does not load"
    ):
        read_saved(path)
    assert not trace.exists()
    torch.load(path, weights_only=False)
    assert trace.is_dir(), "the file would have done it"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (torch.arange(3), r"torch\._utils\._rebuild_tensor_v2"),
        (torch.float32, "torch.float32|torch.serialization"),
        (collections.OrderedDict(a=1), r"collections\.OrderedDict"),
        (collections.Counter("ab"), r"collections\.Counter"),
        (Path("x"), r"pathlib\.\w+"),
        (len, r"(__builtin__|builtins)\.len"),
        (np.random.default_rng(0), r"numpy\.random\._pickle"),
        (np.array(["text"], dtype=object), "an array holds 'O8', expected numbers"),
        (np.array(["text"]), "an array holds 'U4', expected numbers"),
        (np.zeros(2, dtype=[("a", "i4")]), "an array holds 'V4', expected numbers"),
    ],
    ids=str,
)
@pytest.mark.parametrize("zipped", [True, False])
def test_other_classes_are_refused_by_name(tmp_path, value, named, zipped):
    torch.save({"head": value}, tmp_path / "test.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(DatasetError, match=named) as refusal:
        read_saved(tmp_path / "test.pt")
    assert str(tmp_path / "test.pt") in str(refusal.value)


def pickled(path: Path, body: bytes) -> Path:
    """Put a hand-made pickle where torch.save puts its own."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", body)
    return path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        # The admitted names, called with what they are not meant for.
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00utf_7\x86R.", "bytes are written as 'utf_7'"),
        (b"\x80\x02cnumpy\nndarray\n)R(K\x01K\x02K\x03K\x04K\x05tb.", "the type of an array is int"),
        (b"\x80\x02cnumpy._core.multiarray\n_reconstruct\ncnumpy\ndtype\n\x85R.", "an array is of another class"),
        (b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00M8\x85R.", "an array holds 'M8'"),
        (b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.", "TypeError"),
        (b"\x80\x02(X\x07\x00\x00\x00storagetQ.", "holds torch tensors"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "AttributeError"),
        (
            b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\x00\x00.",
            "too early: 281,474,976,710,655 bytes expected, 1 left",
        ),
        (b"\x80\x02]", "EOFError|UnpicklingError"),
        (b"", "EOFError"),
        (b"nonsense", "UnpicklingError|EOFError"),
    ],
    ids=range(11),
)
def test_tampered_pickles_are_refused(tmp_path, body, message):
    with pytest.raises(DatasetError, match=message):
        read_saved(pickled(tmp_path / "a.pt", body))


def test_a_compressed_file_that_asks_for_gigabytes_is_refused(tmp_path, monkeypatch):
    path, body = tmp_path / "a.pt", b"\x80\x04N0" * 2**22 + b"N."
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", body)
    with pytest.raises(InputError, match=r"a\.pt has [\d,]+ bytes and unpacks to more than 16,777,216.*RELENS_MAX_UNP"):
        read_saved(path)
    monkeypatch.setenv("RELENS_MAX_UNPACKED", str(2**25))
    with pytest.raises(DatasetError, match="the operation b'0', which plain data do not need"):
        read_saved(path)


@pytest.mark.parametrize(("protocol", "zipped"), FORMS)
def test_a_file_cut_anywhere_is_refused(tmp_path, protocol, zipped):
    buffer = io.BytesIO()
    torch.save({"head": np.arange(300)}, buffer, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    whole, path = buffer.getvalue(), tmp_path / "valid.pt"
    end = len(whole) - (1 if zipped else 0)
    for cut in [*range(0, end, 61), end - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(DatasetError, match=re.escape(str(path))):
            read_saved(path)


def test_a_flipped_byte_in_an_archive_is_noticed(tmp_path):
    path = tmp_path / "valid.pt"
    torch.save({"head": np.arange(300)}, path, pickle_protocol=4)
    raw = bytearray(path.read_bytes())
    raw[raw.index(np.arange(300).tobytes()) + 800] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DatasetError, match="Bad CRC-32"):
        read_saved(path)


def test_files_that_torch_did_not_write_are_named(tmp_path):
    (tmp_path / "text.pt").write_text("head,relation,tail\n")
    with pytest.raises(DatasetError, match="neither a zip archive nor a pickle"):
        read_saved(tmp_path / "text.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps({"head": 1}))
    with pytest.raises(DatasetError, match=r"plain\.pt is a pickle that torch\.save did not write"):
        read_saved(tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "biokg.zip", "w") as archive:
        archive.writestr("biokg/split/random/train.pt", b"")
    with pytest.raises(DatasetError, match=r"a zip archive with 0 files data\.pkl.*not the archive"):
        read_saved(tmp_path / "biokg.zip")
    with pytest.raises(DatasetError, match=r"absent\.pt does not exist"):
        read_saved(tmp_path / "absent.pt")


def test_nothing_is_admitted_but_numpys_arrays():
    assert {module.split(".")[0] for module, _ in ADMITTED} == {"numpy", "_codecs", "__builtin__"}
    assert all(stand_in.__module__ == "relens.data.torch_files" for stand_in in ADMITTED.values())


def test_storages_after_a_legacy_pickle_are_refused(tmp_path):
    path = tmp_path / "old.pt"
    torch.save({"head": np.arange(2)}, path, _use_new_zipfile_serialization=False)
    raw = path.read_bytes()
    none = pickle.dumps([], 2)
    assert raw.endswith(none)
    path.write_bytes(raw.removesuffix(none) + pickle.dumps(["0"], 2))
    with pytest.raises(DatasetError, match=r"old\.pt holds torch tensors, which relens does not load"):
        read_saved(path)
