"""The tie rule is OGB's: ranks of tie-heavy scores agree with the evaluator of ogb 1.3.6."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from relens.data.queries import Queries
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import answer_ranks
from relens.metrics.hits import hits
from relens.metrics.mrr import mrr
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.packing import pack_ranks, pack_scores
from relens.packs.store import assemble
from relens.records import Provenance
from tests.ogb_package import metrics

QUERIES, NEGATIVES = 40, 500


@pytest.fixture(scope="module")
def ogb_metrics():
    return metrics()


def tied_scores(seed: int, levels: int, n_models: int) -> list[npt.NDArray[np.float64]]:
    """Draw whole scores from few levels, (Q, 501) per model, the answer's in column 0."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, levels, (QUERIES, 1 + NEGATIVES)).astype(np.float64) for _ in range(n_models)]


def pack(arrays: list[npt.NDArray[Any]], packer: Any, scales: npt.NDArray[np.float64] | None = None) -> PackedRanks:
    columns = np.zeros((5, QUERIES), dtype=np.int32)
    columns[4] = np.arange(QUERIES)
    models = tuple(f"m{i}" for i in range(len(arrays)))
    provenance = Provenance("biokg", "f00d", "test", candidates="sampled")
    header = PackHeader(models, ("r",), Queries.from_columns(columns), provenance, scales)
    options = {} if scales is None else {"gap_scales": scales}
    return assemble(header, [packer(arrays, np.zeros(QUERIES, dtype=np.int64), **options)])


def agree(packed: PackedRanks, weights: list[int], name: Any, expected: dict[str, npt.NDArray[Any]]) -> None:
    ranks = answer_ranks(packed, np.array(weights), input=INPUTS[name])
    assert np.array_equal((1 / ranks.realistic).astype(np.float32), expected["mrr_list"])
    assert mrr(ranks.realistic) == pytest.approx(float(expected["mrr_list"].astype(np.float64).mean()), rel=1e-6)
    for k in (1, 3, 10):
        assert hits(ranks.realistic, k) == pytest.approx(float(expected[f"hits@{k}_list"].mean()), abs=1e-6)


@pytest.mark.parametrize("levels", [1, 2, 7, 400])
def test_one_models_ranks_are_ogbs(ogb_metrics, levels):
    (scores,) = tied_scores(levels, levels, 1)
    expected = ogb_metrics(scores)
    if levels == 1:
        assert set(expected["mrr_list"].tolist()) == {np.float32(2 / (NEGATIVES + 2))}
    agree(pack([scores], pack_scores), [1], "rank", expected)
    # Ranks that repeat are compared like scores: the answer's place is the mean of its tied block.
    ranks = (levels - scores).astype(np.int64)
    agree(pack([ranks], pack_ranks), [3], "rank", expected)


@pytest.mark.parametrize(
    ("weights", "levels"), [([1, 1], 3), ([2, 1], 5), ([1, 1, 1], 2), ([3, 1, 2], 4), ([0, 5, 1], 6), ([1, 0, 0], 3)]
)
def test_an_ensembles_ranks_are_ogbs_of_the_weighted_sum(ogb_metrics, weights, levels):
    scores = tied_scores(sum(weights), levels, len(weights))
    combined = sum(weight * model for weight, model in zip(weights, scores, strict=True))
    packed = pack(scores, pack_scores, np.ones(len(weights)))
    agree(packed, weights, "score", ogb_metrics(combined))
    # The paper's form: the mean-rule rank of every candidate in every model, weighted and added; lower is better.
    doubled = [np.array([[_doubled(row, c) for c in range(len(row))] for row in model]) for model in scores]
    by_rank = -sum(weight * ranks for weight, ranks in zip(weights, doubled, strict=True))
    agree(packed, weights, "rank", ogb_metrics(by_rank))


def _doubled(row: npt.NDArray[np.float64], column: int) -> int:
    better, level = int((row > row[column]).sum()), int((row == row[column]).sum())
    return 2 * better + level + 1


def test_the_evaluator_is_the_real_one(ogb_metrics):
    scores = np.zeros((1, 1 + NEGATIVES))
    scores[0, 1:4] = 1.0
    assert ogb_metrics(scores)["mrr_list"].tolist() == [np.float32(1 / (1 + 3 + (NEGATIVES - 3) / 2))]
