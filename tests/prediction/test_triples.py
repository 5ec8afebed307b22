"""Given triples: all unknown names in one error, the ranks of the evaluation, and what is known."""

import gzip

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.errors import DatasetError, InputError
from relens.prediction import Ensemble
from relens.prediction.names import Names
from relens.prediction.triples import LISTED, triples_in_ids


@pytest.fixture(scope="module")
def ensemble(run):
    return Ensemble.open(run, "dsc-rank")


def labels(ensemble, triples):
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    return [(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist()]


def test_files_and_rows_are_read_alike(ensemble, tmp_path):
    names, expected = Names(ensemble.dataset), ensemble.dataset.test[:7]
    rows = labels(ensemble, expected)
    text = "".join("\t".join(row) + "\n" for row in [("head", "relation", "tail"), *rows])
    (tmp_path / "asked.tsv").write_text(text)
    (tmp_path / "asked.tsv.gz").write_bytes(gzip.compress(text.upper().encode()))
    for source in (rows, tmp_path / "asked.tsv", str(tmp_path / "asked.tsv")):
        assert triples_in_ids(source, names).tolist() == expected.tolist()
    (tmp_path / "upper.tsv").write_text("\n\n".join("\t".join(row).upper() for row in rows))
    assert triples_in_ids(tmp_path / "upper.tsv", names).tolist() == expected.tolist()


def test_one_error_lists_all_unknown_names_with_suggestions(ensemble, tmp_path):
    path = tmp_path / "asked.tsv"
    path.write_text("site_04_17\tnorth\tsite_x5_17\n\nsite_x5_17\tnorth_neighbour\tsite_99_99\n")
    with pytest.raises(DatasetError) as caught:
        ensemble.score(path)
    first, *lines = str(caught.value).splitlines()
    assert first == (
        f"{path}: found 3 names that the graph does not have, or has more than once. Correct the names, or remove the "
        f"lines."
    )
    assert [line.split("; ")[0] for line in lines] == [
        f"{path}, line 1: unknown relation 'north'",
        f"{path}, line 1: unknown entity 'site_x5_17'",
        f"{path}, line 3: unknown entity 'site_99_99'",
    ]
    assert "did you mean 'north_neighbour'" in lines[0]
    assert all("did you mean" in line for line in lines)


def test_the_list_of_unknown_names_is_bounded(ensemble):
    rows = [(f"nobody {i}", "north_neighbour", f"nobody {i + 1}") for i in range(500)]
    with pytest.raises(DatasetError, match=r"`triples=…`: found 501 names") as caught:
        ensemble.score(rows)
    lines = str(caught.value).splitlines()
    assert len(lines) == LISTED + 2
    assert lines[-1] == "… and 481 more"


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ([], "`triples=…` has no triples: expected one line per triple"),
        (["abc"], r"`triples=…`, number 1: found \['abc'\], expected three texts"),
        ([("a", "b")], "number 1: found"),
    ],
)
def test_malformed_triples_are_refused(ensemble, triples, message):
    with pytest.raises(InputError, match=message):
        ensemble.score(triples)


def test_scores_and_ranks_are_those_of_the_two_questions(run, ensemble):
    dataset = ensemble.dataset
    expected = ensemble.weights.answer_ranks(run.ranks("test")).realistic.reshape(-1, 2).tolist()
    found = ensemble.score(labels(ensemble, dataset.test))
    assert [[one.tail_rank, one.head_rank] for one in found] == expected
    assert {(one.known, one.probability) for one in found} == {("test", None)}
    (one,) = ensemble.score(labels(ensemble, dataset.test[5:6]))
    assert one == found[5]
    tails = ensemble.predict(head=one.head, relation=one.relation, top=2000)
    heads = ensemble.predict(tail=one.tail, relation=one.relation, top=2000)
    scores = [next(a.score for a in answers if a.entity == e) for answers, e in ((tails, one.tail), (heads, one.head))]
    assert one.score == pytest.approx(sum(scores) / 2)
    assert one.to_json() == {
        "head": one.head, "relation": one.relation, "tail": one.tail, "score": one.score, "tail_rank": one.tail_rank,
        "head_rank": one.head_rank, "probability": None, "known": "test", "restriction": None,
    }  # fmt: skip


def test_a_triple_has_the_first_split_that_contains_it_and_new_ones_a_probability(ensemble):
    dataset = ensemble.dataset
    rows = [labels(ensemble, triples[3:4])[0] for triples in dataset.splits.values()]
    tails = ensemble.predict(head=rows[2][0], relation=rows[2][1], top=3, known="drop")
    new = [(rows[2][0], rows[2][1], answer.entity) for answer in tails]
    found = ensemble.score([*rows, *new])
    assert [one.known for one in found] == ["train", "valid", "test", None, None, None]
    for one, answer in zip(found[3:], tails, strict=True):
        heads = ensemble.predict(tail=one.tail, relation=one.relation, top=2000, known="drop")
        shares = [answer.confidence, next(a.confidence for a in heads if a.entity == one.head)]
        stated = [share for share in shares if share is not None]
        assert one.probability == (pytest.approx(sum(stated) / len(stated)) if stated else None)


def test_given_facts_are_known_and_new_entities_can_be_scored(town):
    ensemble = Ensemble.open(town, "score", facts=[("person_new", "works_at", "firm_3")])
    known, new = ensemble.score([("person_new", "works_at", "firm_3"), ("person_new", "lives_in", "Oslo")])
    assert (known.known, new.known, new.tail) == ("facts", None, "city_0")
    assert new.tail_rank == ensemble.rank_of("city_0", head="person_new", relation="lives_in")
