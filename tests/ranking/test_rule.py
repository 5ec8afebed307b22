"""Everything that ranks answers agrees with one oracle: loops over Python numbers, and fractions.

The users of the tie rule are validation while training, packing of models, packing of other scorers, score files, rank
files that are filtered, and prediction.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.candidates import PADDING, Candidates  # noqa: E402
from relens.data.dataset import Dataset  # noqa: E402
from relens.data.queries import DIRECTIONS  # noqa: E402
from relens.data.restriction import EntityTypes, Restriction  # noqa: E402
from relens.evaluation import model_ranks  # noqa: E402
from relens.importers.dense import pack_dense  # noqa: E402
from relens.importers.importer import read_ranks  # noqa: E402
from relens.importers.scorers import pack_scorers  # noqa: E402
from relens.packs.export import Ranker  # noqa: E402
from relens.packs.pack import PackHeader  # noqa: E402
from relens.prediction.candidate_ranking import CandidateRanking  # noqa: E402
from relens.ranking.answer_ranks import AnswerRanks, doubled_rank, doubled_ranks  # noqa: E402
from relens.ranking.competition import Competition  # noqa: E402
from relens.ranking.scoring import ModelScorer  # noqa: E402
from relens.ranking.validation import answer_ranks  # noqa: E402
from tests import oracles  # noqa: E402
from tests.ranking.test_validation import TableModel  # noqa: E402

GRAPH = Dataset.from_labels(
    "tiny",
    train=[(f"e{i % 9}", f"r{i % 2}", f"e{(5 * i + 1) % 9}") for i in range(14)],
    valid=[("e0", "r0", "e5"), ("e3", "r1", "e2"), ("e4", "r0", "e4")],
    test=[("e1", "r0", "e7"), ("e8", "r1", "e0"), ("e0", "r0", "e7")],
)
E, R = len(GRAPH.entities), len(GRAPH.relations)


def score_table(seed: int) -> torch.Tensor:
    """Draw scores (E, 2R, E) from three values, so that most answers tie."""
    return torch.randint(3, (E, 2 * R, E), generator=torch.Generator().manual_seed(seed)).float()


def sampled(seed: int) -> Dataset:
    """Give each query of the graph a few candidates of its own, some rows shorter than others."""
    rng, candidates = np.random.default_rng(seed), {}
    for split in ("valid", "test"):
        rows = [rng.permutation(np.setdiff1d(np.arange(E), [a]))[:4] for a in GRAPH.queries(split).answer]
        negatives = np.array(rows, dtype=np.int32)
        negatives[rng.random(len(rows)) < 0.4, 2:] = PADDING
        candidates[split] = Candidates(negatives, "by hand")
    return replace(GRAPH, candidates=candidates)


def restricted(form: str) -> Dataset:
    """Restrict the candidates of the graph, in each of the three forms."""
    if form == "observed":
        return GRAPH.restricted(Restriction.observed(GRAPH))
    if form == "list":
        return GRAPH.restricted(Restriction.listed(GRAPH, np.array([0, 2, 7, 8]), "some"))
    dataset = replace(GRAPH)
    kinds = np.arange(E, dtype=np.int32) % 8  # the first and the last entity share a type
    vars(dataset)["types"] = EntityTypes(tuple("abcdefgh"), np.arange(E, dtype=np.int32), kinds)
    return dataset.restricted(Restriction.of_types(dataset))


def allowed_by_loops(form: str, relation: int, direction: int) -> set[int]:
    """Return who may answer, one train triple at a time."""
    if form == "list":
        return {0, 2, 7, 8}
    seen = {(tail, head)[direction] for head, r, tail in GRAPH.train.tolist() if r == relation}
    return seen if form == "observed" else {e for e in range(E) if e % 8 in {other % 8 for other in seen}}


def by_loops(table: torch.Tensor, dataset: Dataset, split: str, form: str | None = None) -> list[tuple[int, int]]:
    """Count the candidates ahead of each answer, and the others level with it, one at a time."""
    facts = {tuple(row) for rows in dataset.splits.values() for row in rows.tolist()}
    counts = []
    for q, (anchor, relation, direction, answer, _) in enumerate(dataset.queries(split).columns().T.tolist()):
        scores = table[anchor, relation + R * direction].tolist()
        if split in dataset.candidates:
            rivals = [e for e in dataset.candidates[split].negatives[q].tolist() if e != PADDING]
        else:
            asked = [(anchor, relation, e) if direction == 0 else (e, relation, anchor) for e in range(E)]
            rivals = [e for e in range(E) if e != answer and asked[e] not in facts]
        if form is not None:
            rivals = [e for e in rivals if e in allowed_by_loops(form, relation, direction)]
        ahead = sum(scores[e] > scores[answer] for e in rivals)
        counts.append((ahead, sum(scores[e] == scores[answer] for e in rivals)))
    return counts


def by_validation(table, dataset, split, folder):
    return answer_ranks(TableModel(table), Competition.from_dataset(dataset, split))


def by_packed_models(table, dataset, split, folder):
    ranker = Ranker({"m": TableModel(table), "other": TableModel(score_table(99))}, dataset)
    return model_ranks(ranker.pack(split, folder / "store", None), "m")


def by_scorers(table, dataset, split, folder):
    scorers = {"other": ModelScorer(TableModel(score_table(99))), "m": ModelScorer(TableModel(table))}
    return model_ranks(pack_scorers(scorers, dataset, folder)[split], "m")


def write_queries(table, dataset, folder) -> dict[str, np.ndarray]:
    """Write the query files of both splits; return the scores of their rows."""
    arrays = {}
    for split in ("valid", "test"):
        queries = dataset.queries(split)
        entities, relations = dataset.entities.labels, dataset.relations.labels
        rows = [
            (entities[anchor], relations[relation], DIRECTIONS[direction], entities[answer])
            for anchor, relation, direction, answer, _ in queries.columns().T.tolist()
        ]
        (folder / f"{split}_queries.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
        arrays[split] = table[queries.anchor, queries.relation + R * queries.direction].numpy()
    return arrays


def by_score_files(table, dataset, split, folder):
    for name, scores in write_queries(table, dataset, folder).items():
        np.save(folder / f"m_{name}_scores.npy", scores)
    return model_ranks(pack_dense(read_ranks("scores", folder, data=dataset)[split]), "m")


def by_rank_files(table, dataset, split, folder):
    """Write ranks that may tie, in the authors' layout, and let relens filter them."""
    for part in ("ranks", "dataset"):
        (folder / part / "tiny").mkdir(parents=True)
    for name, scores in write_queries(table, dataset, folder).items():
        queries = dataset.queries(name)
        rows = np.stack([queries.anchor, queries.relation + R * queries.direction, queries.answer], axis=1)
        np.save(folder / "dataset" / "tiny" / f"{name}_triples.npy", rows)
        np.save(folder / "ranks" / "tiny" / f"m_{name}_ranks.npy", 5 - scores)
    return model_ranks(pack_dense(read_ranks("authors", folder, data=dataset, filtered=True)[split]), "m")


def by_prediction(table, dataset, split, folder):
    places = []
    for anchor, relation, direction, answer, _ in dataset.queries(split).columns().T.tolist():
        known = np.array(list(dataset.stated_answers.answers_to(anchor, relation, direction)), dtype=np.int64)
        scores = table[anchor, relation + R * direction].numpy()[None]
        restriction = dataset.restriction
        allowed = None if restriction is None else restriction.mask(relation, direction)
        ranking = CandidateRanking(scores, known, np.array([1]), allowed=allowed)
        places.append(ranking.place(answer))
        assert ranking.model_ranks(answer) == [places[-1].rank]
    return AnswerRanks(*np.array(places, dtype=np.int64).T)


AMONG_ALL = (by_validation, by_packed_models, by_scorers, by_score_files, by_rank_files, by_prediction)
AMONG_RESTRICTED = (by_validation, by_packed_models, by_scorers, by_prediction)
AMONG_CANDIDATES = (by_validation, by_packed_models, by_scorers)


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("user", "among"),
    [*((user, "all") for user in AMONG_ALL), *((user, "candidates") for user in AMONG_CANDIDATES)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_every_user_of_the_rule_ranks_as_the_loops_do(user, among, seed, split, tmp_path):
    table, dataset = score_table(seed), GRAPH if among == "all" else sampled(seed)
    expected = by_loops(table, dataset, split)
    found = user(table, dataset, split, tmp_path)
    assert list(zip(found.ahead.tolist(), found.tied.tolist(), strict=True)) == expected
    for rule in ("optimistic", "realistic", "pessimistic"):
        ranks = [oracles.tie_rules(ahead, tied)[rule] for ahead, tied in expected]
        assert [Fraction(rank) for rank in getattr(found, rule).tolist()] == ranks
    assert any(tied for _, tied in expected), "there are ties"


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", ["observed", "types", "list"])
@pytest.mark.parametrize("user", AMONG_RESTRICTED, ids=lambda user: user.__name__)
def test_every_user_of_the_rule_ranks_among_restricted_candidates_as_the_loops_do(user, form, seed, split, tmp_path):
    table, dataset = score_table(seed), restricted(form)
    found = user(table, dataset, split, tmp_path)
    expected = by_loops(table, dataset, split, form)
    assert list(zip(found.ahead.tolist(), found.tied.tolist(), strict=True)) == expected
    assert expected != by_loops(table, GRAPH, split), "the restriction changes ranks"
    outside = sum(
        answer not in allowed_by_loops(form, relation, direction)
        for _, relation, direction, answer, _ in dataset.queries(split).columns().T.tolist()
    )
    provenance = PackHeader.from_dataset(dataset, ("m",), split).provenance
    assert (provenance.candidates, provenance.outside) == (dataset.restriction.name, outside)
    assert provenance.filter_splits == ("train", "valid", "test")


@given(st.integers(0, 50), st.integers(1, 50))
def test_the_rule_is_twice_the_mean_of_the_places_of_a_block(above, level):
    places = range(above + 1, above + level + 1)
    assert doubled_rank(above, level) == 2 * Fraction(sum(places), level)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=9))
def test_a_row_of_scores_is_ranked_among_those_that_compete(rows):
    scores, competing = (np.array(column) for column in zip(*rows, strict=True))
    left_out = set(np.flatnonzero(~competing).tolist())
    expected = [2 * oracles.mean_rank(scores.tolist(), e, left_out - {e}) for e in range(len(rows))]
    assert doubled_ranks(scores, competing.astype(bool)).tolist() == expected
