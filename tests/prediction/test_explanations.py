"""Why an answer: the paths that carried its score, with names and directions."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError
from relens.prediction import Ensemble, ScorePath
from relens.prediction.members import LoadedModels
from relens.prediction.voting import Voting
from tests.cli.commands import fail, succeed
from tests.prediction.trained import CITIES, FIRMS

ASKED = {"head": "person_3", "relation": "lives_in"}


@pytest.fixture(scope="module")
def ensemble(town):
    return Ensemble.open(town, "log")


def test_most_true_test_answers_are_explained_by_the_composing_path(ensemble):
    right = total = 0
    for head, _, _ in ensemble.dataset.test.tolist():
        person = ensemble.dataset.entities.labels[head]
        firm = int(person.removeprefix("person_")) % FIRMS
        steps = (person, f"firm_{firm}", f"city_{firm % CITIES}")
        for given, relations, inverse in (
            ({"head": steps[0]}, ("works_at", "located_in"), (False, False)),
            ({"tail": steps[2]}, ("located_in", "works_at"), (True, True)),
        ):
            order = steps if "head" in given else steps[::-1]
            best = ensemble.explain(order[2], relation="lives_in", **given)[0]
            total += 1
            right += (best.entities, best.relations, best.inverse) == (order, relations, inverse)
    assert total == 24
    assert right >= 0.75 * total


def test_a_path_is_written_with_names_and_directions():
    path = ScorePath(
        "m", 0.5, ("a", "b", "c"), ("parent_of", "likes"), (False, True), (None, "Bob", None), (None, "is fond of")
    )  # fmt: skip
    assert str(path) == "a –[parent_of]→ Bob ←[is fond of]– c"


def test_predictions_come_with_paths_only_if_they_are_asked_for(ensemble):
    plain, found = ensemble.predict(**ASKED, top=2), ensemble.predict(**ASKED, top=2, explain=True)
    assert {answer.paths for answer in plain} == {None}
    assert [replace(answer, paths=None) for answer in found] == list(plain)
    for answer in found:
        assert answer.paths == ensemble.explain(answer.entity, **ASKED)
        assert len(answer.paths) <= 3
        importances = [path.importance for path in answer.paths]
        assert importances == sorted(importances, reverse=True)
        assert all(importance > 0 for importance in importances)
        for path in answer.paths:
            assert (path.model, path.entities[0], path.entities[-1]) == ("nbfnet", "person_3", answer.entity)
            assert [name for label, name in zip(path.entities, path.names, strict=True) if label == "city_0"] in (
                [], ["Oslo"],
            )  # fmt: skip
    (many,) = ensemble.predict_many([("person_3", "lives_in", "tail")], top=2, explain=True)
    assert many == found
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()
    assert set(found.to_records()[0]["paths"][0]) == {
        "model", "importance", "entities", "relations", "inverse", "names", "relation_names",
    }  # fmt: skip
    frame = pytest.importorskip("pandas") and found.to_pandas()
    assert frame["paths"][0] == "; ".join(map(str, found[0].paths))


def test_every_step_of_a_path_is_a_fact_of_train(ensemble):
    labels, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    train = {(labels[h], relations[r], labels[t]) for h, r, t in ensemble.dataset.train.tolist()}
    paths = [path for answer in ensemble.predict(**ASKED, explain=True) for path in answer.paths]
    assert paths
    for path in paths:
        for step in zip(path.entities, path.relations, path.entities[1:], path.inverse, strict=False):
            head, relation, tail, inverse = step
            assert ((tail, relation, head) if inverse else (head, relation, tail)) in train


def test_without_a_propagating_model_an_error_says_what_to_do(town):
    ensemble = Ensemble.open(town, "transe")
    for ask in (
        lambda: ensemble.predict(**ASKED, explain=True),
        lambda: ensemble.explain("city_3", **ASKED),
        lambda: next(ensemble.predict_many([("person_3", "lives_in", "tail")], explain=True)),
    ):
        with pytest.raises(
            InputError, match=r"no model of .*town with a weight \(transe\) sends anything along the edge"
        ):
            ask()
    command = ("predict", town.path, "--head", "person_3", "--relation", "lives_in", "--explain", "--weights", "transe")
    outcome = fail(2, "--explain shows the paths that a score travelled along", *command)
    assert "--model nbfnet" in outcome.err


def test_a_propagating_model_without_a_weight_in_the_group_explains_nothing(town):
    weights = EnsembleWeights.load(town.weights_path("rank"))
    table = np.ones_like(weights.table)
    relation = weights.relations.index("lives_in")
    table[weights.grouping.table[relation, 0]] = [int(model == "transe") for model in weights.models]
    models = LoadedModels(town, Ensemble.open(town, "rank").dataset, "cpu")
    ensemble = Ensemble(Voting(replace(weights, table=table), models))
    found = ensemble.predict(**ASKED, top=1, explain=True)
    assert {answer.paths for answer in found} == {()}
    assert found.notes == ("no paths: nbfnet has no weight for this relation and direction",)
    assert found.to_json()["notes"] == list(found.notes)


def test_the_command_shows_paths_as_a_table_as_lines_and_as_json(town, tmp_path):
    command = ("predict", town.path, "--weights", "log", "--top", 1, "--explain")
    asked = ("--head", "person_12", "--relation", "lives_in")
    shown = succeed(*command, *asked)
    assert "The paths that carried the scores" in shown.out
    assert "person_12 –[works_at]→ firm_0 –[located_in]→ Oslo" in shown.out
    found = succeed(*command, *asked, "--json").json
    assert found == Ensemble.open(town, "log").predict(
        head="person_12", relation="lives_in", top=1, explain=True
    ).to_json()  # fmt: skip
    file = tmp_path / "asked.tsv"
    file.write_text("person_12\tlives_in\ttail\n")
    heading, line, *_ = succeed(*command, "--queries", file).out.splitlines()
    assert heading.split("\t")[-1] == "paths"
    assert line.split("\t")[-1].startswith("nbfnet:")
    assert " –[works_at]→ " in line
    assert "paths" not in succeed(*command[:-1], "--queries", file).out
