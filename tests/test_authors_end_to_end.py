"""Rank files in the paper authors' layout, written with plain numpy, through the command line, against loops."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from relens.files import read_json

MODELS = ("ConvE", "RotatE", "TransE")
N_ENTITIES, N_RELATIONS = 40, 3
GRID = 2**20


def run(*arguments: object) -> str:
    command = [sys.executable, "-m", "relens", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class AuthorsFiles:
    """Triples and ranks of a small graph: interleaved in valid, in halves in test; ranks with repeats."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(7)
        self.folder = folder
        self.rows: dict[str, np.ndarray] = {}
        self.ranks: dict[tuple[str, str], np.ndarray] = {}
        (folder / "ranks" / "toy").mkdir(parents=True)
        (folder / "dataset" / "toy").mkdir(parents=True)
        for split, n in (("valid", 30), ("test", 24)):
            head, tail = rng.integers(0, N_ENTITIES, (2, n))
            relation = np.where(np.arange(n) < n // 2, 0, rng.integers(0, N_RELATIONS, n))
            forward = np.stack([head, relation, tail], axis=1)
            inverse = np.stack([tail, relation + N_RELATIONS, head], axis=1)
            rows = np.concatenate([forward, inverse])
            if split == "valid":
                rows = np.stack([forward, inverse], axis=1).reshape(-1, 3)
            self.rows[split] = rows
            np.save(folder / "dataset" / "toy" / f"{split}_triples.npy", rows)
            for i, model in enumerate(MODELS):
                scores = rng.integers(0, 25, (2 * n, N_ENTITIES))
                good = (rows[:, 1] % N_RELATIONS == i) & (rng.random(2 * n) < 0.8)
                scores[good, rows[good, 2]] += 20
                # Competition ranks: repeats are allowed in these files.
                ranks = 1 + (scores[:, :, None] < scores[:, None, :]).sum(axis=2)
                self.ranks[model, split] = ranks
                np.save(folder / "ranks" / "toy" / f"{model}_{split}_ranks.npy", ranks.astype(np.int32))

    def reciprocal_ranks(self, split: str, weights_of: "dict[int, list[int]] | list[int]") -> list[float]:
        """Rank every answer by obvious loops; ``weights_of`` is one vector, or one per directed relation id."""
        found = []
        for q, (_, relation, answer) in enumerate(self.rows[split].tolist()):
            weights = weights_of[relation] if isinstance(weights_of, dict) else weights_of
            ranks = [self.ranks[model, split][q].tolist() for model in MODELS]
            total = [sum(w * r[e] for w, r in zip(weights, ranks, strict=True)) for e in range(N_ENTITIES)]
            ahead = sum(value < total[answer] for value in total)
            tied = sum(value == total[answer] for value in total) - 1
            found.append(1 / (1 + ahead + tied / 2))
        return found

    def mrr(self, split: str, weights_of: "dict[int, list[int]] | list[int]") -> float:
        values = self.reciprocal_ranks(split, weights_of)
        return sum(values) / len(values)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> AuthorsFiles:
    return AuthorsFiles(tmp_path_factory.mktemp("authors"))


@pytest.fixture(scope="module")
def imported(files: AuthorsFiles) -> Path:
    path = files.folder / "run"
    run("ranks", "import", files.folder, "--layout", "authors", "--run", path)
    return path


def one_hot(i: int) -> list[int]:
    return [int(j == i) for j in range(len(MODELS))]


def directed_weights(path: Path) -> dict[int, list[int]]:
    """Read a weights file without relens: the vector of each directed relation id."""
    value = read_json(path, "record")
    assert value["models"] == list(MODELS)
    vectors = {}
    for entry in value["relations"]:
        for shift, direction in ((0, "tail"), (N_RELATIONS, "head")):
            group = value["groups"].get(entry[direction])
            weights = group["weights"] if group else value["fallback"]
            vectors[int(entry["relation"]) + shift] = [weights[model] for model in MODELS]
    return vectors


def test_compare_gives_the_oracles_numbers(files: AuthorsFiles, imported: Path) -> None:
    compared = json.loads(run("compare", imported, "mean", "mrr-mean", "--json"))
    found = {evaluation["name"]: evaluation["overall"]["mrr"] for evaluation in compared["evaluations"]}
    for i, model in enumerate(MODELS):
        assert found[model] == pytest.approx(files.mrr("test", one_hot(i)), abs=1e-12)
    assert found["mean"] == pytest.approx(files.mrr("test", [1, 1, 1]), abs=1e-12)
    valid = [files.mrr("valid", one_hot(i)) for i in range(len(MODELS))]
    assert compared["best_single"] == MODELS[int(np.argmax(valid))]
    weights = [round(value / max(valid) * GRID) for value in valid]
    assert found["mrr-mean"] == pytest.approx(files.mrr("test", weights), abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [["--regularise", "none", "--input", "rank"], ["--input", "rank"], ["--method", "simple", "--input", "rank"]],
)
def test_search_and_evaluate_give_the_oracles_numbers(files: AuthorsFiles, imported: Path, options: list[str]) -> None:
    searched = json.loads(run("search", imported, "--name", "mine", *options, "--json"))
    vectors = directed_weights(Path(searched["weights"]))
    assert searched["validation"]["mrr"] == pytest.approx(files.mrr("valid", vectors), abs=1e-12)
    for split in ("valid", "test"):
        evaluated = json.loads(run("evaluate", imported, "--weights", "mine", "--split", split, "--json"))
        values = files.reciprocal_ranks(split, vectors)
        assert evaluated["overall"]["mrr"] == pytest.approx(sum(values) / len(values), abs=1e-12)
        assert evaluated["overall"]["hits_at_1"] == pytest.approx(np.mean([v >= 1 for v in values]), abs=1e-12)
        assert evaluated["overall"]["hits_at_10"] == pytest.approx(np.mean([v >= 0.1 for v in values]), abs=1e-12)
        relations = files.rows[split][:, 1]
        for relation in range(N_RELATIONS):
            for shift, direction in ((0, "tail"), (N_RELATIONS, "head")):
                group = [v for v, r in zip(values, relations, strict=True) if r == relation + shift]
                if group and options[-1] != "simple":
                    label = f"{relation} [{direction}]"
                    assert evaluated["by_group"][label]["mrr"] == pytest.approx(np.mean(group), abs=1e-12)


def test_search_beats_every_baseline_on_validation(files: AuthorsFiles, imported: Path) -> None:
    searched = json.loads(run("search", imported, "--regularise", "none", "--input", "rank", "--json"))
    assert searched["validation"]["mrr"] >= files.mrr("valid", [1, 1, 1])
    assert searched["validation"]["mrr"] >= max(files.mrr("valid", one_hot(i)) for i in range(len(MODELS)))


def test_the_authors_weight_table_comes_and_goes(files: AuthorsFiles, imported: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = rng.random((2 * N_RELATIONS, len(MODELS)))
    np.save(tmp_path / "theirs.npy", table)
    run("weights", "import", imported, tmp_path / "theirs.npy", "--force")
    grid = np.rint(table / table.max(axis=1, keepdims=True) * GRID).astype(int)
    vectors = {relation: grid[relation].tolist() for relation in range(2 * N_RELATIONS)}
    evaluated = json.loads(run("evaluate", imported, "--weights", "theirs", "--json"))
    assert evaluated["overall"]["mrr"] == pytest.approx(files.mrr("test", vectors), abs=1e-12)
    run("weights", "export", imported, "--weights", "theirs", "-o", tmp_path / "ours.npy")
    exported = np.load(tmp_path / "ours.npy", allow_pickle=False)
    np.testing.assert_allclose(exported, table / table.sum(axis=1, keepdims=True), atol=1e-6)
