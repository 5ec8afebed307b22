"""Readers of text, tables, TOML, JSON records, archives and pickles, as targets of the fuzz campaign.

Functions import what they read with: a process pays for the targets that it attacks alone.
"""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from campaigns.mutations import DEEP
from campaigns.target import Files, Target

ROWS = [(f"e{i}", f"r{i % 2}", f"e{(i + 1) % 5}") for i in range(8)]
TRIPLES = "".join("\t".join(row) + "\n" for row in ROWS).encode()
GRAPH = {"train.txt": TRIPLES, "valid.txt": TRIPLES[:18], "test.txt": TRIPLES[18:36]}
SPLITS = ("train", "valid", "test")
NAMES = b"e0\tZero\ne1\tOne\n"


def targets() -> list[Target]:
    """Return the targets of this module."""
    return [
        Target("graph", _graphs, _read_graph, bombs=_graph_bombs),
        Target("candidates", _candidates, _read_graph, bombs=_candidate_bombs),
        Target("names", _names, _read_names),
        Target("OGB", _ogb, _read_ogb, bombs=_ogb_bombs),
        Target("OGB copy", _ogb_copies, _read_ogb_copy, bombs=_ogb_copy_bombs),
        Target("torch file", _torch_files, _read_torch_file, bombs=_torch_bombs),
        Target("archive", _archives, _read_archive, bombs=_archive_bombs),
        Target("catalogue", _catalogues, _read_catalogue),
        Target("plan", _plans, _read_plan, TOML, bombs=_toml_bombs),
        Target("settings", _settings, _read_settings, TOML, bombs=_settings_bombs),
        Target("grouping", _groupings, _read_grouping),
        Target("facts", _facts, _read_facts),
        Target("questions", _questions, _read_questions, (b'{"anchor": ', b"tail", b"head")),
        Target("PyKEEN", _pykeens, _read_pykeen),
        Target("weights table", _weights_tables, _read_weights_table, bombs=_weights_bombs),
        Target("run", _runs, _read_run),
        Target("upgrade", _old_runs, _upgrade_run),
        Target("journal", _journals, _read_journal),
        Target("training log", _logs, _read_log),
    ]


TOML = (
    b"[[x]]",
    b"x = 1",
    b"1979-05-27",
    b"07:32:00",
    b'"""',
    b"'''",
    b"set = {",
    b"x.y = 1",
    b"1e400",
    b"0o7",
    b"[x.y]",
)


def _packed(files: Files) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _written(write: Callable[[Path], object]) -> dict[str, bytes]:
    """Return the files that a function writes into a folder."""
    with tempfile.TemporaryDirectory() as name:
        write(folder := Path(name))
        files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# Graphs


def _graphs() -> Sequence[Files]:
    return [GRAPH, _packed({**GRAPH, "labels.tsv": NAMES})]


def _read_graph(folder: Path) -> object:
    from relens.data.catalog import open_folder

    dataset = open_folder(folder)
    return dataset.names, dataset.fingerprint, dataset.cardinalities, dataset.known_answers, dataset.identity


def _graph_bombs() -> Mapping[str, Files]:
    ends = gzip.compress(b"\n" * 10**7, mtime=0) * 100
    rows = gzip.compress(b"a\tr\tb\n" * 10**6, mtime=0) * 50
    return {
        "a gigabyte of line ends": {**GRAPH, "train.txt": b"", "train.txt.gz": ends},
        "line ends in place of valid": {**GRAPH, "valid.txt.gz": ends},
        "only line ends": {"train.txt.gz": ends, "valid.txt.gz": ends, "test.txt.gz": ends},
        "fifty million rows": {"train.txt.gz": rows, "valid.txt": b"", "test.txt": b""},
        "one long line": {"train.txt.gz": gzip.compress(b"x" * 10**8), "valid.txt": b"", "test.txt": b""},
    }


@cache
def _candidates() -> Sequence[Files]:
    import numpy as np

    from relens.data.candidates import Candidates, write_candidates
    from relens.data.dataset import Dataset

    dataset = Dataset.from_labels("input", train=ROWS, valid=ROWS[:2], test=ROWS[2:4])

    def write(folder: Path) -> None:
        for name, content in GRAPH.items():
            (folder / name).write_bytes(content)
        made = {}
        for split in ("valid", "test"):
            answers = dataset.queries(split).answer
            rows = [[e for e in range(len(dataset.entities)) if e != answer][:3] for answer in answers]
            made[split] = Candidates(np.array(rows, dtype=np.int32), "drawn", ("train",))
        write_candidates(made, dataset.identity, folder)

    return [_written(write)]


def _candidate_bombs() -> Mapping[str, Files]:
    (seed,) = _candidates()
    deep = seed["candidates.json"].replace(b'"drawn"', b"[" * DEEP)
    return {"a record nested deep": {**seed, "candidates.json": deep}}


def _names() -> Sequence[Files]:
    return [{"labels.tsv": NAMES}, _packed({"labels.tsv": NAMES})]


def _read_names(folder: Path) -> object:
    from dataclasses import replace

    from relens.prediction.names import Names

    names = Names(replace(_dataset(), folder=folder))
    return names.entity("e0"), names.entities.closest("zer"), names.entities.matches("o", 5)


@cache
def _dataset() -> Any:
    from relens.data.dataset import Dataset

    return Dataset.from_labels("small", train=ROWS, valid=ROWS[:2], test=ROWS[2:4])


# OGB


def _saved(value: Any, protocol: int = 2) -> bytes:
    """Return the bytes of a file of ``torch.save``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), pickle.dumps(value, protocol))
        archive.writestr(zipfile.ZipInfo("archive/version"), b"3\n")
    return buffer.getvalue()


def _saved_before(value: Any) -> bytes:
    """Return the bytes of a file of ``torch.save`` before torch 1.6."""
    from relens.data.torch_files import LEGACY_MAGIC

    parts: tuple[object, ...] = (LEGACY_MAGIC, 1001, {"little_endian": True}, value, [])
    return b"".join(pickle.dumps(part, 2) for part in parts)


def _split(*, typed: bool, negatives: bool) -> dict[str, Any]:
    import numpy as np

    columns: dict[str, Any] = {"head": np.arange(3), "relation": np.array([0, 1, 0]), "tail": np.arange(1, 4)}
    if typed:
        columns |= {"head_type": ["a", "b", "a"], "tail_type": ["b", "a", "b"]}
    if negatives:
        columns |= {"head_neg": np.array([[3, 2], [0, 3], [1, 0]]), "tail_neg": np.array([[0, 2], [3, 0], [1, 2]])}
    return columns


def _table(*lines: str) -> bytes:
    return gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)


@cache
def _ogb() -> Sequence[Files]:
    untyped = {
        f"split/time/{split}.pt": _saved(_split(typed=False, negatives=split != "train"))
        for split in ("train", "valid", "test")
    }
    untyped |= {
        "raw/num-node-list.csv.gz": _table("5"),
        "mapping/nodeidx2entityid.csv.gz": _table("node idx,entity id", *(f"{i},Q{i}" for i in range(5))),
        "mapping/reltype2relid.csv.gz": _table("reltype,rel id", "0,P0", "1,P1"),
    }
    typed = {
        "split/random/split_dict.pt": _saved_before(
            {split: _split(typed=True, negatives=split != "train") for split in SPLITS}
        ),
        "raw/num-node-dict.csv.gz": _table("b,a", "4,5"),
        "mapping/a_entidx2name.csv.gz": _table("ent idx,ent name", *(f"{i},A{i}" for i in range(5))),
    }
    graph = {"num_nodes_dict": {"a": 5, "b": 4}, "edge_index_dict": {("a", "r", "b"): [1]}}
    processed = {name: content for name, content in typed.items() if "raw" not in name}
    return [untyped, typed, processed | {"processed/data_processed": _saved(graph, 4)}]


def _read_ogb(folder: Path) -> object:
    from relens.data.ogb import is_ogb, read_ogb

    if not is_ogb(folder):
        return None
    dataset = read_ogb(folder)
    return dataset.names, dataset.counts, dataset.queries("valid")


def _ogb_bombs() -> Mapping[str, Files]:
    import numpy as np

    untyped, typed, processed = _ogb()
    far = {**_split(typed=False, negatives=False), "relation": np.array([0, 2**31 - 2, 0])}
    nodes = "raw/num-node-list.csv.gz"
    without = {name: content for name, content in untyped.items() if "mapping" not in name}
    return {
        "a billion nodes": {**untyped, nodes: _table(str(10**9))},
        "nodes beyond int32": {**without, nodes: _table(str(2**33))},
        "digits of nodes": {**without, nodes: _table("9" * 100_000)},
        "a billion typed nodes": {**typed, "raw/num-node-dict.csv.gz": _table("b,a", "4,1000000000")},
        "a long type": {**typed, "raw/num-node-dict.csv.gz": _table("b," + "a" * 200_000, "4,5")},
        "a far relation": {**without, "split/time/train.pt": _saved(far)},
        "a long name": {**untyped, "mapping/reltype2relid.csv.gz": _table("a,b", "0," + "x" * 200_000, "1,P1")},
        "digits of an index": {**untyped, "mapping/reltype2relid.csv.gz": _table("a,b", "0,P0", "1" * 100_000 + ",P")},
        "a hundred thousand equal relations": {
            **untyped,
            "mapping/reltype2relid.csv.gz": _table("a,b", *(f"{i},P" for i in range(100_000))),
        },
        "digits in a pickle": {
            **processed,
            "processed/data_processed": _saved({"num_nodes": 10**4000}),
        },
        "line ends": {**untyped, nodes: gzip.compress(b"\n" * 10**7) * 100},
    }


@cache
def _ogb_copies() -> Sequence[Files]:
    """The copies of OGB's files, with the files: their times are those of ``_read_ogb_copy``."""
    found = []
    for files in _ogb()[:2]:

        def write(folder: Path, files: Files = files) -> None:
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            _read_ogb_copy(folder)

        found.append(_written(write))
    return found


def _read_ogb_copy(folder: Path) -> object:
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(0, 0))
    return _read_ogb(folder)


def _ogb_copy_bombs() -> Mapping[str, Files]:
    seed = _ogb_copies()[0]
    record = json.loads(seed["relens/manifest.json"])
    del record["checksum"]
    return {
        "a billion nodes": {**seed, "relens/manifest.json": _json({**record, "node_counts": {"": 10**9}})},
        "negative nodes": {**seed, "relens/manifest.json": _json({**record, "node_counts": {"": -1, "x": 2**62}})},
    }


def _torch_files() -> Sequence[Files]:
    import numpy as np

    value = {
        "types": ["a", "b", "a"],
        "ids": np.arange(4),
        "wide": np.arange(6, dtype=">i2").reshape(2, 3, order="F"),
        "flags": np.array([True, False]),
        "graph": {("a", "r", "b"): [1, 2.5, None, b"x"], "n": np.int64(7), 3: ()},
    }
    return [{"a.pt": _saved(value)}, {"a.pt": _saved(value, 4)}, {"a.pt": _saved_before(value)}]


def _read_torch_file(folder: Path) -> object:
    from relens.data.torch_files import read_saved

    return read_saved(folder / "a.pt")


def _torch_bombs() -> Mapping[str, Files]:
    def pickled(body: bytes, packing: int = zipfile.ZIP_STORED) -> Files:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", packing) as archive:
            archive.writestr(zipfile.ZipInfo("archive/data.pkl"), b"\x80\x02" + body, packing)
        return {"a.pt": buffer.getvalue()}

    tuples = b")" + b"q\x00h\x00\x86" * 100
    lists = b"]" + b"q\x00]h\x00ah\x00a" * 100
    encode = b"c_codecs\nencode\n"
    text = b"X" + struct.pack("<I", 30_000) + b"x" * 30_000 + b"q\x00X\x06\x00\x00\x00latin1q\x01"
    return {
        "a memo of gigabytes": pickled(b"Nr\xff\xff\xff\x0f."),
        "a key of nested tuples": pickled(b"}" + tuples + b"K\x01s."),
        "nested tuples": pickled(tuples + b"."),
        "shared lists": pickled(lists + b"."),
        "a list in itself": pickled(b"]q\x00h\x00a."),
        "nested deep": pickled(b"]" * DEEP + b"a" * (DEEP - 1) + b"."),
        "nested tuples deep": pickled(b")" + b"\x85" * 10**6 + b"."),
        "a long text": pickled(b"X\xff\xff\xff\xff."),
        "long bytes": pickled(b"\x8e\xff\xff\xff\xff\xff\xff\x00\x00."),
        "a long number": pickled(b"\x8b\xff\xff\xff\x7f."),
        "defaults of a function": pickled(encode + b"N}X\x0c\x00\x00\x00__defaults__X\x01\x00\x00\x00x\x85s\x86b."),
        "a text encoded often": pickled(b"](" + text + (encode + b"h\x00h\x01\x86R") * 100_000 + b"e."),
        "a gigabyte of nothing": {"a.pt": _stretched(pickled(b"N0" * 10**7 + b"N.", zipfile.ZIP_DEFLATED)["a.pt"])},
    }


def _stretched(archive: bytes) -> bytes:
    """Say that the files in an archive unpack to four gigabytes."""
    at = archive.index(b"PK\x01\x02") + 24
    return archive[:at] + b"\xfe\xff\xff\xff" + archive[at + 4 :]


# Archives and the catalogue


def _archives() -> Sequence[Files]:
    def packed(packing: int) -> Files:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", packing) as archive:
            for name in ("top/split/time/train.pt", "top/raw/num-node-list.csv.gz", "top/empty/", "other/readme"):
                archive.writestr(zipfile.ZipInfo(name), b"content " * 5 if not name.endswith("/") else b"", packing)
        return {"a.zip": buffer.getvalue()}

    return [packed(zipfile.ZIP_STORED), packed(zipfile.ZIP_DEFLATED)]


def _read_archive(folder: Path) -> object:
    from relens.data.download import unpack
    from relens.progress import SILENT

    if not (folder / "a.zip").is_file():
        return None
    try:
        unpack(folder / "a.zip", "http://localhost/a.zip", "top", folder / "data", SILENT)
    finally:
        shutil.rmtree(folder / "data", ignore_errors=True)
    return None


def _archive_bombs() -> Mapping[str, Files]:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("top/a", "w") as member:
        for _ in range(1100):
            member.write(bytes(2**20))
    many = io.BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(20_000):
            archive.writestr(zipfile.ZipInfo(f"top/{number}"), b"")
    return {"a gigabyte of zeros": {"a.zip": buffer.getvalue()}, "many files": {"a.zip": many.getvalue()}}


def _catalogues() -> Sequence[Files]:
    from relens.data.archives import record_digest
    from relens.records import IMPORTED

    def write(folder: Path) -> None:
        (folder / "data/mine").mkdir(parents=True)
        counts = {"entities": 8, "relations": 2, "train": 8, "valid": 2, "test": 2}
        IMPORTED.write(folder / "data/mine/imported.json", {"counts": counts, "fingerprint": "0" * 16})
        for name, content in GRAPH.items():
            (folder / "data/mine" / name).write_bytes(content)
        record_digest(folder / "data/ogbl_biokg.archive.json", "http://localhost", "0" * 64)

    seed = _written(write)
    from relens.data.catalog import open_folder

    with tempfile.TemporaryDirectory() as name:
        for file, content in GRAPH.items():
            (Path(name) / file).write_bytes(content)
        fingerprint = open_folder(Path(name)).fingerprint
    record = json.loads(seed["data/mine/imported.json"])
    del record["checksum"]
    return [{**seed, "data/mine/imported.json": _json({**record, "fingerprint": fingerprint})}]


def _read_catalogue(folder: Path) -> object:
    from relens.data.archives import recorded_digest
    from relens.data.catalog import imported_entries, load_dataset

    os.environ["RELENS_HOME"] = str(folder)
    recorded_digest(folder / "data/ogbl_biokg.archive.json")
    if "mine" in imported_entries():
        load_dataset("mine", offline=True)
    return None


# TOML

PLAN = b"""dataset = "patterns"
models = ["transe", "rotate"]
preset = "best"
methods = ["mean", "dsc:input=rank"]
seed = 7
set = { batch = 512, lr = 1e-3, tf32 = true }
[rotate]
dim = 500
milestones = [1, 2]
"""


def _plans() -> Sequence[Files]:
    return [{"plan.toml": PLAN}, {"plan.toml": b'models = ["complex"]\n[complex]\ndim = 5\n'}]


def _read_plan(folder: Path) -> object:
    from relens.pipeline.plan import read_plan

    plan = read_plan(folder / "plan.toml")
    return plan.all_changes, plan.with_changes(plan.all_changes)


def _toml_bombs() -> Mapping[str, Files]:
    texts = {
        "nested arrays": b"seed = " + b"[" * DEEP,
        "closed nested arrays": b"seed = " + b"[" * DEEP + b"]" * DEEP,
        "nested tables": b"set = " + b"{a=" * DEEP,
        "a long integer": b"seed = " + b"9" * 4301,
        "a longer integer": b"seed = " + b"9" * 300_000,
        "a long hexadecimal": b"seed = 0x" + b"f" * 300_000,
        "a long dotted key": b"a." * 30_000 + b"b = 1",
        "a long table name": b"[" + b"a." * 30_000 + b"b]",
        "many tables": b"".join(b"[t%d]\n" % i for i in range(20_000)),
        "many dotted keys": b"".join(b"a.b.c.k%d = 1\n" % i for i in range(10_000)),
        "a long text": b'dataset = "' + b"x" * 10**6 + b'"',
    }
    return {name: {"plan.toml": text} for name, text in texts.items()}


def _settings() -> Sequence[Files]:
    return [{"changes": b"dim=8\nlr=1e-3\nmilestones=[10, 20]\nschedule=steps\nstop_after=none\nbatch=64\ntf32=false"}]


def _read_settings(folder: Path) -> object:
    from relens.training.presets import resolve_settings
    from relens.training.settings import TrainSettings

    path = folder / "changes"
    lines = path.read_text("utf-8", errors="replace").split("\n") if path.is_file() else []
    settings = resolve_settings("wn18rr", "transe", "demo", lines)
    return TrainSettings.from_dict(settings.as_dict())


def _settings_bombs() -> Mapping[str, Files]:
    return {
        name: {"changes": files["plan.toml"].replace(b"seed = ", b"lr=", 1)} for name, files in _toml_bombs().items()
    }


# Tables of people


def _groupings() -> Sequence[Files]:
    return [{"groups.tsv": b"r0\tall\nr1\tall\n"}, {"groups.tsv": b"r1\tsome\n\n"}]


def _read_grouping(folder: Path) -> object:
    from relens.data.grouping import Grouping

    path = folder / "groups.tsv"
    return Grouping.from_file(path, ("r0", "r1")) if path.is_file() else None


def _facts() -> Sequence[Files]:
    return [{"facts.tsv": b"head\trelation\ttail\nnew\tr0\te1\ne0\tr1\te4\n"}, {"facts.tsv": b"e0\tr1\tnew\n"}]


def _read_facts(folder: Path) -> object:
    from relens.prediction.facts import GivenFacts

    given = GivenFacts.read(folder / "facts.tsv", _dataset())
    return given.describe(), given.stated, given.is_new


def _questions() -> Sequence[Files]:
    rows = [("e0", "r0", "tail"), ("E1", "r1", "head")]
    objects = [dict(zip(("anchor", "relation", "direction"), row, strict=True)) for row in rows]
    return [
        {"questions": b"anchor\trelation\tdirection\n" + b"".join("\t".join(row).encode() + b"\n" for row in rows)},
        {"questions": b"".join(_json(entry) + b"\n" for entry in objects)},
        {"questions": b"e0\te1\trelation\nE1\te2\trelation\n"},
        {"questions": _json({"head": "e0", "tail": "E1"}) + b"\n"},
    ]


def _read_questions(folder: Path) -> object:
    from relens.prediction.questions import read_questions

    return read_questions(folder / "questions", _ensemble())


@cache
def _ensemble() -> Any:
    """Return what reading questions needs of an ensemble: its names."""
    from relens.prediction.ensemble import Ensemble
    from relens.prediction.names import Names

    ensemble = object.__new__(Ensemble)
    vars(ensemble).update(_names=Names(_dataset()), voting=SimpleNamespace(facts=None))
    return ensemble


def _pykeens() -> Sequence[Files]:
    folder = "training_triples"
    tables = {
        "entity_to_id": ["id\tlabel", *(f"{4 - i}\te{i}" for i in range(8))],
        "relation_to_id": ["id\tlabel", "1\tr0", '0\t"r1"'],
        "numeric_triples": ["head\trelation\ttail", "7\t1\t6", "6\t0\t5"],
    }
    tables["entity_to_id"] = ["id\tlabel", *(f"{7 - i}\te{i}" for i in range(8))]
    files = {f"{folder}/{name}.tsv.gz": _table(*lines) for name, lines in tables.items()}
    return [{"trained_model.pkl": b"", **files}]


def _read_pykeen(folder: Path) -> object:
    from relens.data.dataset import Dataset
    from relens.importers.layouts.pykeen import PykeenFolder

    rows = [(f"e{i}", f"r{i % 2}", f"e{(i + 1) % 8}") for i in range(8)]
    dataset = Dataset.from_labels("small", train=rows, valid=[("e0", "r1", "e3")], test=[("e3", "r1", "e0")])
    return PykeenFolder.open(folder, dataset)


# Runs and their records


@cache
def _ranks() -> Any:
    from relens.packs.simulation import Simulation

    simulation = Simulation(("one", "two"), (2, 2), 6)
    return simulation.packed("valid"), simulation.packed("test")


def _weights_tables() -> Sequence[Files]:
    lines = ["group,queries,one,two", "relation 0 [tail],2,3,1", "relation 1 [head],2,0.5,0.25", "(fallback),,1,1"]
    return [
        {"weights.csv": "\n".join(lines).encode()},
        {"weights.csv": b'group,two,one\n"relation 0 [tail]",1e3,0\n'},
    ]


def _read_weights_table(folder: Path) -> object:
    from relens.ensemble.exchange import import_csv

    packed, _ = _ranks()
    found = import_csv(folder / "weights.csv", packed, "relation-direction")
    return found.aligned_to(packed.select_models(found.models))


def _weights_bombs() -> Mapping[str, Files]:
    return {
        "a long field": {"weights.csv": b"group,one,two\n" + b"x" * 200_000 + b",1,2\n"},
        "a long number": {"weights.csv": b"group,one,two\nrelation 0 [tail]," + b"9" * 100_000 + b",2\n"},
        "many columns": {"weights.csv": b"group" + b",one" * 50_000 + b"\n"},
    }


@cache
def _runs() -> Sequence[Files]:
    from relens.comparison import compare
    from relens.records import RANKED_BY, STAGE
    from relens.runs import Run

    def write(folder: Path) -> None:
        valid, test = _ranks()
        run = Run.create(folder / "run", "simulated")
        found = compare(valid, test, ("mean",))
        weights = next(iter(found.weights.values()))
        weights.save(run.weights_path("mean"))
        from relens.files import write_json

        write_json(run.comparison_path, found.to_json())
        write_json(run.evaluation_path("mean", "test"), found.evaluations[-1].to_json())
        RANKED_BY.write(run.path / "ranks/made_by.json", {"device": "cpu", "models": {"one": "0", "two": "1"}})
        STAGE.write(run.path / "stages/train.json", {"made_from": "0", "left": "1"})  # as an older relens wrote it
        STAGE.write(run.path / "stages/rank.json", {"made_from": "0", "left": {"run.json": "1", "comparison.json": ""}})

    return [_written(write)]


def _read_run(folder: Path) -> object:
    from relens.errors import RelensError
    from relens.pipeline.stages import Stage
    from relens.runs import Run

    run = Run.open(folder / "run")
    stages = [Stage(run, name, {}, lambda: ({}, {})).complete for name in ("train", "rank")]
    found: list[object] = []
    errors = []
    for read in (run.made_by, run.weights, lambda: run.evaluation("mean"), run.comparison):
        try:
            found.append(read())
        except RelensError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return stages, found


def _old_runs() -> Sequence[Files]:
    old = {
        "run.json": {"kind": "relens run", "format": 1, "name": "x", "dataset": "small"},
        "models/transe/trained/model.json": {"format": 2, "settings": {"model": "transe"}},
        "models/transe/step-000000010/state.json": {"format": 2, "step": 10},
        "ranks/made_by.json": {"device": "cpu", "models": {}},
        "stages/train.json": {"made_from": "0", "left": "1"},
    }
    return [{name: _json(record) for name, record in old.items()}]


def _upgrade_run(folder: Path) -> object:
    from relens.pipeline.upgrade import upgrade_run

    return upgrade_run(folder)


def _journals() -> Sequence[Files]:
    import numpy as np

    from relens.ensemble.context import SearchResult
    from relens.ensemble.distributed import SearchJournal

    def write(folder: Path) -> None:
        result = SearchResult(np.array([3, 1]), 0.5, np.array([[0.0, 1, 0.4], [0.1, 2, 0.5]]))
        SearchJournal(folder / "journal").add("0123456789abcdef", {0: result, 1: result})

    return [_written(write)]


def _read_journal(folder: Path) -> object:
    from relens.ensemble.distributed import SearchJournal

    return SearchJournal(folder / "journal").get("0123456789abcdef", 0)


def _logs() -> Sequence[Files]:
    record = {"step": 10, "steps": 20, "loss": 0.5, "mrr": None, "examples_per_second": 1e3, "lr": 0.1, "seconds": 1.5}
    return [{"log.jsonl": _json(record) + b"\n" + _json({**record, "step": 20, "mrr": 0.25}) + b"\n"}]


def _read_log(folder: Path) -> object:
    from relens.training.log import read_log

    (folder / "log").mkdir(exist_ok=True)
    return read_log(folder / "log.jsonl")
