"""New entities without training: facts given with a question, who reads them, who abstains, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

import relens
from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.ensemble.weights import EnsembleWeights
from relens.errors import DatasetError, InputError, RelensError
from relens.models import MODELS
from relens.prediction import Ensemble
from relens.prediction.facts import GivenFacts
from relens.prediction.members import LoadedModels
from relens.prediction.voting import Voting
from relens.training.trained import TrainedModel
from tests.cli.commands import fail, succeed
from tests.prediction.trained import CITIES, FIRMS, INPUTS, NEWCOMERS, PEOPLE, town_facts

NEW_PEOPLE = range(PEOPLE, PEOPLE + NEWCOMERS)
AT_WORK = [town_facts(person)[0] for person in NEW_PEOPLE]
"""Where people work who are not in the data set; their homes are asked for."""
NEW_FIRM = [("firm_new", "located_in", "city_2"), ("olaf", "works_at", "firm_new")]


def city(person):
    return f"city_{person % FIRMS % CITIES}"


@pytest.fixture(scope="module")
def ensemble(town):
    return Ensemble.open(town, "log", facts=AT_WORK)


def mean_reciprocal_rank(ensemble, people):
    ranks = [ensemble.rank_of(city(x), head=f"person_{x}", relation="lives_in") for x in people]
    return float(np.mean(1 / np.array(ranks)))


def test_homes_of_new_people_are_found(ensemble):
    n_entities = len(ensemble.dataset.entities)
    chance = sum(1 / rank for rank in range(1, n_entities + 1)) / n_entities
    assert chance < 0.06
    assert mean_reciprocal_rank(ensemble, NEW_PEOPLE) > 0.9


def test_a_new_person_at_a_new_firm_is_found_along_new_facts(town):
    ensemble = Ensemble.open(town, "nbfnet", facts=NEW_FIRM)
    found = ensemble.predict(head="olaf", relation="lives_in", top=1, explain=True)
    assert found[0].entity == "city_2"
    assert found[0].paths[0].entities == ("olaf", "firm_new", "city_2")


@pytest.mark.parametrize(
    "facts", [AT_WORK, NEW_FIRM, [("person_3", "works_at", "firm_7")]], ids=["people", "firm", "old"]
)
def test_scores_are_those_of_a_model_built_on_train_and_the_facts(town, facts):
    ensemble = Ensemble.open(town, "nbfnet", facts=facts)
    trained = ensemble.voting.trained
    labels = [
        *trained.entities.labels,
        *dict.fromkeys(e for h, _, t in facts for e in (h, t) if e not in trained.entities),
    ]
    assert list(ensemble.dataset.entities.labels) == labels
    ids = [[labels.index(h), trained.relations.id_of(r), labels.index(t)] for h, r, t in facts]
    triples = torch.from_numpy(np.concatenate([trained.train, ids]).astype(np.int64))
    saved = TrainedModel.open(town.model_path("nbfnet") / "trained")
    model = MODELS.find("nbfnet").build(len(labels), len(trained.relations), saved.settings.options, triples)
    model.load_state_dict(saved.load(trained).state_dict())
    asked = np.array([(a, r, d, 0, 0) for a in range(len(labels)) for r in range(3) for d in (0, 1)]).T
    queries = Queries.from_columns(asked[:, :: max(1, asked.shape[1] // 60)])
    with torch.no_grad():
        relation = torch.from_numpy(queries.relation + 3 * queries.direction).long()
        expected = model.score(model.encode(torch.from_numpy(queries.anchor).long(), relation)).numpy()
    np.testing.assert_allclose(ensemble.models.scores("nbfnet", queries), expected, rtol=1e-5, atol=1e-6)
    model.read(torch.from_numpy(trained.train.astype(np.int64)), len(trained.entities))
    plain = Ensemble.open(town, "nbfnet").models.scores("nbfnet", queries[:1])
    assert not np.allclose(plain[0], expected[0, : plain.shape[1]])  # the facts count


@pytest.mark.parametrize("name", INPUTS)
def test_embeddings_abstain_on_a_new_anchor(town, name):
    facts = [*AT_WORK, ("person_72", "lives_in", "city_0")]
    ensemble = Ensemble.open(town, name, facts=facts)
    alone = Ensemble.open(town, "nbfnet", facts=facts)
    asked = {"head": "person_73", "relation": "lives_in", "top": 200}
    found, expected = ensemble.predict(**asked), alone.predict(**asked)
    assert [(a.entity, a.rank, a.known) for a in found] == [(a.entity, a.rank, a.known) for a in expected]
    assert {a.abstained for a in found} == {("transe",)}
    assert {tuple((vote.model, vote.weight) for vote in a.votes) for a in found} == {(("nbfnet", 1.0),)}
    assert {a.confidence for a in found} == {None}
    assert found.notes == (
        "no vote by transe: person_73 is not in the graph of training; the weight goes to nbfnet",
    )  # fmt: skip
    assert {a.abstained for a in expected} == {()}


@pytest.mark.parametrize("name", INPUTS)
def test_embeddings_abstain_on_new_answers_only(town, name):
    ensemble = Ensemble.open(town, name, facts=AT_WORK)
    found = ensemble.predict(tail="city_1", relation="lives_in", top=200)
    new = [a for a in found if a.entity in {f"person_{x}" for x in NEW_PEOPLE}]
    old = [a for a in found if a not in new]
    assert len(new) == NEWCOMERS
    assert {a.abstained for a in new} == {("transe",)}
    assert {a.abstained for a in old} == {()}
    assert {tuple(vote.model for vote in a.votes) for a in new} == {("nbfnet",)}
    assert {len(a.votes) for a in old} == {2}
    assert all(sum(vote.weight for vote in a.votes) == pytest.approx(1) for a in found)
    assert {a.confidence for a in new} == {None}
    best = next(a.entity for a in found if a.known is None)
    assert best in {a.entity for a in new if city_of(a.entity) == "city_1"}
    assert "no vote by transe on new answers such as" in found.notes[0]


def city_of(person):
    return city(int(person.removeprefix("person_")))


def test_given_facts_are_known_like_those_of_train(town):
    fact = ("person_72", "works_at", "firm_0")
    ensemble = Ensemble.open(town, "nbfnet", facts=[fact, ("person_12", "lives_in", "city_0")])
    asked = {"head": "person_72", "relation": "works_at", "top": 200}
    marked, dropped = ensemble.predict(**asked), ensemble.predict(**asked, known="drop")
    assert {a.entity: a.known for a in marked if a.known} == {"firm_0": "facts"}
    assert "firm_0" not in [a.entity for a in dropped]
    assert dropped.candidates == len(ensemble.dataset.entities) - 1
    (of_test,) = (a for a in ensemble.predict(head="person_12", relation="lives_in") if a.known)
    assert (of_test.entity, of_test.known) == ("city_0", "test")  # the splits of the data set come first


def test_a_propagating_model_without_a_weight_votes_on_new_entities_alone(town):
    weights = EnsembleWeights.load(town.weights_path("rank"))
    only = [int(model == "transe") for model in weights.models]
    table = np.ones_like(weights.table)
    table[weights.grouping.table[weights.relations.index("lives_in")]] = only
    opened = Ensemble.open(town, "rank", facts=AT_WORK)
    models = LoadedModels(town, opened.voting.trained, "cpu", opened.facts)
    ensemble = Ensemble(Voting(replace(weights, table=table), models))
    found = ensemble.predict(head="person_72", relation="lives_in", top=3)
    assert found[0].entity == city(72)
    assert {tuple((vote.model, vote.weight) for vote in a.votes) for a in found} == {(("nbfnet", 1.0),)}
    mixed = ensemble.predict(tail="city_1", relation="lives_in", top=200)
    assert {(a.abstained, *(vote.model for vote in a.votes)) for a in mixed} == {
        (("transe",), "nbfnet"), ((), "transe"),
    }  # fmt: skip


def test_embeddings_score_known_entities_as_before(town):
    plain, given = (
        Ensemble.open(town, "transe" if facts is None else "rank", facts=facts) for facts in (None, AT_WORK)
    )
    query = Queries.from_columns(np.array([[0], [0], [0], [0], [0]]))
    scores = given.models.scores("transe", query)
    n = len(plain.dataset.entities)
    np.testing.assert_array_equal(scores[:, :n], plain.models.scores("transe", query))
    assert np.isnan(scores[:, n:]).all()


def graph():
    rows = [("a", "likes", "b"), ("b", "likes", "c"), ("a", "knows", "c"), ("A1", "knows", "a1")]
    return replace(Dataset.from_labels("small", train=rows), read_names=lambda: {"c": "Cleo"})


def test_names_of_known_entities_are_found_and_repeats_count_once(tmp_path):
    file = tmp_path / "new.tsv"
    file.write_text("head\trelation\ttail\na\tlikes\tb\n\nB\tknows\tnew\ncleo\tlikes\tnew\nb\tknows\tnew\n")
    found = GivenFacts.read(file, graph())
    labels = found.dataset.entities.labels
    facts = [(labels[h], found.dataset.relations.labels[r], labels[t]) for h, r, t in found.triples.tolist()]
    assert facts == [("b", "knows", "new"), ("c", "likes", "new")]
    assert found.is_new.tolist() == [label == "new" for label in labels]
    assert found.describe() == (
        f"{file}: 2 new facts, 1 new entity (new); 2 facts left out: train or an earlier line has the same"
    )
    assert len(found.dataset.train) == 6


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", InputError, "new.tsv has no facts: expected one line per fact"),
        ("head\trelation\ttail\n", InputError, "new.tsv has no facts"),
        ("a\tlikes\n", DatasetError, "new.tsv, line 1: found 2 fields in 'a\\tlikes', expected 3"),
        ("a\tknows\tb\n\na\t \tb\n", DatasetError, "new.tsv, line 3: the relation is empty"),
        ("a\tknows\tb\na\tlike\tb\n", DatasetError, "new.tsv, line 2: unknown relation 'like'; did you mean 'likes'?"),
        ("a\tlikes\tb\nb\tlikes\tc\n", InputError, "train of small has 2 facts of 2 already"),
        ("a1\tknows\tb\nA1\tknows\tb\na\tlikes\t\n", DatasetError, "line 3: the tail is empty"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(tmp_path, text, error, message):
    file = tmp_path / "new.tsv"
    file.write_text(text)
    with pytest.raises(error) as caught:
        GivenFacts.read(file, graph())
    assert message in str(caught.value)


def test_all_unknown_relations_are_named_and_a_missing_file_too(tmp_path):
    file = tmp_path / "new.tsv"
    file.write_text("".join(f"a\tlikes{number}\tb\n" for number in range(7)))
    with pytest.raises(DatasetError, match=r"line 5: unknown relation 'likes4'.*\n… and 2 more in .*new.tsv\n"):
        GivenFacts.read(file, graph())
    with pytest.raises(DatasetError, match=r"gone\.tsv does not exist"):
        GivenFacts.read(tmp_path / "gone.tsv", graph())
    with pytest.raises(RelensError, match="cannot be read: Is a directory"):
        GivenFacts.read(tmp_path, graph())


@pytest.mark.parametrize("row", [("a", "likes"), "alikesb", ("a", "likes", 3), ("a", "likes", " ")])
def test_wrong_rows_are_refused(row):
    with pytest.raises(InputError, match=r"`facts=…`, number 2: found .*, expected three texts: head, relation, tail"):
        GivenFacts.read([("a", "knows", "b"), row], graph())


def test_facts_need_a_propagating_model(town, tmp_path):
    with pytest.raises(InputError, match=r"`facts=…` adds edges that no training has seen, but no model of"):
        Ensemble.open(town, "transe", facts=AT_WORK)
    file, output = tmp_path / "new.tsv", tmp_path / "answers.json"
    file.write_text("\t".join(AT_WORK[0]) + "\n")
    command = ("predict", town.path, "--head", "person_72", "--relation", "lives_in", "--facts", file, "-o", output)
    outcome = fail(2, "--facts … adds edges that no training has seen", *command, "--weights", "transe")
    assert "--model nbfnet" in outcome.err
    assert not output.exists()


def test_the_command_answers_about_new_entities(town, tmp_path):
    file = tmp_path / "new.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in AT_WORK))
    command = ("predict", town.path, "--weights", "rank", "--relation", "lives_in", "--top", 3, "--facts", file)
    shown = succeed(*command, "--head", "person_72", columns=200)
    assert "12 new facts, 12 new entities (person_72, person_73, person_74, person_75, person_76, …)" in shown.err
    assert "no vote by transe: person_72 is not in the graph of training; the weight goes to nbfnet" in shown.out
    mixed = succeed(*command, "--tail", "city_1", columns=200).out
    assert "nbfnet" in mixed
    assert "no vote by transe on new answers such as" in mixed
    found = succeed(*command, "--head", "person_72", "--json").json
    assert found == relens.predict(
        town, head="person_72", relation="lives_in", top=3, weights="rank", facts=AT_WORK
    ).to_json()  # fmt: skip
    assert found["answers"][0]["abstained"] == ["transe"]


def test_no_confidence_with_new_entities(town):
    class Sure:
        def probability(self, group, asked, entities):
            return np.full(len(entities), 0.5)

    def stated(facts):
        ensemble = Ensemble.open(town, "rank", facts=facts)
        ensemble.voting.confidence = Sure()
        found = ensemble.predict(tail="city_1", relation="lives_in", known="drop")
        return {answer.confidence for answer in found}

    assert stated(AT_WORK) == {None}
    assert stated([("person_0", "works_at", "firm_5")]) == {0.5}
