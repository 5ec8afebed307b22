"""Ranks among sampled candidates: those of obvious loops, and of OGB's evaluator."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.candidates import PADDING, Candidates  # noqa: E402
from relens.data.dataset import Dataset  # noqa: E402
from relens.data.negatives import sample_negatives  # noqa: E402
from relens.data.ogb import read_ogb  # noqa: E402
from relens.ensemble.objective import answer_ranks  # noqa: E402
from relens.ensemble.search import search  # noqa: E402
from relens.evaluation import evaluate, model_ranks  # noqa: E402
from relens.importers.scorers import pack_scorers  # noqa: E402
from relens.metrics.mrr import mrr  # noqa: E402
from relens.models import MODELS  # noqa: E402
from relens.packs.export import Ranker  # noqa: E402
from relens.packs.pack import PackedRanks  # noqa: E402
from relens.ranking.scoring import ModelScorer, score_queries  # noqa: E402
from relens.tables.results import comparison_table, evaluation_table  # noqa: E402
from tests.data.test_negatives import graph  # noqa: E402
from tests.ogb_files import write_biokg  # noqa: E402
from tests.ogb_package import metrics  # noqa: E402

NAMES = ("transe", "complex", "rotate")


def models(dataset: Dataset, names=NAMES, dim: int = 8) -> dict:
    triples = torch.from_numpy(np.array(dataset.train)).long()
    built = {}
    for seed, name in enumerate(names):
        options = {"dim": dim} if name in NAMES else {}
        built[name] = MODELS[name].build(len(dataset.entities), len(dataset.relations), options, triples)
        built[name].initialise("norm", torch.Generator().manual_seed(seed))
    return built


def sampled(per_query: int, dataset: Dataset | None = None) -> Dataset:
    dataset = dataset or graph()
    return replace(dataset, candidates=sample_negatives(dataset, per_query))


def wide_graph() -> Dataset:
    """A graph with so many entities that each query has 500 negatives."""
    rng = np.random.default_rng(0)
    drawn = [
        (f"e{h}", f"r{r}", f"e{t}") for h, r, t in zip(*rng.integers(0, [[640], [2], [640]], (3, 40)), strict=True)
    ]
    chain = [(f"e{i}", "r0", f"e{i + 1}") for i in range(640)]
    return Dataset.from_labels("wide", train=chain, valid=drawn[:10], test=drawn[10:])


def doubled_rank(scores: list[float], at: int) -> int:
    """Return twice the mean of the best and the worst rank of a score."""
    return 2 * sum(s > scores[at] for s in scores) + sum(s == scores[at] for s in scores) + 1


def check(packed: PackedRanks, dataset: Dataset, split: str, scores: npt.NDArray[np.float32]) -> None:
    """Compare a pack with loops over each query's own candidates, given scores (N, Q, E)."""
    queries, negatives = dataset.queries(split), dataset.candidates[split].negatives
    for q in range(len(queries)):
        chosen = [int(queries.answer[q]), *(e for e in negatives[q].tolist() if e != PADDING)]
        rows = [[float(model[q, e]) for e in chosen] for model in scores]
        assert packed.n_candidates[q] == len(chosen)
        assert packed.answer[:, q].tolist() == [doubled_rank(row, 0) for row in rows]
        ahead = [all(row[c] > row[0] for row in rows) for c in range(len(chosen))]
        behind = [all(row[c] < row[0] for row in rows) for c in range(len(chosen))]
        contested = [c for c in range(1, len(chosen)) if not ahead[c] and not behind[c]]
        assert packed.always_ahead[q] == sum(ahead)
        found = packed.contested[:, packed.offsets[q] : packed.offsets[q + 1]]
        assert found.tolist() == [[doubled_rank(row, c) for c in contested] for row in rows]
    assert packed.provenance.candidates == "sampled"


def own_scores(built: dict, dataset: Dataset, split: str) -> npt.NDArray[np.float32]:
    """Return the scores (N, Q, E) as the ranker computes them: entity e of query q at [:, q, e]."""
    queries, candidates = dataset.queries(split), dataset.candidates[split]
    columns = candidates.columns(slice(None), queries.answer)
    scores = np.full((len(built), len(queries), len(dataset.entities)), np.nan, dtype=np.float32)
    for i, model in enumerate(built.values()):
        np.put_along_axis(scores[i], columns, score_queries(model.eval(), queries, columns).numpy(), axis=1)
    return scores


@pytest.mark.parametrize("per_query", [1, 7, 22])
@pytest.mark.parametrize("budget", [1, 2**30])
def test_models_are_ranked_among_their_candidates_only(tmp_path, per_query, budget):
    dataset = sampled(per_query)
    built = models(dataset)
    ranker = Ranker(built, dataset, memory_budget=budget)
    scales = ranker.fit_scales()
    for split in ("valid", "test"):
        packed = ranker.pack(split, tmp_path / split, scales)
        check(packed, dataset, split, own_scores(built, dataset, split))
        assert packed.provenance.filter_splits == ("train", "valid", "test")
        assert packed.gaps is not None
    assert "known" not in vars(ranker), "known answers are not needed, and would take memory"
    if per_query == 22:
        assert len(set(packed.n_candidates.tolist())) > 1, "some queries have fewer candidates"


@pytest.mark.parametrize("name", [name for name in MODELS if name != "house"])
def test_scores_of_chosen_entities_are_those_of_all(name):
    dataset = sampled(9)
    (model,) = models(dataset, [name]).values()
    queries = dataset.queries("test")
    columns = dataset.candidates["test"].columns(slice(None), queries.answer)
    every = score_queries(model.eval(), queries).numpy()
    chosen = score_queries(model, queries, columns).numpy()
    np.testing.assert_allclose(chosen, np.take_along_axis(every, columns, axis=1), rtol=1e-4, atol=1e-5)


def test_scores_do_not_depend_on_what_else_is_asked():
    dataset = sampled(9)
    (model,) = models(dataset, ["complex"]).values()
    queries = dataset.queries("test")
    columns = dataset.candidates["test"].columns(slice(None), queries.answer)
    together = score_queries(model.eval(), queries, columns)
    for q in range(len(queries)):
        assert torch.equal(score_queries(model, queries[q : q + 1], columns[q : q + 1])[0], together[q])


@pytest.mark.parametrize("budget", [1, 2**30])
def test_anything_that_scores_is_ranked_among_the_candidates(tmp_path, budget):
    dataset = sampled(22)
    built = models(dataset)
    scorers = {name: ModelScorer(model) for name, model in built.items()}
    packs = pack_scorers(scorers, dataset, tmp_path, memory_budget=budget)
    for split, packed in packs.items():
        queries = dataset.queries(split)
        check(packed, dataset, split, np.stack([scorer.score(queries) for scorer in scorers.values()]))


def test_gap_scales_ignore_entities_that_are_no_candidates(tmp_path):
    short = sampled(22)
    built = models(short)
    blank = replace(
        short,
        candidates={
            split: Candidates(np.pad(c.negatives, ((0, 0), (0, 50)), constant_values=PADDING), c.source)
            for split, c in short.candidates.items()
        },
    )
    np.testing.assert_allclose(Ranker(built, blank).fit_scales(), Ranker(built, short).fit_scales(), rtol=1e-6)
    scorers = {name: ModelScorer(model) for name, model in built.items()}
    found = [pack_scorers(scorers, d, tmp_path / n)["valid"].gap_scales for n, d in (("a", short), ("b", blank))]
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_the_evaluation_is_ogbs(tmp_path):
    """Ranks of trained models, alone and weighted, among 500 negatives: as ogb 1.3.6 evaluates the same scores."""
    of = metrics()
    dataset = sampled(500, wide_graph())
    assert dataset.candidates["test"].negatives.min() >= 0
    built = models(dataset)
    for model in built.values():  # few distinct values, so that scores tie
        for table in (model.entity, model.relation):
            table.data = table.data.sign()
    ranker = Ranker(built, dataset)
    packed = ranker.pack("test", tmp_path / "test", None)
    queries = dataset.queries("test")
    columns = dataset.candidates["test"].columns(slice(None), queries.answer)
    by_model = []
    for name, model in built.items():
        scores = score_queries(model.eval(), queries, columns).numpy()
        ranks = model_ranks(packed, name)
        assert np.array_equal((1 / ranks.realistic).astype(np.float32), of(scores)["mrr_list"])
        # OGB averages the tail and the head queries: as many of each.
        halves = [of(scores[direction::2])["mrr_list"].astype(np.float64).mean() for direction in (0, 1)]
        assert mrr(ranks.realistic) == pytest.approx(np.mean(halves), rel=1e-6)
        assert (ranks.optimistic < ranks.pessimistic).any(), "there are ties"
        by_model.append([[doubled_rank(row, c) for c in range(len(row))] for row in scores.tolist()])
    weights = np.array([3, 1, 2])
    summed = -(weights[:, None, None] * np.array(by_model)).sum(axis=0).astype(np.float64)
    found = answer_ranks(packed, weights)
    assert np.array_equal((1 / found.realistic).astype(np.float32), of(summed)["mrr_list"])


def test_the_answer_among_kept_negatives_counts_as_ogb_counts_it(tmp_path):
    of = metrics()
    dataset = sampled(500, wide_graph())
    negatives = np.array(dataset.candidates["test"].negatives)
    answer = dataset.queries("test").answer
    negatives[0, :3] = answer[0]
    negatives[1, :9] = negatives[1, 9]
    repeated = {**dataset.candidates, "test": Candidates(negatives, "OGB's")}
    dataset = replace(dataset, candidates=repeated)
    (model,) = (built := models(dataset, ["complex"])).values()
    packed = Ranker(built, dataset).pack("test", tmp_path / "test", None)
    columns = dataset.candidates["test"].columns(slice(None), answer)
    scores = score_queries(model.eval(), dataset.queries("test"), columns).numpy()
    ranks = model_ranks(packed, "complex").realistic
    assert np.array_equal((1 / ranks).astype(np.float32), of(scores)["mrr_list"])
    assert ranks[0] == 1 + (scores[0] > scores[0, 0]).sum() + 1.5


def test_ogbs_files_are_ranked_end_to_end_and_tables_say_so(tmp_path):
    dataset = read_ogb(write_biokg(tmp_path))
    built = models(dataset)
    packed = Ranker(built, dataset).pack("test", tmp_path / "test", None)
    check(packed, dataset, "test", own_scores(built, dataset, "test"))
    assert packed.provenance.filter_splits == ()
    assert set(packed.n_candidates.tolist()) == {5}
    found = evaluate(packed, search(packed, method="mean"))
    assert "candidates: sampled" in comparison_table([found]).to_text(200)
    assert "candidates: sampled" in evaluation_table(found).to_text(200)
    assert found.to_json()["provenance"]["candidates"] == "sampled"
