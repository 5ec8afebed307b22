"""Relations between two entities: lists and evaluation against loops over the scores of the ranker."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens import predict
from relens.data.queries import Queries
from relens.errors import DatasetError, InputError
from relens.prediction import Ensemble
from relens.progress import SILENT

FEW = 40


@pytest.fixture(scope="module")
def ensemble(run):
    return Ensemble.open(run, "dsc-score")


def scores_of(ensemble, triples):
    """Return the scores of all relations between the entities of each triple, (q, R)."""
    return ensemble.relation_ranker.rank(triples[:, [0, 2]], ensemble.choose_relation_scale(), SILENT)[0]


def rank_by_loop(scores, relation, known):
    """Rank one relation; ``known`` relations but itself do not compete."""
    rivals = [score for r, score in enumerate(scores) if r != relation and r not in known]
    return 1 + sum(v > scores[relation] for v in rivals) + sum(v == scores[relation] for v in rivals) / 2


def known_between(dataset, head, tail):
    every = np.concatenate(list(dataset.splits.values())).tolist()
    return {r for h, r, t in every if (h, t) == (head, tail)}


@pytest.fixture(scope="module")
def evaluation(ensemble):
    return ensemble.evaluate_relations("test", name="mine", seed=3)


def test_the_mrr_is_that_of_loops_over_scores(ensemble, evaluation):
    dataset = ensemble.dataset
    scores = scores_of(ensemble, dataset.test)
    known = {}
    for h, r, t in np.concatenate(list(dataset.splits.values())).tolist():
        known.setdefault((h, t), set()).add(r)
    ranks = [
        rank_by_loop(row, r, known[h, t]) for row, (h, r, t) in zip(scores.tolist(), dataset.test.tolist(), strict=True)
    ]
    assert evaluation.overall.mrr == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks), abs=1e-12)
    assert evaluation.overall.hits_at_1 == pytest.approx(sum(rank == 1 for rank in ranks) / len(ranks))
    label = dataset.relations.labels[2]
    mine = [rank for rank, (_, r, _) in zip(ranks, dataset.test.tolist(), strict=True) if r == 2]
    assert evaluation.by_relation[label].mrr == pytest.approx(sum(1 / rank for rank in mine) / len(mine))
    assert evaluation.interval.low < evaluation.overall.mrr < evaluation.interval.high


def test_the_record_says_what_validation_chose(evaluation, ensemble):
    record = evaluation.to_json()
    assert (record["kind"], record["name"], record["provenance"]["split"]) == (
        "relens evaluation of relations",
        "mine",
        "test",
    )
    assert record["valid_mrr"][record["scale"]] == max(record["valid_mrr"].values())
    assert record["valid_triples"] == len(ensemble.dataset.valid)
    assert record["overall"]["queries"] == len(ensemble.dataset.test)


def test_a_list_has_the_ranks_of_the_evaluation_and_marks_what_is_known(ensemble):
    dataset = ensemble.dataset
    labels, relations = dataset.entities.labels, dataset.relations.labels
    scores = scores_of(ensemble, dataset.test[:FEW])
    pairs = [(labels[h], labels[t]) for h, _, t in dataset.test[:FEW].tolist()]
    found = list(ensemble.predict_relations_many(pairs, top=100))
    triples = dataset.test[:FEW].tolist()
    for row, predictions, (head, relation, tail) in zip(scores.tolist(), found, triples, strict=True):
        known = known_between(dataset, head, tail)
        assert predictions.candidates == len(relations) - len(known)
        assert len(predictions) == len(relations)
        for answer in predictions:
            r = relations.index(answer.relation)
            assert answer.rank == rank_by_loop(row, r, known)
            assert answer.score == row[r]
            assert (answer.known is not None) == (r in known)
        ranks = [(answer.rank, -answer.score) for answer in predictions]
        assert ranks == sorted(ranks)
        assert next(a.known for a in predictions if a.relation == relations[relation]) in dataset.splits
    (one,) = found[:1]
    alone = ensemble.predict_relations(head=pairs[0][0].upper(), tail=pairs[0][1], top=2, known="drop")
    assert [a.relation for a in alone] == [a.relation for a in one if a.known is None][:2]
    assert alone[0] == next(a for a in one if a.known is None)
    both = ensemble.predict_relations(head=pairs[0][0], tail=pairs[0][1], top=1)
    assert sum(answer.known is None for answer in both) == 1
    assert one.question == f"({pairs[0][0]}, ?, {pairs[0][1]})"
    assert one.to_json()["answers"] == one.to_records()
    assert {vote.model for vote in one[0].votes} <= set(ensemble.weights.models)
    assert sum(vote.weight for vote in one[0].votes) == pytest.approx(1)


def test_answer_scores_are_those_of_all_entities(run, town):
    for source, name in ((run, "dsc-score"), (town, "score")):
        ensemble = Ensemble.open(source, name)
        queries = Queries.from_triples(ensemble.dataset.test[:FEW])
        for model in ensemble.weights.models:
            of_all = ensemble.models.scores(model, queries)
            expected = of_all[np.arange(len(queries)), queries.answer]
            np.testing.assert_allclose(
                ensemble.models.answer_scores(model, queries, lambda n: None), expected, rtol=1e-4, atol=1e-4
            )


def test_the_function_asks_for_relations_without_a_relation(run, ensemble):
    labels = ensemble.dataset.entities.labels
    head, _, tail = ensemble.dataset.test[0].tolist()
    found = predict(run, head=labels[head], tail=labels[tail], top=3, weights="dsc-score")
    assert found == ensemble.predict_relations(head=labels[head], tail=labels[tail], top=3)
    with pytest.raises(InputError, match="or both of these without a relation"):
        predict(run, head=labels[head], weights="dsc-score")
    with pytest.raises(InputError, match="does not go with a question for relations"):
        predict(run, head=labels[head], tail=labels[tail], explain=True, weights="dsc-score")
    with pytest.raises(DatasetError, match="unknown entity 'nowhere'"):
        ensemble.predict_relations(head="nowhere", tail=labels[tail])
    with pytest.raises(InputError, match="`top=0` asks for no answers"):
        ensemble.predict_relations(head=labels[head], tail=labels[tail], top=0)


def test_new_entities_have_no_relations(town):
    ensemble = Ensemble.open(town, "score", facts=[("person_new", "works_at", "firm_3")])
    with pytest.raises(InputError, match="'person_new' is not in the graph of training"):
        ensemble.predict_relations(head="person_new", tail="firm_3")
    found = ensemble.predict_relations(head="person_1", tail="firm_1")
    assert found.candidates == 2
