"""Readers of arrays, packed ranks, weights, parameters and results, as targets of the fuzz campaign."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from campaigns.target import Files, Target

MODELS = ("a", "b")
HUGE = 2**31 - 2
NPY_TOKENS = (
    b"'descr': '|O'", b"'<U9'", b"'<V4'", b"'>f4'", b"'<f16'", b"'<c8'", b"'|b1'", b"[('a', '<i4'), ('b', '<f8')]",
    b"True", b"(0, 9)", b"(-1, 9)", b"(9223372036854775807, 2)", b"(4294967296, 4294967296)", b"(1000000000,)", b"{",
    b"{'a': {", b"(" * 60, b"'fortran_order': True", b"1L", b"9" * 30,
)  # fmt: skip
JSON_TOKENS = (b"NaN", b"-Infinity", b"1e400", b"9" * 400, b"null", b'"a"', b"2147483648", b"0.5", b"true")


def targets() -> list[Target]:
    """Return the targets of this module."""
    return [
        _npy(), _store(), _reduced(), _scores(), _authors(), _candidates(), _weights(), _weight_tables(), _trained(),
        _checkpoint(), _results(),
    ]  # fmt: skip


def npy(array: npt.NDArray[Any]) -> bytes:
    """Return the content of an ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npy_header(text: str, data: bytes = b"", version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    """Return an ``.npy`` file with any header, of the length that it says or of another."""
    size = len(text) if length is None else length
    return b"\x93NUMPY" + version + size.to_bytes(2 if version[0] == 1 else 4, "little") + text.encode() + data


def folder_files(folder: Path) -> dict[str, bytes]:
    """Return the content of all files below a folder, by their paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def written(write: Callable[[Path], object]) -> dict[str, bytes]:
    """Return the files that a function writes to the folder that it is given."""
    with TemporaryDirectory() as folder:
        write(Path(folder) / "it")
        return folder_files(Path(folder) / "it")


def unsealed(files: Files) -> dict[str, bytes]:
    """Return files without the checksums in their records, so that what they hold is read."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(entry) for key, entry in value.items() if key not in ("checksum", "tensors")}
        return value

    return {
        name: json.dumps(bare(json.loads(content))).encode() if name.endswith(".json") else content
        for name, content in files.items()
    }


@lru_cache(maxsize=1)
def simulated(split: str = "valid") -> Any:
    """Return packed ranks of two models, with score gaps: 16 queries, 12 candidates."""
    from relens.packs.simulation import Simulation

    return Simulation(MODELS, (5, 3), 12, level=(1.0, 0.8), seed=1).packed(split)


def use(packed: Any) -> object:
    """Run the kernels over packed ranks, as a search does."""
    from relens.ensemble.grid import uniform
    from relens.ensemble.inputs import available_inputs, check_input
    from relens.ensemble.objective import answer_ranks
    from relens.ensemble.pairs import Pairs
    from relens.ensemble.sweep_kernels import ascend
    from relens.packs.thinning import ContestedViews

    ranks = []
    views, queries = ContestedViews(packed), np.arange(packed.n_queries)
    for input in available_inputs(packed):
        check_input(input, packed)
        ranks.append(answer_ranks(packed, uniform(packed.n_models), input=input))
        pairs = Pairs.gather(packed, views.wide, queries, input)
        start = uniform(packed.n_models)
        ascend(pairs.advantage, pairs.offsets, pairs.floor, pairs.multiplicity, start, 0.0, 1)
    return packed.digest, [rank.realistic.sum() for rank in ranks]


def _npy() -> Target:
    """One array, as every reader of ``.npy`` files opens it."""
    from relens.files import open_npy

    def read(folder: Path) -> object:
        array = open_npy(folder / "a.npy")
        return array.sum() if array.size else None

    def seeds() -> Sequence[Files]:
        square = np.arange(12, dtype=np.int64).reshape(3, 4)
        second = io.BytesIO()
        np.lib.format.write_array(second, square, version=(2, 0), allow_pickle=False)
        arrays = (square, np.asfortranarray(square.astype(np.float32)), square[0].astype(">u2"), square[:, :0] > 1)
        return [{"a.npy": content} for content in (*map(npy, arrays), second.getvalue())]

    def bombs() -> Mapping[str, Files]:
        def header(shape: str, descr: str = "'<f8'", order: str = "False") -> bytes:
            return npy_header(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n", b"\0" * 16)

        contents = {
            "a brace": npy_header("{"),
            "no header": npy_header(""),
            "a header longer than the file": npy_header("{'descr'", length=65535),
            "a header of 4 GB": npy_header("{'descr'", version=b"\x02\x00", length=2**32 - 1),
            "a negative length": header("(-1,)"),
            "a length of 0": header("(0,)"),
            "more than any memory": header("(10**18,)"),
            "a product beyond 64 bits": header("(4294967296, 4294967296)"),
            "a product that wraps to 0": header("(9223372036854775808, 2)"),
            "numbers of no bytes": header("(1000000000000,)", "'<V0'"),
            "objects": header("(2,)", "'|O'"),
            "a structure": header("(2,)", "[('a', '<i4'), ('b', 'O')]"),
            "an array in each number": header("(2,)", "('<f8', (1000000, 1000000))"),
            "columns first": header("(1000000, 1000000)", order="True"),
            "brackets": npy_header("(" * 9000),
            "signs": npy_header("-" * 60_000 + "1"),
            "a shape of true": header("(True, True)"),
            "many dimensions": header("(" + "1," * 70 + ")"),
        }
        return {name: {"a.npy": content} for name, content in contents.items()}

    return Target("npy", seeds, read, NPY_TOKENS, bombs)


def _store() -> Target:
    """Packed ranks, with and without checksums and score gaps, as a search uses them."""
    from relens.packs.store import load_pack, save_pack

    def read(folder: Path) -> object:
        return use(load_pack(folder))

    def seeds() -> Sequence[Files]:
        whole = written(lambda path: save_pack(simulated(), path))
        plain = written(lambda path: save_pack(simulated().without_gaps(), path))
        return [whole, unsealed(whole), unsealed(whole), unsealed(plain)]

    def bombs() -> Mapping[str, Files]:
        old = unsealed(seeds()[0])
        counts = np.frombuffer(old["n_candidates.bin"], dtype="<i4").copy()
        found = {}
        for most in (2**31 - 1, 2**24 + 1, 2**24, 2**19):
            counts[0] = most
            found[f"{most} candidates"] = {**old, "n_candidates.bin": counts.tobytes()}
        manifest = json.loads(old["manifest.json"])
        for key, value in (("n_queries", 10**30), ("n_contested", 2**62), ("rank_dtype", "O"), ("models", [])):
            found[f"{key} {value}"] = {**old, "manifest.json": json.dumps({**manifest, key: value}).encode()}
        return found

    return Target("store", seeds, read, (*JSON_TOKENS, b"uint32", b"float64"), bombs)


def _reduced() -> Target:
    """Reduced ranks."""
    from relens.packs.reduced import read_reduced, write_reduced
    from relens.packs.thinning import Reduction

    def read(folder: Path) -> object:
        return [use(packed) for packed in read_reduced(folder / "ranks.npz").values()]

    def one(packed: Any) -> dict[str, bytes]:
        with TemporaryDirectory() as folder:
            write_reduced({"valid": packed}, Path(folder) / "ranks.npz", Reduction(2, 2))
            return folder_files(Path(folder))

    def seeds() -> Sequence[Files]:
        return [one(simulated()), one(simulated().without_gaps())]

    def changed(changes: Mapping[str, bytes]) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(seeds()[0]["ranks.npz"])) as archive:
            members = {name: archive.read(name) for name in archive.namelist()} | dict(changes)
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return {"ranks.npz": file.getvalue()}

    def bombs() -> Mapping[str, Files]:
        zeros = npy(np.zeros(2**27, dtype=np.uint8))
        many = np.ones(64, dtype=np.int32)
        many[0] = HUGE
        return {
            "zeros": changed({"valid.contested.npy": zeros}),
            "a candidate for two thousand million": changed({"valid.multiplicity.npy": npy(many)}),
            "fewer than none": changed({"valid.multiplicity.npy": npy(-many)}),
            "counts of fewer than none": changed({"valid.counts.npy": npy(-many.astype(np.int64))}),
            "counts of reals": changed({"valid.counts.npy": npy(np.full(16, 1e300))}),
            "a shape of a terabyte": changed(
                {
                    "valid.answer.npy": npy_header(
                        "{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}\n"
                    )
                }
            ),
            "a header of braces": changed({"header.npy": npy(np.frombuffer(b'{"a":' * 100_000, dtype=np.uint8))}),
        }

    return Target("reduced", seeds, read, NPY_TOKENS, bombs)


def _scores() -> Target:
    """Score arrays with query files, packed."""
    from relens.importers.arrays import ArrayOptions
    from relens.importers.dense import pack_dense
    from relens.importers.layouts.scores import read_scores

    def read(folder: Path) -> object:
        dense = read_scores(folder, options=ArrayOptions())
        return [use(pack_dense(of_split, jobs=1)) for of_split in dense.values()]

    rng = np.random.default_rng(0)
    arrays = {f"{m}_{s}_scores.npy": npy(rng.random((4, 5), np.float32)) for m in MODELS for s in ("valid", "test")}
    ids = np.array([[0, 0, 0, 1], [1, 0, 1, 0], [2, 1, 0, 3], [3, 1, 1, 2]])
    numbered = arrays | {f"{split}_queries.npy": npy(ids) for split in ("valid", "test")}
    text = "".join(f"{a}\t{r}\t{'head' if d else 'tail'}\t{b}\n" for a, r, d, b in ids.tolist()).encode()
    labelled = arrays | {f"{split}_queries.tsv": text for split in ("valid", "test")}
    listed = labelled | {"entities.txt": b"0\n1\n2\n3\n4\n", "relations.txt": b"1\n0\n"}

    def bombs() -> Mapping[str, Files]:
        far = ids.copy()
        far[0, 1] = HUGE
        named = text.replace(b"\t1\t", b"\t2147483646\t")
        return {
            "a relation of 2^31 - 2": {**numbered, "valid_queries.npy": npy(far)},
            "a relation of 2^31 - 2 as text": {**labelled, "valid_queries.tsv": named},
            "a relation of 5,000 digits": {
                **labelled,
                "valid_queries.tsv": text.replace(b"\t1\t", b"\t%s\t" % (b"9" * 5000)),
            },
        }

    return Target("scores", lambda: [numbered, labelled, listed], read, NPY_TOKENS, bombs)


def _authors() -> Target:
    """The rank files of the paper's authors, over all entities and over samples."""
    from relens.importers.dense import pack_dense
    from relens.importers.layouts.authors import read_authors

    def read(folder: Path) -> object:
        form: Any = "ogb" if (folder / "sampled").exists() else "all"
        dense = read_authors(folder, form=form)
        return [use(pack_dense(of_split, jobs=1)) for of_split in dense.values()]

    rng = np.random.default_rng(0)
    forward = np.array([[0, 0, 1], [2, 1, 3]])
    both = np.concatenate([forward, forward[:, [2, 1, 0]] + [0, 2, 0]])

    def files(rows: npt.NDArray[Any], n_rows: int, n_columns: int) -> dict[str, bytes]:
        found = {f"dataset/d/{split}_triples.npy": npy(rows) for split in ("train", "valid", "test")}
        for model in MODELS:
            for split in ("valid", "test"):
                half = [rng.permuted(np.tile(np.arange(1, n_columns + 1), (n_rows, 1)), axis=1) for _ in range(2)]
                ranks = half[0] if n_columns == 5 else np.concatenate(half, axis=1)
                found[f"ranks/d/{model}_{split}_ranks.npy"] = npy(ranks.astype(np.int32))
        return found

    whole, sampled = files(both, 4, 5), files(forward, 2, 4) | {"sampled": b""}

    def bombs() -> Mapping[str, Files]:
        found = {}
        for name, column in (("entity", 0), ("relation", 1)):
            far, far_both = forward.copy(), both.copy()
            far[0, column] = far_both[0, column] = HUGE
            found[f"a sampled {name} of 2^31 - 2"] = {**sampled, "dataset/d/valid_triples.npy": npy(far)}
            found[f"a {name} of 2^31 - 2"] = {**whole, "dataset/d/valid_triples.npy": npy(far_both)}
        apart = np.concatenate([forward, forward[:, [2, 1, 0]] + [0, HUGE // 2, 0]])
        return found | {
            "inverse relations far away": {
                **whole,
                **{f"dataset/d/{split}_triples.npy": npy(apart) for split in ("train", "valid", "test")},
            }
        }

    return Target("authors", lambda: [whole, sampled], read, NPY_TOKENS, bombs)


def _candidates() -> Target:
    """Candidates of a data set."""
    from relens.data.candidates import Candidates, read_candidates, write_candidates
    from relens.data.dataset import Dataset

    rows = [[f"e{i}", f"r{i % 2}", f"e{(i + 1) % 5}"] for i in range(5)]
    dataset = Dataset.from_labels("ring", train=rows, valid=rows[:2], test=rows[2:4])
    queries = {split: dataset.queries(split) for split in ("valid", "test")}

    def read(folder: Path) -> object:
        found = read_candidates(folder, dataset.identity, queries, len(dataset.entities))
        return [candidates.absent(slice(0, 4)) for candidates in found.values()]

    def write(folder: Path) -> None:
        folder.mkdir()
        chosen = {}
        for split, asked in queries.items():
            rows = np.stack([(asked.answer + step) % 5 for step in (1, 2, 3)], axis=1).astype(np.int32)
            rows[0, -1] = -1
            chosen[split] = Candidates(rows, "by hand")
        write_candidates(chosen, dataset.identity, folder)

    def seeds() -> Sequence[Files]:
        files = written(write)
        return [files, unsealed(files)]

    return Target("candidates alone", seeds, read, (*NPY_TOKENS, *JSON_TOKENS))


def _weights() -> Target:
    """Weights as JSON, applied to ranks."""
    from relens.ensemble.search import search
    from relens.ensemble.weights import EnsembleWeights

    packed = simulated()

    def read(folder: Path) -> object:
        weights = EnsembleWeights.load(folder / "w.json")
        return weights.normalised(), weights.answer_ranks(packed).realistic.sum(), weights.to_json()

    def seeds() -> Sequence[Files]:
        found = [search(packed, method="dsc", input="log"), search(packed, method="mean", input="score")]
        return [{"w.json": json.dumps(weights.to_json()).encode()} for weights in found]

    return Target("weights", seeds, read, JSON_TOKENS)


def _weight_tables() -> Target:
    """Weights in the formats of others: ``.npy`` and CSV."""
    from relens.ensemble.exchange import export_csv, export_npy, import_csv, import_npy
    from relens.ensemble.search import search

    packed = simulated()

    def read(folder: Path) -> object:
        if (folder / "w.npy").exists():
            return import_npy(folder / "w.npy", packed, packed.models).answer_ranks(packed)
        return import_csv(folder / "w.csv", packed, "relation-direction").answer_ranks(packed)

    def seeds() -> Sequence[Files]:
        weights = search(packed, method="dsc")
        with TemporaryDirectory() as folder:
            export_npy(weights, Path(folder) / "w.npy")
            return [folder_files(Path(folder)), {"w.csv": export_csv(weights).encode()}]

    return Target("weight tables", seeds, read, (*NPY_TOKENS, b"1e308", b"4.9e-324", b"nan"))


@lru_cache(maxsize=1)
def _ring() -> Any:
    from relens.data.dataset import Dataset

    rows = [[f"e{i}", f"r{i % 2}", f"e{(i + 1) % 5}"] for i in range(5)]
    return Dataset.from_labels("ring", train=rows, valid=rows[:2], test=rows[2:4])


def _trained() -> Target:
    """A trained model, with its parameters."""
    import torch

    from relens.models import MODELS as BASE
    from relens.training.loop import TrainingResult
    from relens.training.settings import TrainSettings
    from relens.training.trained import TrainedModel, save_trained

    dataset = _ring()

    def read(folder: Path) -> object:
        trained = TrainedModel.open(folder)
        model = trained.load(dataset)
        with torch.no_grad():
            return model.score(model.encode(torch.tensor([0]), torch.tensor([1])))

    def write(name: str) -> dict[str, bytes]:
        settings = TrainSettings(name, {"dim": 4})
        model = BASE[name].build(5, 2, settings.options, torch.from_numpy(dataset.train.astype(np.int64)))
        torch.manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        result = TrainingResult(10, 10, 0.5, "steps")
        return written(lambda path: save_trained(model, settings, result, dataset, path))

    def seeds() -> Sequence[Files]:
        found = [write("transe"), write("complex")]
        return [*found, *map(unsealed, found)]

    def bombs() -> Mapping[str, Files]:
        old = unsealed(seeds()[0])
        content = old["model.safetensors"]
        record = json.loads(old["model.json"])
        found = {
            "a header of 2^63 bytes": {**old, "model.safetensors": b"\xff" * 7 + b"\x7f" + content[8:]},
            "a header of 100 MB": {**old, "model.safetensors": (10**8).to_bytes(8, "little") + content[8:]},
            "nested deep": {**old, "model.json": b'{"kind":' * 100_000},
            "a long integer": {**old, "model.json": b'{"format":' + b"9" * 4301 + b"}"},
            "an unknown setting": {**old, "model.json": json.dumps({**record, "settings": {"x" * 10**5: 1}}).encode()},
        }
        for options in ({"x": 1}, *({"dim": value} for value in (10**9, 2**40, 10**18, 10**400, -1, "4", None))):
            text = json.dumps({**record, "settings": {**record["settings"], "options": options}}).encode()
            found[str(options)[:20]] = {**old, "model.json": text}
        return found

    return Target("trained", seeds, read, (*JSON_TOKENS, b"F64", b"BF16", b"I8", b"F8_E4M3", b"BOOL"), bombs)


def _checkpoint() -> Target:
    """A checkpoint that a run resumes from."""
    import torch

    from relens.models import MODELS as BASE
    from relens.records import CHECKPOINT
    from relens.training.checkpoint import newest_checkpoint, save_checkpoint
    from relens.training.queries import TrainingQueries
    from relens.training.settings import TrainSettings
    from relens.training.state import TrainingState

    dataset = _ring()
    settings = TrainSettings("transe", {"dim": 4}, batch=4, negatives=2, schedule="plateau", steps=10, averaging=0.5)
    identity = {"settings": settings.as_dict(), "data": dataset.fingerprint}
    cpu = torch.device("cpu")

    def state() -> TrainingState:
        model = BASE["transe"].build(5, 2, settings.options)
        return TrainingState(
            model, TrainingQueries.from_triples(torch.from_numpy(dataset.train.copy()), 5, 2), settings
        )

    def read(folder: Path) -> object:
        checkpoint = newest_checkpoint(folder, identity, cpu)
        fresh = state()
        if checkpoint is not None:
            with CHECKPOINT.parsing("the checkpoint"):
                fresh.resume(checkpoint)
            fresh.advance()
        return fresh.step

    def write(folder: Path) -> None:
        folder.mkdir()
        begun = state()
        begun.advance()
        save_checkpoint(folder, begun.checkpoint(identity))

    def seeds() -> Sequence[Files]:
        files = written(write)
        return [files, unsealed(files)]

    return Target("checkpoint", seeds, read, JSON_TOKENS)


def _results() -> Target:
    """Evaluations, comparisons and learning curves of a run, as tables."""
    from relens.comparison import compare
    from relens.ensemble.learning_curves import Curve, curves_from_json, curves_to_json
    from relens.evaluation import PARTS
    from relens.files import read_json
    from relens.records import RUN
    from relens.runs import Run
    from relens.tables.results import breakdown_table, comparison_table, evaluation_table, spread_table

    packed = simulated()
    test = replace(packed, header=replace(packed.header, provenance=replace(packed.provenance, split="test")))

    def read(folder: Path) -> object:
        run = Run.open(folder)
        found: list[object] = []
        for path in (folder / "evaluations").glob("*.json"):
            evaluation = run.evaluation(path.stem.removesuffix("-test"))
            found += [evaluation_table(evaluation), *(breakdown_table(evaluation, part) for part in PARTS)]
        if run.comparison_path.is_file():
            comparison = run.comparison()
            found.append(comparison_table(comparison.evaluations))
            found.append(spread_table(comparison.spread, comparison.evaluations))
        if (folder / "curves.json").is_file():
            curves = curves_from_json(read_json(folder / "curves.json", "learning curves"), packed)
            found += [(curve.label, max(curve.seconds)) for curve in curves or ()]
        return [str(entry) for entry in found]

    def seeds() -> Sequence[Files]:
        compared = compare(packed, test, ["mean"])
        record = json.dumps(RUN.stamp({"name": "r", "dataset": "d"})).encode()
        curves = [Curve("dsc", "tpe", 50, 2, True, [0.0, 1.0], [0.5, 0.6])]
        contents = {
            "comparison.json": compared.to_json(),
            "evaluations/mean-test.json": compared.evaluations[-1].to_json(),
            "curves.json": curves_to_json(curves, packed),
        }
        return [{"run.json": record, name: json.dumps(value).encode()} for name, value in contents.items()]

    return Target("results", seeds, read, JSON_TOKENS)
