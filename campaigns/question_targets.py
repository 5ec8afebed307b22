"""Readers of the graph in a run, of members and calibrations, and of files of questions, as targets of the campaign.

Functions import what they read with: a process pays for the targets that it attacks alone.
"""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from campaigns.array_targets import JSON_TOKENS, NPY_TOKENS, npy, simulated, unsealed, written
from campaigns.target import Files, Target

ROWS = [(f"e{i}", f"r{i % 2}", f"e{(i + 1) % 5}") for i in range(8)]
TABLES = {
    "labels.tsv": b"e0\tZero\ne1\tOne\n",
    "relation_labels.tsv": b"r0\tis followed by\nr1\tprecedes\n",
    "types.tsv": b"e0\teven\ne1\todd\ne2\teven\ne2\tprime\n",
    "valid_negatives.txt": b"e0\tr0\te3\n",
    "test_negatives.tsv": b"head\trelation\ttail\ne2\tr1\te0\n",
}


def targets() -> list[Target]:
    """Return the targets of this module."""
    return [
        Target("tables", _tables, _read_tables, bombs=_table_bombs),
        Target("graph of a run", _graphs, _read_graph, (*NPY_TOKENS, *JSON_TOKENS), bombs=_graph_bombs),
        Target("member", _members, _read_member, (*JSON_TOKENS, b"pykeen", b"scorer", b"a.b:c")),
        Target("calibration", _calibrations, _read_calibration, JSON_TOKENS, bombs=_calibration_bombs),
        Target("thresholds", _thresholds, _read_thresholds, JSON_TOKENS),
        Target("scale of relations", _scales, _read_scale, (*NPY_TOKENS, *JSON_TOKENS)),
        Target("reliability", _reliabilities, _read_reliability, JSON_TOKENS),
        Target("discovery", _discoveries, _read_discovery, (*NPY_TOKENS, *JSON_TOKENS), bombs=_discovery_bombs),
        Target("list of candidates", _lists, _read_list, bombs=_list_bombs),
        Target("triples", _triples, _read_triples, bombs=_triple_bombs),
    ]


@cache
def _dataset() -> Any:
    from relens.data.dataset import Dataset

    return Dataset.from_labels("small", train=ROWS, valid=ROWS[:2], test=ROWS[2:4])


def _packed(files: Files) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _long(line: bytes, times: int) -> bytes:
    """Return a compressed file that repeats a line."""
    return gzip.compress(line * (times // 50), mtime=0) * 50


# Tables beside the triples


def _tables() -> Sequence[Files]:
    return [TABLES, _packed(TABLES)]


def _read_tables(folder: Path) -> object:
    return _use(replace(_dataset(), folder=folder))


def _use(dataset: Any) -> object:
    """Use all optional files of a data set, as questions do."""
    from relens.data.restriction import Restriction
    from relens.prediction.names import Names

    allowed = None if dataset.types is None else Restriction.of_types(dataset).allowed(0, 0)
    names = Names(dataset)
    return allowed, dataset.negatives, names.entities.matches("e", 5), names.relations.closest("is followed")


def _table_bombs() -> Mapping[str, Files]:
    return {
        "labels of line ends": {"labels.tsv.gz": _long(b"\n", 10**9)},
        "ten million labels": {"labels.tsv.gz": _long(b"e0\tZero\n", 10**7)},
        "ten million types": {"types.tsv.gz": _long(b"e0\teven\n", 10**7)},
        "many types": {"types.tsv": b"".join(b"e%d\tt%d\n" % (at % 5, at) for at in range(200_000))},
        "many unknown entities": {"types.tsv": b"".join(b"x%d\teven\n" % at for at in range(200_000))},
        "many false triples": {"valid_negatives.txt.gz": _long(b"e0\tr0\te3\n", 10**7)},
        "a long name": {"labels.tsv": b"e0\t" + b"x" * 10**7 + b"\n"},
    }


# Graphs, members and calibrations of runs


def _graphs() -> Sequence[Files]:
    """Graphs as they are written; without the checksums of their files, so that changes are read; with candidates."""
    from relens.data.candidates import Candidates
    from relens.data.stored import write_graph

    def write(dataset: Any, folder: Path) -> None:
        write_graph(dataset, folder)

    def with_tables(folder: Path) -> None:
        place = folder.with_name("tables")
        place.mkdir()
        for name, content in TABLES.items():
            (place / name).write_bytes(content)
        write(replace(_dataset(), folder=place), folder)

    def with_candidates(folder: Path) -> None:
        chosen = {
            split: Candidates(np.zeros((len(_dataset().queries(split).answer), 3), np.int32), "drawn", ("train",))
            for split in ("valid", "test")
        }
        write(replace(_dataset(), candidates=chosen), folder)

    whole = [written(with_tables), written(with_candidates)]
    return [*whole, *map(_unverified, whole), *map(_unverified, whole)]


def _unverified(files: Files) -> dict[str, bytes]:
    """Return a graph without checksums."""
    found = unsealed(files)
    return {**found, "graph.json": _json({**json.loads(found["graph.json"]), "files": {}})}


def _read_graph(folder: Path) -> object:
    from relens.data.stored import holds, read_graph

    dataset = read_graph(folder)
    known = dataset.fingerprint, dataset.cardinalities, dataset.known_answers
    candidates = [chosen.absent(slice(0, 2)) for chosen in dataset.candidates.values()]
    return known, candidates, holds(folder, dataset), _use(dataset)


def _graph_bombs() -> Mapping[str, Files]:
    tables, candidates = _graphs()[2:4]
    record, chosen = json.loads(tables["graph.json"]), json.loads(candidates["graph.json"])

    def counting(**counts: int) -> Files:
        return {**tables, "graph.json": _json({**record, "counts": {**record["counts"], **counts}})}

    far = {**chosen["candidates"], "valid": {**chosen["candidates"]["valid"], "shape": [4, 10**12]}}
    return {
        "a billion entities": counting(entities=10**9),
        "a billion triples": counting(train=10**9),
        "more triples than memory": counting(train=2**62),
        "a gigabyte of ids": {**tables, "train.bin.gz": _long(b"\0" * 100, 10**7)},
        "a gigabyte of line ends": {**tables, "entities.txt.gz": _long(b"\n", 10**9)},
        "far ids": {**tables, "train.bin.gz": gzip.compress(b"\xff" * 96, mtime=0)},
        "files elsewhere": {**tables, "graph.json": _json({**record, "files": {"../../../../etc/passwd": "0" * 16}})},
        "wide candidates": {**candidates, "graph.json": _json({**chosen, "candidates": far})},
    }


def _members() -> Sequence[Files]:
    from relens.importers.members import PythonObject, SavedByPykeen
    from relens.records import MEMBER

    origins = (PythonObject("a.b:C", {"scale": 2.0}), SavedByPykeen("last", {"trained_model.pkl": "0" * 16}))

    def write(origin: Any, folder: Path) -> None:
        known = {"dataset": "small", "fingerprint": _dataset().fingerprint}
        MEMBER.write(folder / "member.json", {"origin": origin.name, **known, **origin.to_json()})

    return [written(lambda folder, origin=origin: write(origin, folder)) for origin in origins]  # type: ignore[misc]


def _read_member(folder: Path) -> object:
    """Open a member; nothing of it is loaded, because that would run code."""
    from relens.importers.members import Member

    member = Member.open(folder)
    return member.digest, member.origin.describe(), member.origin.to_json()


@cache
def _weights() -> Any:
    from relens.ensemble.search import search

    return search(simulated(), method="mean", input="score")


def _calibrations() -> Sequence[Files]:
    from relens.prediction.calibration import Regression, Steps
    from relens.prediction.confidence import Calibrated, Confidence
    from relens.prediction.evidence import FEATURES
    from relens.runs import Run
    from relens.staleness import made_from

    def write(folder: Path) -> None:
        run, weights = Run.create(folder, "simulated"), _weights()
        n_features, n_groups = len(FEATURES), len(weights.grouping)
        low, high, mean, scale, slope = (np.full(n_features, value) for value in (-2.0, 2.0, 0.0, 1.0, 0.5))
        flat = Regression(low, high, mean, scale, slope, np.zeros(n_groups))
        steps = Steps(np.array([-3.0, 0.0, 1.0]), np.array([0.1, 0.5, 0.75]))
        part = Calibrated(flat, steps, np.full(n_groups, 20), 0.01)
        usual, scales = np.ones((n_groups, 2)), np.ones(len(weights.models))
        found = Confidence(weights, scales, usual, (part, None), made_from(run, weights), {"questions": 40})
        found.save(run, "mean")

    files = written(write)
    return [files, unsealed(files)]


def _read_calibration(folder: Path) -> object:
    from relens.prediction.confidence import Confidence
    from relens.prediction.evidence import FEATURES, Evidence
    from relens.runs import Run

    found = Confidence.load(Run.open(folder), "mean", _weights())
    if found is None:
        return None
    places = np.arange(1.0, 5.0)
    evidence = Evidence(places, np.linspace(-9, 9, 4 * len(FEATURES)).reshape(4, -1))
    stated = found.of_evidence(0, evidence, places > 2)
    judged = stated[~np.isnan(stated)]
    assert ((judged >= 0) & (judged <= 1)).all(), f"{judged} are no probabilities"
    return found.digest


def _calibration_bombs() -> Mapping[str, Files]:
    (name,) = (name for name in _calibrations()[1] if name.startswith("calibrations/"))
    old = _calibrations()[1]
    record = json.loads(old[name])

    def with_steps(bounds: list[float], values: list[float]) -> Files:
        part = {**record["unanswered"], "steps": {"bounds": bounds, "values": values}}
        return {**old, name: _json({**record, "unanswered": part})}

    return {
        "a million steps": with_steps([float(at) for at in range(10**6)], [0.5] * 10**6),
        "steps that fall": with_steps([1.0, 0.0, 2.0], [0.1, 0.2, 0.3]),
        "more than certain": with_steps([0.0], [7.0]),
        "no steps": with_steps([], []),
    }


def _thresholds() -> Sequence[Files]:
    from relens.prediction.fitted import keep_thresholds
    from relens.prediction.thresholds import STATISTICS, Thresholds
    from relens.runs import Run

    def write(folder: Path) -> None:
        run, weights = Run.create(folder, "simulated"), _weights()
        run.keep_graph(_dataset())
        n = len(weights.relations)
        name = next(iter(STATISTICS))
        found = Thresholds(name, np.linspace(-1, 1, n), np.arange(n) % 2 > 0, 0.5, "sampled", {name: 0.75})
        keep_thresholds(run, "mean", weights, found, 0)

    files = {name: content for name, content in written(write).items() if not name.startswith("graph/")}
    return [files, unsealed(files)]


def _read_thresholds(folder: Path) -> object:
    from relens.prediction.fitted import kept_thresholds
    from relens.runs import Run

    found = kept_thresholds(Run.open(folder), "mean", _weights(), _dataset(), 0)
    return found and found.to_json()


def _scales() -> Sequence[Files]:
    from relens.prediction.fitted import keep_scale
    from relens.prediction.relation_scale import SCALES, RelationScale
    from relens.runs import Run

    def write(folder: Path) -> None:
        run, weights = Run.create(folder, "simulated"), _weights()
        name = next(iter(SCALES))
        others = np.linspace(-2, 2, len(weights.models) * 3 * len(weights.relations) * 2)
        shaped = others.reshape(len(weights.models), 3, len(weights.relations), 2)
        keep_scale(run, "mean", weights, RelationScale(name, 0.5, shaped, {(name, 0.5): 0.25}, 4))

    files = written(write)
    return [files, unsealed(files)]


def _read_scale(folder: Path) -> object:
    from relens.prediction.fitted import kept_scale
    from relens.runs import Run

    found = kept_scale(Run.open(folder), "mean", _weights())
    return found and (found.name, found.prior, float(found.others.sum()), found.tried)


def _reliabilities() -> Sequence[Files]:
    from relens.prediction.reliability import POPULATIONS, Reliability
    from relens.records import RELIABILITY

    stated, true = np.array([0.05, 0.5, 0.9, np.nan]), np.array([False, True, True, False])

    def write(folder: Path) -> None:
        found = Reliability.measure(stated, true, np.ones(4))
        RELIABILITY.write(folder / "r.json", {"made_from": [], **dict.fromkeys(POPULATIONS, found.to_json())})

    files = written(write)
    return [files, unsealed(files)]


def _read_reliability(folder: Path) -> object:
    from relens.prediction.reliability import POPULATIONS, Reliability
    from relens.records import RELIABILITY, mapping
    from relens.reports.reliability import bin_table, reliability_table

    record = RELIABILITY.read(folder / "r.json")
    with RELIABILITY.parsing("the reliability"):
        found = {key: Reliability.from_json(mapping(record[key])) for key in POPULATIONS}
    return reliability_table(found).to_text(), bin_table(found).to_text()


# Discoveries and files of people


def _discoveries() -> Sequence[Files]:
    """Parts of two relations. Their names have the checksums, which ``_read_discovery`` does not verify."""
    from relens.records import DISCOVERY

    rows = np.array([[0, -0.5, -2, 0, 3, 1, 2], [1, 0, -1.5, 2, 4, 3, 1.5]], dtype=np.float64)

    def write(folder: Path) -> None:
        DISCOVERY.write(folder / "discovery.json", {"relations": ["r0", "r1"], "top": 100, "weights": "0" * 16})
        (folder / "000000-0.npy").write_bytes(npy(rows))
        (folder / "000001-0.npy").write_bytes(npy(rows[:1]))

    files = written(write)
    return [files, unsealed(files)]


def _read_discovery(folder: Path) -> object:
    from relens.files import VERIFY
    from relens.prediction.discovery import RECORD, Discovery, Wanted
    from relens.records import DISCOVERY

    discovery = object.__new__(Discovery)
    discovery.ensemble = SimpleNamespace(dataset=_dataset())  # type: ignore[assignment]
    discovery.wanted, discovery.relations, discovery._n_entities = Wanted().checked(), [0, 1], len(_dataset().entities)
    os.environ[VERIFY] = "0"
    try:
        DISCOVERY.read(folder / RECORD)
        return [fact.to_json() for fact in discovery._merged(folder)]
    finally:
        del os.environ[VERIFY]


def _discovery_bombs() -> Mapping[str, Files]:
    seed = _discoveries()[0]
    wrong = {
        "entities that are missing": [0, -0.5, -2, 9, 3, 1, 2],
        "entities below 0": [0, -0.5, -2, -1, 3, 1, 2],
        "entities that are no numbers": [0, -0.5, -2, np.nan, 3, 1, 2],
    }
    return {
        **{name: {**seed, "000000-0.npy": npy(np.array([row], dtype=np.float64))} for name, row in wrong.items()},
        "whole numbers": {**seed, "000000-0.npy": npy(np.zeros((3, 7), dtype=np.int64))},
        "complex numbers": {**seed, "000000-0.npy": npy(np.zeros((3, 7), dtype=np.complex128))},
    }


def _lists() -> Sequence[Files]:
    listed = {"list.txt": b"e0\nE1\n\ne4\n"}
    return [listed, _packed(listed)]


def _read_list(folder: Path) -> object:
    from relens.prediction.candidates import restriction_for

    (path,) = sorted(folder.iterdir())[:1] or [folder / "list.txt"]
    return restriction_for(_dataset(), path).allowed(0, 0)


def _list_bombs() -> Mapping[str, Files]:
    return {
        "line ends": {"list.txt.gz": _long(b"\n", 10**9)},
        "many unknown names": {"list.txt": b"".join(b"x%d\n" % at for at in range(300_000))},
        "one name often": {"list.txt.gz": _long(b"e0\n", 10**7)},
        "a long name": {"list.txt": b"x" * 10**8},
    }


def _triples() -> Sequence[Files]:
    rows = b"e0\tr0\te1\nE3\tr1\te4\n"
    return [{"t.tsv": b"head\trelation\ttail\n" + rows}, _packed({"t.tsv": rows})]


def _read_triples(folder: Path) -> object:
    from relens.prediction.names import Names
    from relens.prediction.triples import triples_in_ids

    (path,) = sorted(folder.iterdir())[:1] or [folder / "t.tsv"]
    ids = triples_in_ids(path, Names(_dataset()))
    assert ids.shape[1] == 3
    assert 0 <= ids.min() <= ids.max() < len(_dataset().entities)
    return ids


def _triple_bombs() -> Mapping[str, Files]:
    return {
        "line ends": {"t.tsv.gz": _long(b"\n", 10**9)},
        "many unknown names": {"t.tsv": b"".join(b"x%d\tr0\ty%d\n" % (at, at) for at in range(100_000))},
        "ten million triples": {"t.tsv.gz": _long(b"e0\tr0\te1\n", 10**7)},
        "a long name": {"t.tsv": b"e0\tr0\t" + b"x" * 10**8},
    }
