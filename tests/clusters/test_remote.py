"""Searching on other machines: the same weights as in one process, whoever is killed."""

import json
from pathlib import Path

import numpy as np
import pytest

from relens import __version__
from relens.clusters.engines import _result, connect
from relens.clusters.remote import Part, Remote, SearchJournal, Source, _search_part
from relens.data.grouping import Grouping
from relens.ensemble.crossval import split_by_group
from relens.ensemble.sampling import sample_groups
from relens.ensemble.sweep import sweep_groups
from relens.errors import InputError, RanksError
from relens.packs.simulation import Simulation
from relens.packs.store import load_pack, save_pack
from relens.packs.thinning import ContestedViews
from tests.clusters.clusters import Running, free_port, start

SIMULATION = Simulation(
    models=("a", "b", "c"), triples_per_relation=(60, 40, 20, 10, 5), n_entities=300, level=(2.0, 1.0)
)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("stores") / "valid"
    save_pack(SIMULATION.packed("valid"), path)
    return load_pack(path)


def groups(packed):  # type: ignore[no-untyped-def]
    group = Grouping.by_relation_and_direction(packed.relations).groups_of(packed.queries)
    return split_by_group(group, np.arange(packed.n_queries))[1]


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

    def run(self, function, shared, tasks):  # type: ignore[no-untyped-def]
        for at, task in reversed(list(enumerate(tasks))):
            if function.__name__ == "_search_part":
                if not self.left:
                    raise KeyboardInterrupt
                self.left, self.done = self.left - 1, self.done + 1
            yield at, function(shared, task)


@pytest.mark.parametrize("lossless", [True, False])
def test_parts_give_what_one_search_gives(packed, tmp_path, lossless) -> None:
    views, everything, members = ContestedViews(packed), np.arange(packed.n_queries), groups(packed)
    remote = Remote(Here(), SearchJournal(tmp_path / "journal"))
    for name in ("rank", "score"):
        alone = sweep_groups(views, everything, members, name, lossless=lossless)
        apart = sweep_groups(views, everything, members, name, lossless=lossless, remote=remote)
        same([alone[0], *alone[1]], [apart[0], *apart[1]])


def test_a_killed_driver_goes_on_from_its_journal(packed, tmp_path) -> None:
    views, everything, members = ContestedViews(packed), np.arange(packed.n_queries), groups(packed)
    alone = sweep_groups(views, everything, members, "rank")
    with pytest.raises(KeyboardInterrupt):
        sweep_groups(views, everything, members, "rank", remote=Remote(Here(3), SearchJournal(tmp_path / "j")))
    kept = len((tmp_path / "j").read_text().splitlines())
    assert 0 < kept < len(members)
    with (tmp_path / "j").open("a") as file:
        file.write('{"search": "cut off')
    cluster = Here()
    again = sweep_groups(views, everything, members, "rank", remote=Remote(cluster, SearchJournal(tmp_path / "j")))
    same(alone[1], again[1])
    entries = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert len(entries) == len(members)
    assert len({entry["group"] for entry in entries}) == len(members)
    done = cluster.done
    sweep_groups(views, everything, members, "rank", remote=Remote(cluster, SearchJournal(tmp_path / "j")))
    assert cluster.done == done


def test_other_ranks_on_a_worker_are_refused(packed) -> None:
    with pytest.raises(RanksError, match="other ranks"):
        Source("f00d", path=packed.source).open()


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_cluster_finds_the_same_and_survives_the_loss_of_a_node(packed, tmp_path, backend) -> None:
    pytest.importorskip("optuna", reason="needs Optuna: pip install 'relens[tpe]'")
    views, everything, members = ContestedViews(packed), np.arange(packed.n_queries), groups(packed)
    sampling = {"sampler": "tpe", "trials": 30, "seed": 0}
    alone = sweep_groups(views, everything, members, "rank")
    sampled = sample_groups(packed, members, "rank", **sampling)
    with start(backend, tmp_path) as running, connect(running.backend, running.address) as cluster:
        assert cluster.n_workers == 2
        apart = sweep_groups(
            views, everything, members, "rank", remote=Remote(cluster, SearchJournal(tmp_path / "sweep"))
        )  # fmt: skip
        same([alone[0], *alone[1]], [apart[0], *apart[1]])
        journal = _KillingJournal(tmp_path / "tpe", running)
        same(sampled, sample_groups(packed, members, "rank", **sampling, remote=Remote(cluster, journal)))
        assert running.second.poll() is not None
        assert 0 < journal.kept_when_lost < len(members)


class _KillingJournal(SearchJournal):
    """Kills the second node when the first result has come."""

    def __init__(self, path: Path, running: Running) -> None:
        super().__init__(path)
        self._running = running
        self.kept_when_lost = 0

    def add(self, search, found) -> None:  # type: ignore[no-untyped-def]
        super().add(search, found)
        if self._running.second.poll() is None:
            self.kept_when_lost = len(found)
            self._running.lose_second()


@pytest.mark.parametrize(("backend", "module"), [("dask", "distributed"), ("ray", "ray")])
def test_a_cluster_that_is_not_there_is_said_to_be(backend, module, monkeypatch) -> None:
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
    part = Part(sweep_groups, [np.array([0])], [0], None, version="0.0.1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"the search began with 0\.0\.1: results could differ"):
        _search_part(Source(packed.digest, packed=packed), part)


def test_another_version_does_not_go_on_from_a_journal(packed, tmp_path, monkeypatch) -> None:
    def parts_asked_for() -> int:
        cluster = Here()
        remote = Remote(cluster, SearchJournal(tmp_path / "journal"))
        sweep_groups(ContestedViews(packed), np.arange(packed.n_queries), groups(packed), "rank", remote=remote)
        return cluster.done

    assert parts_asked_for() > 0
    assert parts_asked_for() == 0
    monkeypatch.setattr("relens.clusters.remote.__version__", "9.9.9")
    monkeypatch.setattr(Part.__new__, "__defaults__", ("9.9.9",))
    assert parts_asked_for() > 0


@pytest.mark.parametrize("line", ["{}", "not JSON", '{"search": "a", "group": 0, "weights": ["x"], "trace": []}'])
def test_a_damaged_journal_is_refused_with_its_line(tmp_path, line) -> None:
    (tmp_path / "journal").write_text(line + "\n")
    with pytest.raises(RanksError, match=r"journal, line 1: expected what a search found .* Remove the file"):
        SearchJournal(tmp_path / "journal")


@pytest.mark.parametrize("address", ["auto", "127.0.0.1", "ray://127.0.0.1:10001", ":6379"])
def test_an_address_that_is_none_is_told_from_a_cluster_that_is_not_there(address) -> None:
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
