"""A tiny run of simulated models beside their dense ranks, and its numbers by loops over them."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from relens.packs.pack import PackedRanks
from relens.packs.simulation import BLOCK, Simulation
from relens.packs.store import save_pack
from relens.runs import Run
from tests import oracles

SIMULATION = Simulation(
    ("alpha", "beta", "gamma"), (3, 6, 9, 12), 30, level=(1.2, 1.0), skill=0.8, noise=0.5, agreement=0.3, seed=36
)
"""60 queries a split; of the three models, others lead in other relations."""

GroupOf = Callable[[int, int], str]


@lru_cache
def packed(split: str, *, gaps: bool = True) -> PackedRanks:
    """Return the packed ranks of SIMULATION."""
    return SIMULATION.packed(split, gaps=gaps)


def write_run(path: Path, valid: PackedRanks | None = None, test: PackedRanks | None = None) -> Path:
    """Write a run of the given ranks, or of SIMULATION's."""
    with Run.receive_ranks(path, "simulated") as folder:
        save_pack(valid or packed("valid"), folder / "valid")
        save_pack(test or packed("test"), folder / "test")
    return path


@lru_cache
def dense(split: str) -> list[tuple[int, int, int, list[list[int]]]]:
    """Return (relation, direction, answer, doubled ranks of all candidates by model) of each query of SIMULATION."""
    queries = SIMULATION.queries(split)
    rows = []
    for q in range(len(queries)):
        scores = SIMULATION.scores(queries, split, q // BLOCK)[:, q % BLOCK].tolist()
        ranks = [[int(2 * oracles.mean_rank(row, j)) for j in range(len(row))] for row in scores]
        rows.append((int(queries.relation[q]), int(queries.direction[q]), int(queries.answer[q]), ranks))
    return rows


def ranks_by_loop(split: str, weights: Callable[[int, int], Sequence[int]]) -> list[Fraction]:
    """Return the realistic rank of each answer under the weights of its relation and direction, by loops."""
    return [
        oracles.tie_rules(*oracles.ensemble_rank(ranks, answer, weights(relation, direction)))["realistic"]
        for relation, direction, answer, ranks in dense(split)
    ]


def mrr_by_loop(split: str, weights: Callable[[int, int], Sequence[int]]) -> float:
    """Return the MRR under the weights of each relation and direction, by loops."""
    ranks = ranks_by_loop(split, weights)
    return float(sum(1 / rank for rank in ranks) / len(ranks))


def model_mrr_by_loop(split: str, model: str) -> float:
    """Return one model's MRR, by loops."""
    one_hot = [int(name == model) for name in SIMULATION.models]
    return mrr_by_loop(split, lambda relation, direction: one_hot)


def weights_of(value: dict) -> Callable[[int, int], Sequence[int]]:
    """Return the weights of a relation and direction that a weights file (as JSON) holds."""

    def look_up(relation: int, direction: int) -> list[int]:
        entry = value["relations"][relation]
        group = value["groups"].get(entry[("tail", "head")[direction]])
        by_model = group["weights"] if group else value["fallback"]
        return [by_model.get(name, 0) for name in SIMULATION.models]

    return look_up
