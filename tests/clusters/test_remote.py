"""Searching on other machines: the same weights as in one process, whichever process is killed."""

import json
import os
import platform
import re
import resource
import signal
from contextlib import suppress
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from campaigns.clusters import Running, free_port
from relens import __version__
from relens.clusters.engines import _result, connect
from relens.clusters.remote import Journal, Part, Remote, Source, Work, _run_part
from relens.ensemble.distributed import SearchJournal
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.sweep import sweep_groups
from relens.errors import ClusterError, InputError, RanksError, RelensError
from relens.packs.simulation import Simulation
from relens.packs.store import load_pack, save_pack
from tests.clusters.clusters import start
from tests.ensemble.cases import context_of, group_of

SIMULATION = Simulation(
    models=("a", "b", "c"), triples_per_relation=(60, 40, 20, 10, 5), n_entities=300, level=(2.0, 1.0)
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("stores") / "valid"
    save_pack(SIMULATION.packed("valid"), path)
    return load_pack(path)


def swept(packed, name="rank", *, lossless=True, remote=None):  # type: ignore[no-untyped-def]
    """Search the global weights and those of all groups; return all results in one list."""
    context = context_of(packed, name, group=group_of(packed), remote=remote)
    overall, found = sweep_groups(context, context.everything, context.groups[1], lossless=lossless)
    return [overall, *found]


def sampled(packed, remote=None):  # type: ignore[no-untyped-def]
    """Search the weights of all groups by TPE."""
    context = context_of(packed, "rank", "tpe", group=group_of(packed), trials=30, remote=remote)
    return SEARCHERS["tpe"].search(context, context.groups[1])


def same(one, other) -> None:  # type: ignore[no-untyped-def]
    assert [found.value for found in one] == [found.value for found in other]
    np.testing.assert_array_equal([found.weights for found in one], [found.weights for found in other])


class Here:
    """A cluster in this process; it can lose its driver after some parts."""

    n_workers = 2

    def __init__(self, parts: int = 10**9) -> None:
        self.left, self.done = parts, 0

    def share(self, value):  # type: ignore[no-untyped-def]
        return value

    def everywhere(self, function, *arguments):  # type: ignore[no-untyped-def]
        return [function(*arguments) for _ in range(self.n_workers)]

    def submit(self, function, shared, task):  # type: ignore[no-untyped-def]
        return lambda: function(shared, task)

    def wait(self, handles, seconds):  # type: ignore[no-untyped-def]
        assert seconds > 0
        return handles[-1]

    def result(self, handle):  # type: ignore[no-untyped-def]
        if not self.left:
            raise KeyboardInterrupt
        self.left, self.done = self.left - 1, self.done + 1
        return handle()


@pytest.mark.parametrize("lossless", [True, False])
def test_parts_give_what_one_search_gives(packed, tmp_path, lossless) -> None:
    remote = Remote(Here(), SearchJournal(tmp_path / "journal"))
    for name in ("rank", "score"):
        same(swept(packed, name, lossless=lossless), swept(packed, name, lossless=lossless, remote=remote))


def test_a_killed_driver_resumes_from_its_journal(packed, tmp_path) -> None:
    alone = swept(packed)
    n_groups = len(alone) - 1
    with pytest.raises(KeyboardInterrupt):
        swept(packed, remote=Remote(Here(3), SearchJournal(tmp_path / "j")))
    kept = len((tmp_path / "j").read_text().splitlines())
    assert 0 < kept < n_groups
    with (tmp_path / "j").open("a") as file:
        file.write('{"work": "cut off')
    cluster = Here()
    same(alone, swept(packed, remote=Remote(cluster, SearchJournal(tmp_path / "j"))))
    entries = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert len(entries) == n_groups
    assert len({entry["item"] for entry in entries}) == n_groups
    done = cluster.done
    swept(packed, remote=Remote(cluster, SearchJournal(tmp_path / "j")))
    assert cluster.done == done


class Numbers:
    """A codec of plain numbers: the cluster needs to know nothing about its results."""

    def encode(self, result: float) -> dict[str, float]:
        return {"number": result}

    def decode(self, entry: dict[str, float]) -> float:
        return entry["number"]

    def arrived(self, result: float, seconds: float) -> float:
        assert seconds >= 0
        return result


def scaled_counts(packed, items, numbers, settings):  # type: ignore[no-untyped-def]
    return [settings * packed.n_queries + item + 100 * number for item, number in zip(items, numbers, strict=True)]


def test_any_function_can_run_over_any_items(packed, tmp_path) -> None:
    remote = Remote(Here(), Journal(tmp_path / "j", Numbers()))
    work = Work(scaled_counts, packed, [5, 6, 7], 2, "numbers", [1.0, 3.0, 2.0])
    expected = [2 * packed.n_queries + item + 100 * number for number, item in enumerate([5, 6, 7])]
    assert remote.run(work) == expected
    assert Journal(tmp_path / "j", Numbers()).get(work.key, 2) == expected[2]


def test_other_ranks_on_a_worker_are_refused(packed) -> None:
    with pytest.raises(RanksError, match="other ranks"):
        Source("f00d", path=packed.source).open()


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_finds_the_same_and_survives_the_loss_of_a_node(packed, tmp_path, backend) -> None:
    pytest.importorskip("optuna", reason="needs Optuna: pip install 'relens[tpe]'")
    alone, by_tpe = swept(packed), sampled(packed)
    with start(backend, tmp_path) as running, connect(running.backend, running.address) as cluster:
        assert cluster.n_workers == 2
        same(alone, swept(packed, remote=Remote(cluster, SearchJournal(tmp_path / "sweep"))))
        journal = _KillingJournal(tmp_path / "tpe", running)
        same(by_tpe, sampled(packed, Remote(cluster, journal)))
        assert running.second.poll() is not None
        assert 0 < journal.kept_when_lost < len(by_tpe)


class _KillingJournal(SearchJournal):
    """Kills the second node when the first result has come."""

    def __init__(self, path: Path, running: Running) -> None:
        super().__init__(path)
        self._running = running
        self.kept_when_lost = 0

    def add(self, work, found) -> None:  # type: ignore[no-untyped-def]
        super().add(work, found)
        if self._running.second.poll() is None:
            self.kept_when_lost = len(found)
            self._running.lose_second()


def counts_or_hangs(packed, items, numbers, settings):  # type: ignore[no-untyped-def]
    """Hang in the first part that is searched in this folder, in one of two ways."""
    folder, how = settings
    with suppress(FileExistsError):
        (Path(folder) / "hung").touch(exist_ok=False)
        if how == "stopped process":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            Event().wait()
    return scaled_counts(packed, items, numbers, 2)


@pytest.mark.parametrize("how", ["stopped process", "endless task"])
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_the_part_of_a_worker_that_hangs_goes_to_another(packed, tmp_path, backend, how) -> None:
    settings = (str(tmp_path), how)
    with start(backend, tmp_path) as running:
        with connect(running.backend, running.address) as cluster:
            remote = Remote(cluster, Journal(tmp_path / "j", Numbers()), patience=20.0)
            work = Work(counts_or_hangs, packed, list(range(12)), settings, "numbers", [1.0] * 12)
            with pytest.warns(UserWarning, match="no part of the search was finished for .* start again"):
                found = remote.run(work)
        assert found == scaled_counts(packed, work.items, range(12), 2)
        assert len((tmp_path / "j").read_text().splitlines()) == 12


def fails(packed, items, numbers, settings):  # type: ignore[no-untyped-def]
    """Fail in the part of item 3, with an error that does not pickle."""

    class DiskError(OSError):
        pass

    if 3 in items:
        raise DiskError(28, "No space left\non device", "/scratch/numba")
    return scaled_counts(packed, items, numbers, 2)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_any_error_of_a_worker_is_one_sentence(packed, tmp_path, backend) -> None:
    expected = (
        rf"^a part of the search failed on {re.escape(platform.node())}: DiskError: \[Errno 28\] No space left on "
        r"device: '/scratch/numba'\. Finished parts are kept in .*/j \(\d+ results?\): run the same command again, "
        r"with the address of a running cluster, to resume\.$"
    )
    work = Work(fails, packed, list(range(12)), None, "numbers", [1.0] * 12)
    with start(backend, tmp_path) as running, connect(running.backend, running.address) as cluster:
        remote = Remote(cluster, Journal(tmp_path / "j", Numbers()))
        with pytest.raises(ClusterError, match=expected):
            remote.run(work)


def test_a_full_disk_leaves_the_journal_as_it_was(packed, tmp_path) -> None:
    journal = Journal(tmp_path / "j", Numbers())
    journal.add("work", {0: 1.5})
    before = (tmp_path / "j").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 60, limits[1]))  # a line and a half
    try:
        with pytest.raises(
            RelensError, match=r"^cannot write .*/j: File too large\. .* free some space .* same command"
        ):
            journal.add("work", {1: 2.5, 2: 3.5})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "j").read_bytes() == before
    assert (journal.get("work", 0), journal.get("work", 1)) == (1.5, None)
    journal.add("work", {1: 2.5, 2: 3.5})
    assert Journal(tmp_path / "j", Numbers()).get("work", 2) == 3.5


@pytest.mark.parametrize("patience", [0, -1.0, float("nan")])
def test_no_patience_is_refused(tmp_path, patience) -> None:
    with pytest.raises(InputError, match=f"patience is {patience}, expected a number of seconds above 0"):
        Remote(Here(), Journal(tmp_path / "j", Numbers()), patience)


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_an_unreachable_cluster_raises_an_error(backend, module, monkeypatch) -> None:
    pytest.importorskip(module, reason=f"needs relens[{backend}]")
    monkeypatch.setattr("relens.clusters.engines.SECONDS_TO_CONNECT", 2)
    address = f"127.0.0.1:{free_port()}"
    with (
        pytest.raises(InputError, match=f"no {backend} cluster can be reached at '{address}'"),
        connect(backend, address),
    ):
        pass


@pytest.mark.parametrize("backend", ["dask", "ray"])
@pytest.mark.parametrize(("code", "version"), [("__version__ = '0.0.1'", "0.0.1"), ("raise ImportError", "(none)")])
def test_a_worker_with_another_relens_or_none_is_refused(tmp_path, backend, code, version) -> None:
    """Its package has nothing else: what is asked may not need more."""
    (tmp_path / "old/relens").mkdir(parents=True)
    (tmp_path / "old/relens/__init__.py").write_text(code)
    with (
        start(backend, tmp_path, second_imports=tmp_path / "old") as running,
        pytest.raises(InputError) as refused,
        connect(running.backend, running.address),
    ):
        pass
    found = ", ".join(sorted([version, __version__]))
    assert f"have relens {found}, this is {__version__}: results could differ" in str(refused.value)


def test_a_worker_that_came_later_refuses_parts_of_another_version(packed) -> None:
    part = Part(scaled_counts, [5], [0], 1, version="0.0.1")
    with pytest.raises(InputError, match=r"the search began with 0\.0\.1: results could differ"):
        _run_part(Source(packed.digest, packed=packed), part)


def test_another_version_does_not_resume_from_a_journal(packed, tmp_path, monkeypatch) -> None:
    def parts_asked_for() -> int:
        cluster = Here()
        remote = Remote(cluster, SearchJournal(tmp_path / "journal"))
        swept(packed, remote=remote)
        return cluster.done

    assert parts_asked_for() > 0
    assert parts_asked_for() == 0
    monkeypatch.setattr("relens.clusters.remote.__version__", "9.9.9")
    monkeypatch.setattr(Part.__new__, "__defaults__", ("9.9.9",))
    assert parts_asked_for() > 0


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "not JSON",
        "[" * 100_000,
        '{"work": "a", "item": 0, "weights": ["x"], "value": 1, "trace": []}',
        '{"work": "a", "item": 0, "weights": [0, 0], "value": 1, "trace": []}',
        '{"work": "a", "item": 0, "weights": [-1, 3], "value": 1, "trace": []}',
        '{"work": "a", "item": 0, "weights": [1.5], "value": 1, "trace": []}',
        '{"work": "a", "item": 0, "weights": [99999999999999999999], "value": 1, "trace": []}',
        '{"work": "a", "item": 0, "weights": [1], "value": NaN, "trace": []}',
        '{"work": "a", "item": 0, "weights": [1], "value": "1", "trace": []}',
    ],
    ids=range(10),
)
def test_a_damaged_journal_is_refused_with_its_line(tmp_path, line) -> None:
    (tmp_path / "journal").write_text(line + "\n")
    with pytest.raises(RanksError, match=r"journal, line 1: expected a result of a search .* Remove the file"):
        SearchJournal(tmp_path / "journal")


@pytest.mark.parametrize("address", ["auto", "127.0.0.1", "ray://127.0.0.1:10001", ":6379"])
def test_a_malformed_address_has_an_error_of_its_own(address) -> None:
    pytest.importorskip("ray", reason="needs relens[ray]")
    with (
        pytest.raises(InputError, match=r"^the address is .*: expected host:port of a Ray head node"),
        connect("ray", address),
    ):
        pass


def test_an_error_of_ours_comes_back_from_ray_without_its_traceback() -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="needs relens[ray]")
    error = exceptions.RayTaskError("search", "a long traceback", RanksError("no ranks here")).as_instanceof_cause()

    def get() -> None:
        raise error

    with pytest.raises(RanksError) as raised:
        _result(get)
    assert str(raised.value) == "no ranks here"


def test_no_flipped_bit_of_a_journal_changes_a_result(packed, tmp_path) -> None:
    swept(packed, remote=Remote(Here(), SearchJournal(tmp_path / "j")))
    content = (tmp_path / "j").read_bytes()
    whole = SearchJournal(tmp_path / "j")._found
    draw = np.random.default_rng(0)
    for bit in draw.integers(8 * len(content), size=200):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "j").write_bytes(flipped)
        try:
            found = SearchJournal(tmp_path / "j")._found
        except RanksError as error:
            assert str(tmp_path / "j") in str(error)  # noqa: PT017
            continue
        assert all(np.array_equal(result.weights, whole[key].weights) for key, result in found.items())
        assert all(np.array_equal(result.trace, whole[key].trace) for key, result in found.items())
