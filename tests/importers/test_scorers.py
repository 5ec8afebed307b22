"""Anything that can score is packed like the matrix of its scores, and what it does wrong is named."""

import re
from pathlib import Path

import numpy as np
import pytest

from relens.data.dataset import Dataset
from relens.data.known_answers import KnownAnswers
from relens.errors import MemberError, RanksError
from relens.evaluation import model_ranks
from relens.importers.scorers import pack_scorers
from relens.metrics.mrr import mrr
from relens.packs.pack import PackHeader
from relens.packs.packing import pack_scores
from relens.ranking.scorers import CheckedScorer
from relens.runs import Run

DATASET = Dataset.from_labels(
    "tiny",
    train=[(f"e{i}", f"r{i % 3}", f"e{(3 * i + 1) % 9}") for i in range(18)],
    valid=[("e0", "r0", "e5"), ("e3", "r1", "e2"), ("e4", "r2", "e4")],
    test=[("e1", "r0", "e7"), ("e8", "r2", "e0")],
)
N_ENTITIES, N_RELATIONS = len(DATASET.entities), len(DATASET.relations)
KNOWN = KnownAnswers.build(DATASET.splits.values(), N_ENTITIES, N_RELATIONS)


class Table:
    """Scores by anchor, relation and direction; a few distinct ones, so that many tie."""

    def __init__(self, seed: int, dtype: str = "float32") -> None:
        shape = N_ENTITIES, N_RELATIONS, 2, N_ENTITIES
        self.scores = (np.random.default_rng(seed).integers(-3, 4, shape) / 2).astype(dtype)
        self.asked: list[int] = []

    def score(self, queries):
        self.asked.append(len(queries))
        return self.scores[queries.anchor, queries.relation, queries.direction]


class Wrong:
    """Gives what it is told for the queries of test, and zeros before."""

    def __init__(self, spoil) -> None:
        self.spoil = spoil

    def score(self, queries):
        zeros = np.zeros((len(queries), N_ENTITIES))
        return self.spoil(zeros) if queries.anchor[0] == DATASET.entities.id_of("e1") else zeros


@pytest.mark.parametrize("memory", [1, 2**30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scorers_are_packed_like_their_scores(tmp_path, memory, dtype):
    scorers = {"mine": Table(0, dtype), "other": Table(1)}
    packs = pack_scorers(scorers, DATASET, tmp_path, memory_budget=memory)
    assert set(packs) == {"valid", "test"}
    for split, packed in packs.items():
        queries = DATASET.queries(split)
        scores = [scorer.score(queries) for scorer in scorers.values()]
        expected = pack_scores(scores, queries.answer, KNOWN.other_answers(queries), packs["valid"].gap_scales)
        assert packed.models == ("mine", "other")
        for name in ("answer", "n_candidates", "always_ahead", "contested", "gaps"):
            np.testing.assert_array_equal(getattr(packed, name), getattr(expected, name), err_msg=name)
        assert packed.provenance.fingerprint == DATASET.fingerprint
        assert packed.provenance.filter_splits == ("train", "valid", "test")
    asked = [n for n in scorers["mine"].asked if n not in (4, 6)]  # those of this test
    assert asked, "relens asked"
    assert set(asked) == {64}, "all batches have one shape"


def test_the_mrr_is_that_of_obvious_loops(tmp_path):
    scorer = Table(2)
    packed = pack_scorers({"mine": scorer}, DATASET, tmp_path, gaps=False)["test"]
    assert packed.gaps is None
    facts = {tuple(row) for split in DATASET.splits.values() for row in split.tolist()}
    found = []
    queries = DATASET.queries("test")
    for anchor, relation, direction, answer, _ in queries.columns().T.tolist():
        triple = (
            (lambda e, a=anchor, r=relation: (a, r, e))
            if direction == 0
            else (lambda e, a=anchor, r=relation: (e, r, a))
        )
        others = [e for e in range(N_ENTITIES) if e == answer or triple(e) not in facts]
        row = scorer.scores[anchor, relation, direction]
        better = sum(row[e] > row[answer] for e in others)
        equal = sum(row[e] == row[answer] for e in others)
        found.append(1 + better + (equal - 1) / 2)
    np.testing.assert_array_equal(model_ranks(packed, "mine").realistic, found)


def test_answers_are_hidden_and_batches_have_one_size():
    asked = []

    class Shy(Table):
        rows = 5

        def score(self, queries):
            asked.append(queries)
            return super().score(queries)

    scorer, queries = Shy(3), DATASET.queries("valid")
    found = CheckedScorer("shy", scorer, DATASET).score(queries)
    np.testing.assert_array_equal(found, Table(3).score(queries))
    assert [len(batch) for batch in asked] == [5, 5]
    assert asked[1].anchor.tolist() == [queries.anchor[5]] * 5, "the last batch is filled up with repeats"
    assert not any(batch.answer.any() or batch.triple.any() for batch in asked)
    assert queries.answer.any()


def test_a_scorer_may_reuse_its_memory():
    class Thrifty(Table):
        def score(self, queries):
            self.buffer = getattr(self, "buffer", np.empty((64, N_ENTITIES), dtype=np.float32))
            self.buffer[:] = super().score(queries)
            return self.buffer

    queries = DATASET.queries("valid")
    scorer = CheckedScorer("thrifty", Thrifty(4), DATASET)
    rows = [scorer.score(queries[[number]])[0] for number in range(len(queries))]
    np.testing.assert_array_equal(rows, Table(4).score(queries))


@pytest.mark.parametrize("rows", [0, -1, 2.5, "64", True])
def test_a_number_of_rows_that_is_none_is_refused(rows):
    scorer = Table(0)
    scorer.rows = rows
    with pytest.raises(
        MemberError, match=r"model 'mine': its attribute rows is .*, expected a whole number of at least 1"
    ):
        CheckedScorer("mine", scorer, DATASET)


def test_a_type_that_changes_is_refused():
    class Fickle(Table):
        def score(self, queries):
            self.asked.append(0)
            return np.zeros((len(queries), N_ENTITIES), dtype=("float32", "float64")[len(self.asked) > 1])

    scorer, queries = CheckedScorer("fickle", Fickle(0), DATASET), DATASET.queries("valid")
    scorer.score(queries)
    with pytest.raises(MemberError, match=r"expected scores as float32 as before, found float64\. End score\(\) with"):
        scorer.score(queries)


@pytest.mark.parametrize("error", [ValueError("no such row"), SystemExit(1), AssertionError()])
def test_an_error_in_a_scorer_is_told_with_its_line(error):
    class Bad:
        def score(self, queries):
            raise error

    shown = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"model 'bad' failed in score() of 64 queries: {shown} (test_scorers.py, line "
    with pytest.raises(MemberError, match=re.escape(message)):
        CheckedScorer("bad", Bad(), DATASET).score(DATASET.queries("test"))


def test_a_constant_scorer_gets_the_mean_rank_and_not_the_first(tmp_path):
    class Constant:
        def score(self, queries):
            return np.full((len(queries), N_ENTITIES), 0.5, dtype=np.float16)

    packed = pack_scorers({"constant": Constant()}, DATASET, tmp_path)["valid"]
    expected = (packed.n_candidates + 1) / 2
    np.testing.assert_array_equal(model_ranks(packed, "constant").realistic, expected)
    assert mrr(model_ranks(packed, "constant").realistic) < 0.5


def test_a_run_receives_the_ranks_of_scorers(tmp_path):
    with Run.receive_ranks(tmp_path / "run", DATASET) as folder:
        pack_scorers({"mine": Table(0)}, DATASET, folder)
    run = Run.open(tmp_path / "run")
    assert run.graph().fingerprint == DATASET.fingerprint
    assert run.dataset == "tiny"
    assert run.ranks("valid").models == ("mine",)
    assert run.ranks("test").n_queries == 4


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda zeros: zeros.T, "expected scores of shape (64, 18), found (18, 64)"),
        (lambda zeros: zeros[:, :-1], "found (64, 17). Return a row per query and a column per entity of tiny"),
        (lambda zeros: zeros[0], "found (18,)"),
        (lambda zeros: zeros.astype(int), "expected scores as float16, float32 or float64, found int64"),
        (lambda zeros: zeros.astype(complex), "found complex128"),
        (lambda zeros: zeros.tolist(), "expected scores as a numpy array, found builtins.list"),
    ],
)
def test_scores_of_another_form_are_refused(tmp_path, spoil, message):
    with pytest.raises(RanksError, match=f"model 'mine', 64 queries: .*{re.escape(message)}"):
        pack_scorers({"good": Table(0), "mine": Wrong(spoil)}, DATASET, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_a_score_that_is_no_finite_number_is_named_with_its_query(tmp_path, value, shown):
    def spoil(zeros):
        zeros[0, DATASET.entities.id_of("e4")] = value
        return zeros

    with pytest.raises(
        RanksError,
        match=re.escape(
            f"model 'mine', query ('e1', 'r0', tail): the score of entity 'e4' is {shown}, expected a finite "
            f"number. Let relens filter known answers instead of masking them"
        ),
    ):
        pack_scorers({"mine": Wrong(spoil)}, DATASET, tmp_path)


def test_a_failure_on_the_way_leaves_no_run(tmp_path):
    class Late(Table):
        def score(self, queries):
            scores = super().score(queries).copy()
            if len(self.asked) > 2:
                scores[3] = np.nan
            return scores

    with (
        pytest.raises(RanksError, match=r"model 'late', query \('e2', 'r1', head\)"),
        Run.receive_ranks(tmp_path / "run", "tiny") as folder,
    ):
        pack_scorers({"late": Late(0)}, DATASET, folder)
    assert list(tmp_path.iterdir()) == []


def test_splits_without_triples_are_refused(tmp_path):
    dataset = Dataset.from_labels("bare", train=[("a", "r", "b")], valid=[("b", "r", "a")])
    with pytest.raises(RanksError, match=r"bare has no triples in test: .* Hold some out of train"):
        pack_scorers({"mine": Small()}, dataset, tmp_path)


class Small:
    def score(self, queries):
        return np.zeros((len(queries), 2))


def test_models_need_names_that_differ(tmp_path: Path):
    with pytest.raises(RanksError, match="two models are called 'mine' and 'Mine'"):
        pack_scorers({"mine": Table(0), "Mine": Table(1)}, DATASET, tmp_path)


def test_a_relens_model_is_a_scorer(tmp_path):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from relens.models import MODELS
    from relens.packs.export import Ranker
    from relens.ranking.scoring import ModelScorer

    model = MODELS["complex"].build(N_ENTITIES, N_RELATIONS, {"dim": 6})
    model.initialise("norm", torch.Generator().manual_seed(0))
    expected = Ranker({"complex": model}, DATASET).pack("test", tmp_path / "expected", None)
    found = pack_scorers({"complex": ModelScorer(model)}, DATASET, tmp_path / "found", gaps=False)["test"]
    np.testing.assert_array_equal(found.answer, expected.answer)
    np.testing.assert_array_equal(found.contested, expected.contested)
    assert found.provenance == expected.provenance
    assert found.cardinalities == expected.cardinalities


def test_relations_are_classed_by_train_alone():
    stars = {"train": [("a", "r", "b"), ("c", "r", "d")], "valid": [("a", "r", "d")]}
    dataset = Dataset.from_labels("stars", **stars, test=[("a", "r", "c"), ("c", "r", "b"), ("b", "r", "d")])
    assert PackHeader.from_dataset(dataset, ("model",), "test").cardinalities == ("1-1",)
