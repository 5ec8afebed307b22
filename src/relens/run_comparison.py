"""Comparison of two runs: their ensembles on the same queries, paired query by query."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from relens.ensemble.weights import EnsembleWeights
from relens.errors import RanksError
from relens.evaluation import Evaluation, NamedRanks, evaluate_ranks
from relens.packs.pack import PackedRanks
from relens.ranking.answer_ranks import AnswerRanks
from relens.runs import Run, open_run
from relens.significance import PairedTest, paired_test

_SAME_QUERIES = ("fingerprint", "split", "filter_splits", "candidates")
"""Fields of ``Provenance`` in which two runs must agree: the rest, such as the name of a folder, may differ."""


@dataclass(frozen=True)
class RunComparison:
    """The ensembles of two runs on the same queries.

    Attributes:
        ours: the evaluation of the first run, with a paired test against the second.
        theirs: the evaluation of the second run.
        by_relation: a paired test for each relation with queries, by label.
    """

    ours: Evaluation
    theirs: Evaluation
    by_relation: Mapping[str, PairedTest]

    def to_json(self) -> dict[str, Any]:
        """Return both evaluations and the tests as plain JSON values."""
        return {
            "ours": self.ours.to_json(),
            "theirs": self.theirs.to_json(),
            "by_relation": {label: asdict(test) for label, test in self.by_relation.items()},
        }


@dataclass(frozen=True)
class _Contender:
    """An ensemble with the ranks that it gives the answers of a split."""

    name: str
    packed: PackedRanks
    weights: EnsembleWeights
    ranks: AnswerRanks

    @classmethod
    def load(cls, run: Run, weights_name: str | None, split: str, jobs: int) -> Self:
        chosen = run.choose_weights(weights_name)
        weights, packed = run.weights(chosen), run.ranks(split)
        if set(weights.models) < set(packed.models):
            packed = packed.select_models(weights.models)
        return cls(f"{run.path}, {chosen}", packed, weights, weights.answer_ranks(packed, jobs=jobs))

    def named(self, order: npt.NDArray[np.int64] | slice = slice(None)) -> NamedRanks:
        """Return the ranks in the order of other queries."""
        settings = {key: value for key, value in self.weights.settings.items() if key != "cross_validation"}
        return NamedRanks(self.name, self.ranks[order], settings)


def compare_runs(
    run: Run | Path | str,
    other: Run | Path | str,
    *,
    weights: str | None = None,
    other_weights: str | None = None,
    split: str = "test",
    seed: int = 0,
    jobs: int = 1,
) -> RunComparison:
    """Compare the ensembles of two runs on the same queries, overall and by relation.

    Both runs must have ranks of the same data set, split, filter and candidates. Their queries may be in different
    orders: a query is paired with the query of the same anchor, relation, direction and answer.

    Args:
        run: the first run, or its path.
        other: the run to compare it with, or its path.
        weights: the name of the weights of both runs; None for ``dsc``, or the only ones there are.
        other_weights: the name of the other run's weights, if it differs.
        split: the split to compare on.
        seed: seed of the resampling.
        jobs: number of threads.

    For example::

        found = relens.compare_runs("runs/patterns", "runs/patterns", weights="dsc", other_weights="simple")
        print(found.ours.paired.difference, found.ours.paired.interval)
    """
    ours = _Contender.load(open_run(run), weights, split, jobs)
    theirs = _Contender.load(open_run(other), other_weights or weights, split, jobs)
    _check_same_queries(ours, theirs)
    base, packed = theirs.named(_matching(ours, theirs)), ours.packed
    return RunComparison(
        ours=evaluate_ranks(ours.named(), packed, ours.weights.grouping, reference=base, seed=seed),
        theirs=evaluate_ranks(theirs.named(), theirs.packed, theirs.weights.grouping, seed=seed),
        by_relation=_tests_by_relation(ours.named(), base, packed, seed),
    )


def _check_same_queries(ours: _Contender, theirs: _Contender) -> None:
    """Raise an error for ranks of another data set, split, filter or other candidates."""
    mine, other = (asdict(contender.packed.provenance) for contender in (ours, theirs))
    different = [name for name in _SAME_QUERIES if mine[name] != other[name]]
    if different:
        shown = "; ".join(f"{name} {_shown(mine[name])} and {_shown(other[name])}" for name in different)
        raise RanksError(
            f"{ours.name} and {theirs.name} cannot be compared, because their ranks differ ({shown}): expected the "
            f"same data set, split, filter and candidates. Rank both alike, then search again."
        )


def _shown(value: Any) -> str:
    return repr("+".join(value) if isinstance(value, tuple) else value)


def _matching(ours: _Contender, theirs: _Contender) -> npt.NDArray[np.int64]:
    """Return the position of each of our queries among theirs, (Q,); repeated queries are paired in order."""
    mine, other = _keys(ours.packed, theirs.packed), _keys(theirs.packed, theirs.packed)
    order, other_order = np.lexsort(mine[::-1]), np.lexsort(other[::-1])
    if mine.shape != other.shape or (mine[:, order] != other[:, other_order]).any():
        raise RanksError(
            f"{ours.name} and {theirs.name} cannot be compared: they have {mine.shape[1]:,} and {other.shape[1]:,} "
            f"queries, and not the same ones. Rank all queries of the split in both runs."
        )
    positions = np.empty(len(order), dtype=np.int64)
    positions[order] = other_order
    return positions


def _keys(packed: PackedRanks, numbering: PackedRanks) -> npt.NDArray[np.int64]:
    """Return relation, anchor, direction and answer of each query, (4, Q), relations by the ids of ``numbering``."""
    id_of = {label: number for number, label in enumerate(numbering.relations)}
    relation_of = np.array([id_of.get(label, -1) for label in packed.relations], dtype=np.int64)
    queries = packed.queries
    return np.stack([relation_of[queries.relation], queries.anchor, queries.direction, queries.answer]).astype(np.int64)


def _tests_by_relation(ours: NamedRanks, base: NamedRanks, packed: PackedRanks, seed: int) -> dict[str, PairedTest]:
    """Return a paired test for each relation with queries, by label."""
    relation = packed.queries.relation
    order = np.argsort(relation, kind="stable")
    present, begins = np.unique(relation[order], return_index=True)
    mine, other, triple = ours.reciprocal, base.reciprocal, packed.queries.triple
    return {
        packed.relations[number]: paired_test(mine[at], other[at], triple[at], reference=base.name, seed=seed)
        for number, at in zip(present, np.split(order, begins[1:]), strict=True)
    }
