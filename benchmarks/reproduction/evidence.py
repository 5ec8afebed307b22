"""The records of the runs in docs/reproduction.md, docs/strong.md and docs/ogb.md, and the figures of the paper."""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.ranking.answer_ranks import AnswerRanks

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results/reproduction"
DATASETS = {"wn18rr": "WN18RR", "fb15k-237": "FB15k-237", "nell-995": "NELL-995"}
SIX = {
    "transe": "TransE", "rotate": "RotatE", "house": "HousE",
    "complex": "ComplEx", "conve": "ConvE", "compgcn": "CompGCN",
}  # fmt: skip
LEADERBOARD = {"autoblm": "AutoBLM", "complex-rp": "ComplEx-RP", "triplere": "TripleRE"}
PROTOCOLS = {"full": "all entities", "sampled": "501 candidates"}
SIMPLE_AS_PUBLISHED, DSC_AS_PUBLISHED = "simple:input=rank", "dsc:input=rank,regularise=none"
METRICS = ("mrr", "hits_at_1", "hits_at_3", "hits_at_10")


@cache
def load(name: str) -> dict[str, Any]:
    """Return the report ``docs/results/NAME.json``."""
    found: dict[str, Any] = json.loads((ROOT / f"docs/results/{name}.json").read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Evidence:
    """The files of one data set below ``RESULTS``, as the commands of docs/reproduction.md wrote them."""

    dataset: str

    @property
    def title(self) -> str:
        """The name of the data set in texts."""
        return DATASETS[self.dataset]

    @cached_property
    def paper(self) -> dict[str, Any]:
        """The paper's figures: MRR, Hit@1, Hit@3 and Hit@10 of each model and method."""
        figures: dict[str, Any] = json.loads((Path(__file__).parent / "paper.json").read_text())[self.dataset]
        return figures

    @cached_property
    def six(self) -> dict[str, Any]:
        """The record of the paper's six models and their ensembles."""
        return self._json("six")

    @cached_property
    def members(self) -> dict[str, Any]:
        """The record with further members."""
        return self._json("members")

    @cached_property
    def searches(self) -> dict[str, Any]:
        """The searches on reduced ranks, by name."""
        found: dict[str, Any] = self._json("searches")["searches"]
        return found

    @cached_property
    def curves(self) -> list[dict[str, Any]]:
        """The learning curves of the searches."""
        found: list[dict[str, Any]] = self._json("curves")["curves"]
        return found

    @cached_property
    def ranks(self) -> "Ranks":
        """Test ranks of the six models and their ensembles."""
        return Ranks.read(RESULTS / self.dataset / "six.npz")

    @cached_property
    def member_ranks(self) -> "Ranks":
        """Test ranks of the ensembles of all members."""
        return Ranks.read(RESULTS / self.dataset / "members.npz")

    def test(self, name: str) -> dict[str, float]:
        """Return the recorded test metrics of one of the six models, or of an ensemble of them."""
        entry: dict[str, Any] = self.six["models"].get(name) or self.six["methods"][name]
        metrics: dict[str, float] = entry["test"]
        return metrics

    def _json(self, name: str) -> dict[str, Any]:
        return load(f"reproduction/{self.dataset}/{name}")


@dataclass(frozen=True)
class Ranks:
    """The rank of every answer by every model and method.

    Attributes:
        by_name: ranks of the answers, (Q,), by model or method.
        relation, direction, triple: ids of each query, (Q,).
        relations: labels of the relations.
    """

    by_name: dict[str, AnswerRanks]
    relation: npt.NDArray[np.int32]
    direction: npt.NDArray[np.int32]
    triple: npt.NDArray[np.int32]
    relations: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "Ranks":
        """Read a file of ``benchmarks/record_run.py``."""
        with np.load(path, allow_pickle=False) as file:
            counts = zip(file["ahead"].astype(np.int64), file["tied"].astype(np.int64), strict=True)
            by_name = {name: AnswerRanks(*pair) for name, pair in zip(file["names"].tolist(), counts, strict=True)}
            return cls(by_name, file["relation"], file["direction"], file["triple"], tuple(file["relations"].tolist()))

    def reciprocal(self, name: str) -> npt.NDArray[np.float64]:
        """Return the reciprocal rank of every answer, (Q,)."""
        return 1.0 / self.by_name[name].realistic

    def by_relation(self, name: str) -> dict[str, float]:
        """Return the MRR of every relation that has queries, both directions together."""
        sums = np.bincount(self.relation, self.reciprocal(name), len(self.relations))
        counts = np.bincount(self.relation, minlength=len(self.relations))
        return {label: float(sums[r] / counts[r]) for r, label in enumerate(self.relations) if counts[r]}


@dataclass(frozen=True)
class Leaderboard:
    """The results of ``leaderboard.sh``: models of ogbl-biokg's leaderboard on FB15k-237, by one of ``PROTOCOLS``."""

    protocol: str

    @cached_property
    def record(self) -> dict[str, Any]:
        """The training of the models, and the metrics of the models and their ensembles."""
        return load(f"leaderboard/{self.protocol}")

    @cached_property
    def ranks(self) -> "Ranks":
        """Test ranks of models and methods."""
        return Ranks.read(RESULTS.parent / f"leaderboard/{self.protocol}.npz")


@dataclass(frozen=True)
class Strong:
    """The results of ``strong.sh`` on one data set: a file of records and one of ranks for each seed."""

    dataset: str

    @property
    def title(self) -> str:
        """The name of the data set in texts."""
        return DATASETS[self.dataset]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that were run, ascending; empty before the first run."""
        return tuple(sorted(int(path.stem.removeprefix("seed-")) for path in self._folder.glob("seed-*.json")))

    def record(self, seed: int) -> dict[str, Any]:
        """Return the training of the members, and the metrics of members and ensembles."""
        return load(f"strong/{self.dataset}/seed-{seed}")

    def ranks(self, seed: int) -> "Ranks":
        """Return the test ranks of members and ensembles."""
        return Ranks.read(self._folder / f"seed-{seed}.npz")

    def mrrs(self, method: str) -> list[float]:
        """Return the test MRR of an ensemble for each seed."""
        return [self.record(seed)["methods"][method]["test"]["mrr"] for seed in self.seeds]

    def best_single(self) -> list[float]:
        """Return for each seed the test MRR of the member that is best on validation."""
        members = [self.record(seed)["models"].values() for seed in self.seeds]
        return [max(found, key=lambda member: member["best_mrr"])["test"]["mrr"] for found in members]

    @property
    def _folder(self) -> Path:
        return ROOT / "docs/results/strong" / self.dataset


EVERY = tuple(Evidence(name) for name in DATASETS)
"""All data sets, in the order of the paper."""
STRONG = tuple(Strong(name) for name in DATASETS)
"""The strong ensembles, in the same order."""
