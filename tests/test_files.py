"""Files appear whole or not at all, whatever interrupts the writing; arrays never come from pickles."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from relens import files
from relens.errors import InputError, RelensError
from relens.files import (
    VERIFY,
    json_line,
    locked,
    open_npy,
    parse_json_line,
    read_json,
    remove_left_overs,
    whole_file,
    whole_folder,
    write_json,
    write_text,
)
from tests.patience import HANG


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(place: AbstractContextManager[Path], inner: str, error: BaseException) -> None:
    with place as aside:
        (aside / inner).write_text("half")
        raise error


def replace_folder(path: Path, content: str) -> None:
    with whole_folder(path) as aside:
        (aside / "x").write_text(content)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_whole_file_replaces_the_old_one(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    write_text(path, "first\n")
    write_text(path, "second ü\n")
    assert path.read_bytes() == "second ü\n".encode()
    assert names(path.parent) == ["a.txt"]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with whole_file(path) as aside:
        aside.write_text("half")
        assert path.read_text() == "old"
        assert aside.parent == tmp_path  # or the rename would not be one step
    assert path.read_text() == "half"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupted_file_leaves_the_old_one_and_no_debris(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(type(error)):
        write_half(whole_file(path), "", error)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_interrupted_folder_leaves_the_old_one_and_no_debris(tmp_path, error):
    path = tmp_path / "store"
    path.mkdir()
    (path / "a").write_text("old")
    with pytest.raises(type(error)):
        write_half(whole_folder(path), "a", error)
    assert names(tmp_path) == ["store"]
    assert names(path) == ["a"]
    assert (path / "a").read_text() == "old"


def test_a_whole_folder_replaces_the_old_one(tmp_path):
    path = tmp_path / "deep" / "store"
    for content in ("old", "new"):
        with whole_folder(path) as aside:
            (aside / content).write_text(content)
            (aside / "inner").mkdir()
            (aside / "inner" / "x").write_text(content)
    assert names(path) == ["inner", "new"]
    assert (path / "inner" / "x").read_text() == "new"
    assert names(tmp_path / "deep") == ["store"]


@pytest.mark.parametrize("broken", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_full_disk_leaves_the_old_and_says_what_to_do(tmp_path, monkeypatch, kind, broken):
    path = tmp_path / "a"
    if kind == "file":
        path.write_text("old")
    else:
        path.mkdir()
        (path / "x").write_text("old")
    monkeypatch.setattr(files.os, broken, full_disk)
    message = rf"cannot write {path}: No space left on device\. Nothing was changed there; free some space or choose"
    write = write_text if kind == "file" else replace_folder
    with pytest.raises(RelensError, match=message) as raised:
        write(path, "new")
    assert not isinstance(raised.value, InputError)  # the request was right: exit code 1, not 2
    assert isinstance(raised.value.__cause__, OSError)
    assert (path if kind == "file" else path / "x").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_folder_that_cannot_take_its_place_gives_it_back(tmp_path, monkeypatch, error):
    path = tmp_path / "store"
    path.mkdir()
    (path / "a").write_text("old")
    replace = os.replace

    def fails_for_the_new_one(source: Path, target: Path) -> None:
        if target == path and source.suffix == ".part":
            raise error
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", fails_for_the_new_one)
    with pytest.raises((RelensError, KeyboardInterrupt)):
        replace_folder(path, "new")
    assert (path / "a").read_text() == "old"
    assert names(tmp_path) == ["store"]


def test_an_interrupt_after_the_old_folder_stepped_aside_brings_it_back(tmp_path, monkeypatch):
    path = tmp_path / "store"
    path.mkdir()
    (path / "a").write_text("old")
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == "was":
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(path, "new")
    assert (path / "a").read_text() == "old"
    assert names(tmp_path) == ["store"]


@pytest.mark.parametrize("write", [lambda path: write_text(path, "x"), lambda path: whole_folder(path).__enter__()])
def test_a_place_that_cannot_hold_files_is_named(tmp_path, write):
    (tmp_path / "file").write_text("")
    with pytest.raises(RelensError, match=rf"cannot write {tmp_path}/file/a.*choose another place"):
        write(tmp_path / "file" / "a")


def test_a_folder_is_no_file_to_replace(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(RelensError, match=r"cannot write .*folder: Is a directory"):
        write_text(tmp_path / "folder", "x")
    assert names(tmp_path) == ["folder"]


IN_A_SMALL_SPACE = """
import resource, sys
from pathlib import Path
from relens.errors import RelensError
from relens.files import whole_folder, write_json
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
target = Path(sys.argv[1])
try:
    write_json(target / "a.json", {"a": list(range(10_000))})
except RelensError as error:
    print(error)
try:
    with whole_folder(target / "store") as aside:
        (aside / "first").write_bytes(bytes(100))
        (aside / "second").write_bytes(bytes(100_000))
except RelensError as error:
    print(error)
"""


def test_a_real_limit_on_the_size_of_files_leaves_the_old(tmp_path):
    write_json(tmp_path / "a.json", {"a": 1})
    with whole_folder(tmp_path / "store") as aside:
        (aside / "first").write_text("old")
    command = [sys.executable, "-c", IN_A_SMALL_SPACE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith(f"cannot write {tmp_path}/a.json: File too large. Nothing was changed there; free some")
    assert second.startswith(f"cannot write {tmp_path}/store: File too large. Nothing was changed there; free some")
    assert read_json(tmp_path / "a.json", "thing") == {"a": 1}
    assert names(tmp_path) == ["a.json", "store"]
    assert (tmp_path / "store" / "first").read_text() == "old"


ENDLESS = """
import sys, time
from pathlib import Path
from relens.files import whole_file
with whole_file(Path(sys.argv[1])) as aside:
    aside.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize(("sent", "debris"), [(signal.SIGINT, 0), (signal.SIGKILL, 1)])
def test_a_signal_leaves_the_old_file(tmp_path, sent, debris):
    path = tmp_path / "a.txt"
    path.write_text("old")
    command = [sys.executable, "-c", ENDLESS, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(sent)
        assert process.wait(timeout=HANG) != 0
    assert path.read_text() == "old"
    assert len(names(tmp_path)) == 1 + debris  # a killed process cannot tidy up
    write_text(path, "new")
    assert names(tmp_path) == ["a.txt"]
    assert path.read_text() == "new"


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "x")
        with whole_folder(tmp_path / "folder") as aside:
            (aside / "x").write_text("x")
        assert os.umask(0o027) == 0o027  # asking for the mask did not change it
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.txt").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "a.txt")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far" / "a.txt").read_text() == "new"
    assert names(tmp_path / "far") == ["a.txt"]


def test_a_pipe_is_written_to_and_never_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()), daemon=True)
    reader.start()
    write_text(path, "through\n")
    reader.join(timeout=HANG)
    assert read == ["through\n"]
    assert path.is_fifo()
    assert names(tmp_path) == ["pipe"]


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "a.txt"
    texts = [str(i) * 10_000 for i in range(8)]
    threads = [threading.Thread(target=write_text, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert names(tmp_path) == ["a.txt"]


def test_json_comes_back_and_has_no_nan(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"ü": [1, 0.1, None]})
    assert read_json(path, "thing") == {"ü": [1, 0.1, None]}
    assert "ü" in path.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="Out of range float values"):
        write_json(path, {"x": float("nan")})
    assert read_json(path, "thing") == {"ü": [1, 0.1, None]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "thing .*a.json is not readable JSON: Expecting property name.*line 1 column 2"),
        (b"", "thing .*a.json is not readable JSON: Expecting value"),
        (b"\xff\xfe", "thing .*a.json is not readable JSON: 'utf-8' codec can't decode byte 0xff"),
        (b"[1]", "thing .*a.json holds list, expected a JSON object"),
        (b"null", "thing .*a.json holds NoneType, expected a JSON object"),
        (b"[" * 100_000, "thing .*a.json is not readable JSON: it is nested too deep"),
        (b'{"a": NaN}', "thing .*a.json is not readable JSON: NaN is not a number that JSON can hold"),
        (b'{"a": 1e999}', "thing .*a.json is not readable JSON: 1e999 is not a number that JSON can hold"),
        (rb'{"a": "\ud800"}', "thing .*a.json is not readable JSON: .*surrogates not allowed"),
        (b'{"a": ' + b"1" * 5000 + b"}", "thing .*a.json is not readable JSON: .*4300 digits"),
    ],
    ids=["cut", "empty", "binary", "list", "null", "deep", "nan", "infinite", "half a pair", "long number"],
)
def test_files_without_a_json_object_are_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_json(tmp_path / "a.json", "thing")


def test_a_pair_of_surrogates_is_one_character(tmp_path):
    (tmp_path / "a.json").write_bytes(rb'{"a": "\ud83d\ude00"}')
    assert read_json(tmp_path / "a.json", "thing") == {"a": "😀"}


def test_missing_and_unreadable_json_have_different_errors(tmp_path):
    with pytest.raises(InputError, match=r"thing .*none\.json does not exist"):
        read_json(tmp_path / "none.json", "thing")
    with pytest.raises(InputError, match=f"thing {tmp_path} cannot be read: Is a directory"):
        read_json(tmp_path, "thing")


def test_npy_is_mapped_and_read_only(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    array = open_npy(tmp_path / "a.npy")
    assert isinstance(array, np.memmap)
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert not array.flags.writeable
    np.save(tmp_path / "empty.npy", np.empty((0, 3)))
    assert open_npy(tmp_path / "empty.npy").shape == (0, 3)


def write_bad_npy(path: Path, kind: str) -> None:
    if kind == "pickled":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif kind == "archive":
        with path.open("wb") as file:
            np.savez(file, a=np.arange(3))
    elif kind == "folder":
        path.mkdir()
    else:
        np.save(path, np.arange(100))
        whole = path.read_bytes()
        broken = {
            "truncated": whole[:-1],
            "header only": whole[:40],
            "empty": b"",
            "text": b"0.1 0.2\n",
            "archive broken": b"PK\x03\x04" + whole,
        }
        path.write_bytes(broken[kind])


@pytest.mark.parametrize(
    "kind",
    ["pickled", "archive", "folder", "truncated", "header only", "empty", "text", "archive broken"],
)
def test_other_npy_files_are_refused_with_a_remedy(tmp_path, kind):
    path = tmp_path / "a.npy"
    write_bad_npy(path, kind)
    refusal = rf"{path} cannot be read as a plain \.npy array \(.+\)\. .*pickled or truncated files cannot be read"
    with pytest.raises(InputError, match=refusal + r"\. Write it again with numpy\.save"):
        open_npy(path)


def headed(header: str, data: bytes = b"", length: int | None = None) -> bytes:
    """Return an .npy file of version 2 with this header, of the length that it says or of another."""
    size = len(header) if length is None else length
    return b"\x93NUMPY\x02\x00" + size.to_bytes(4, "little") + header.encode() + data


def form(shape: str, descr: str = "'<f8'", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (headed("{"), "its header does not say what it holds"),
        (headed(""), "its header does not say what it holds"),
        (headed("[" * 9000), "its header does not say what it holds"),
        (headed("{'descr': '<f8'}"), "its header does not say what it holds"),
        (headed(form("(True,)"), bytes(8)), "its header does not say what it holds"),
        (headed(form("2"), bytes(16)), "its header does not say what it holds"),
        (headed(form("(2,)", order="1"), bytes(16)), "its header does not say what it holds"),
        (headed("{", length=2**32 - 1), "its header has 4,294,967,307 bytes, the file 13"),
        (headed(form("(-1,)"), bytes(8)), r"its 76 bytes cannot hold the shape \(-1,\) of float64"),
        (headed(form("(3,)"), bytes(23)), r"cannot hold the shape \(3,\) of float64"),
        (headed(form("(4294967296, 4294967296)"), bytes(8)), r"cannot hold the shape \(4294967296, 4294967296\)"),
        (headed(form("(0, 1000000000000)"), bytes(8)), "cannot hold the shape"),
        (headed(form("(" + "1," * 33 + ")"), bytes(8)), "cannot hold the shape"),
        (headed(form("(9,)", "'<V0'")), "it holds '<V0', expected numbers"),
        (headed(form("(1,)", "'<U4'"), bytes(16)), "it holds '<U4', expected numbers"),
        (headed(form("(1,)", "[('a', '<i4')]"), bytes(4)), r"it holds \"\[\('a', '<i4'\)\]\", expected numbers"),
        (headed(form("(1,)", "('<f8', (10**9,))"), bytes(8)), "its header does not say what it holds"),
        (b"\x93NUMPY\x07\x00" + bytes(100), "it has no .npy header"),
    ],
)
def test_headers_that_no_array_of_numbers_has_are_refused(tmp_path, content, message):
    """Such headers once ended in tracebacks, or asked for any amount of memory."""
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.npy cannot be read as a plain \.npy array \(.*{message}"):
        open_npy(tmp_path / "a.npy")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", ["<f4", ">u2", "|b1", "<i8", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_form_of_numbers_is_read(tmp_path, version, dtype, order):
    array = np.asarray(np.arange(12).reshape(3, 4), dtype=dtype, order=order)
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version, allow_pickle=False)
    found = open_npy(tmp_path / "a.npy")
    assert (found.dtype, found.flags.f_contiguous) == (array.dtype, order == "F")
    assert found.tolist() == array.tolist()


def test_a_pickle_is_never_run(tmp_path):
    class Evil:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "run",)

    np.save(tmp_path / "a.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as a plain"):
        open_npy(tmp_path / "a.npy")
    assert names(tmp_path) == ["a.npy"]


def test_a_missing_npy_is_named(tmp_path):
    with pytest.raises(InputError, match=rf"^{tmp_path}/none\.npy does not exist$"):
        open_npy(tmp_path / "none.npy")


def test_writing_flushes_to_the_disk_before_the_rename(tmp_path, monkeypatch):
    order: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(files.os, "fsync", lambda handle: (order.append("fsync"), fsync(handle)))
    monkeypatch.setattr(files.os, "replace", lambda *paths: (order.append("replace"), replace(*paths)))
    write_text(tmp_path / "a", "x")
    assert order == ["fsync", "replace"]


def test_a_locked_folder_is_refused_to_others_until_it_is_let_go(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    folder = tmp_path / "run"
    message = f"in use by another relens \\(process {os.getpid()}\\)"
    with locked(folder), pytest.raises(InputError, match=message), locked(folder):
        pass
    with locked(folder):
        assert folder.is_dir()


@pytest.mark.parametrize("answer", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_works(tmp_path, monkeypatch, answer):
    fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")

    def refuse(*_: object) -> None:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "run"):
        write_text(tmp_path / "run" / "a", "x")
    assert (tmp_path / "run" / "a").read_text() == "x"


@pytest.mark.parametrize("answer", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_to_needs_no_lock(tmp_path, monkeypatch, answer):
    """Nobody writes there; who tries is told by what writes. (Tests may be run by root, whom modes do not stop.)"""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(answer, os.strerror(answer))

    monkeypatch.setattr(Path, "open", refuse)
    with locked(tmp_path):
        pass
    assert names(tmp_path) == []


def test_a_lock_that_cannot_be_made_for_another_reason_is_an_error(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    (tmp_path / ".lock").mkdir()
    with pytest.raises(RelensError, match=r"cannot write .*\.lock: Is a directory"), locked(tmp_path):
        pass


def test_only_unfinished_files_are_removed(tmp_path):
    for name in (".dsc.json.ab12.part", ".lock", ".again", "mine.part", "notes.old"):
        (tmp_path / name).write_text("x")
    for name in (".ranks.cd34.part/valid", ".transe.old/trained", "models/.inside.part"):
        (tmp_path / name).mkdir(parents=True)
    remove_left_overs(tmp_path, tmp_path / "not there")
    assert names(tmp_path) == [".again", ".lock", "mine.part", "models", "notes.old"]
    assert (tmp_path / "models" / ".inside.part").is_dir()
    remove_left_overs(tmp_path, tmp_path / "models")
    assert names(tmp_path / "models") == []


KILLED_BETWEEN_TWO_STEPS = """
import os, signal, sys
from pathlib import Path
from relens.files import whole_folder
path = Path(sys.argv[1])
def die(event, arguments):
    if event == "os.rename" and Path(arguments[1]) == path:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
with whole_folder(path) as aside:
    (aside / "x").write_text("new")
"""


def test_folders_of_killed_processes_are_removed_and_those_of_living_ones_stay(tmp_path):
    code = "import time; from pathlib import Path; from relens.files import whole_folder\n"
    code += f"with whole_folder(Path({str(tmp_path / 'run')!r})) as aside: print(aside, flush=True); time.sleep(60)"
    command = [sys.executable, "-c", code]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second,
    ):
        killed, alive = (Path(process.stdout.readline().strip()) for process in (first, second))
        first.kill()
        first.wait()
        others = {tmp_path / ".other.x.part", tmp_path / ".run.another-machine-x.part"}
        for other in others:
            other.mkdir()
        with whole_folder(tmp_path / "run") as aside:
            found = set(tmp_path.iterdir())
        second.kill()
    assert found == {alive, aside, *others}
    assert not killed.exists()
    assert (tmp_path / "run").is_dir()


def test_a_file_that_a_living_process_writes_stays(tmp_path):
    """Whoever writes the same file, and whoever holds the folder, removes other leftovers alone."""
    path = tmp_path / "my a.txt"
    command = [sys.executable, "-c", ENDLESS, str(path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE) as alive,
    ):
        for process in (killed, alive):
            assert process.stdout is not None
            assert process.stdout.readline() == b"writing\n"
        assert len(names(tmp_path)) == 2
        killed.kill()
        killed.wait()
        write_text(path, "new")
        (left, written) = names(tmp_path)
        assert written == "my a.txt"
        remove_left_overs(tmp_path)
        assert names(tmp_path) == [left, written]
        alive.kill()
    remove_left_overs(tmp_path)
    assert names(tmp_path) == [written]


@pytest.mark.parametrize("missing", ["module", "locks"])
def test_without_locks_folders_are_filled_and_nothing_is_taken_for_left_over(tmp_path, monkeypatch, missing):
    if missing == "module":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    else:
        monkeypatch.setattr("fcntl.flock", lambda *_: raise_(OSError(errno.ENOTSUP, "not supported")))
    unfinished = whole_folder(tmp_path / "run")
    left = unfinished.__enter__()
    with whole_folder(tmp_path / "run") as aside:
        (aside / "file").touch()
    assert set(tmp_path.iterdir()) == {tmp_path / "run", left}
    assert (tmp_path / "run" / "file").exists()


def test_a_folder_that_was_taken_for_left_over_before_it_was_held_is_made_again(tmp_path, monkeypatch):
    taken, let_go = [], []

    def hold(folder, *, wait):
        if not taken:
            folder.rmdir()
        taken.append(folder)
        return len(taken)

    monkeypatch.setattr(files, "_hold", hold)
    monkeypatch.setattr(files, "_let_go", let_go.append)
    with whole_folder(tmp_path / "run") as aside:
        assert (taken[1:], let_go) == ([aside], [1])
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]
    assert let_go == [1, 2]


def raise_(error):
    raise error


@pytest.mark.parametrize("whose", ["who holds the place", "who writes next"])
def test_a_folder_that_stepped_aside_for_one_that_never_came_returns(tmp_path, whose):
    """A process is killed where the old folder has left its place and the new one has not taken it."""
    path = tmp_path / "my.ranks"
    replace_folder(path, "old")
    done = subprocess.run([sys.executable, "-c", KILLED_BETWEEN_TWO_STEPS, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not path.exists()
    assert len(names(tmp_path)) == 2
    if whose == "who holds the place":
        remove_left_overs(tmp_path)
    else:
        with pytest.raises(ValueError, match="no"):
            write_half(whole_folder(path), "x", ValueError("no"))
    assert names(tmp_path) == ["my.ranks"]
    assert (path / "x").read_text() == "old"


def test_a_folder_that_stepped_aside_does_not_displace_its_successor(tmp_path):
    replace_folder(tmp_path / "ranks", "new")
    (tmp_path / ".ranks.ab12cd34.old" / "was").mkdir(parents=True)
    remove_left_overs(tmp_path)
    assert names(tmp_path) == ["ranks"]
    assert (tmp_path / "ranks" / "x").read_text() == "new"


def test_lines_of_json_are_verified(monkeypatch):
    line = json_line({"a": (1, 2.5), "b": {"c": "é"}})
    assert line.endswith("}\n")
    assert parse_json_line(line) == {"a": [1, 2.5], "b": {"c": "é"}}
    assert parse_json_line('{"a": 1}') == {"a": 1}  # of an older relens
    for wrong in (line.replace("2.5", "3.5"), line.replace("checksum", "chdcksum"), line[:-5], "[1]"):
        with pytest.raises(ValueError, match=r"checksum|delimiter|Unterminated|holds list"):
            parse_json_line(wrong)
    monkeypatch.setenv(VERIFY, "0")
    assert parse_json_line(line.replace("2.5", "3.5"))["a"] == [1, 3.5]
