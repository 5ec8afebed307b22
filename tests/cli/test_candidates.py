"""Restricted candidates from the command line: rank, evaluate and predict agree, and nothing is mixed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from relens.files import read_json
from relens.runs import Run
from tests.cli.commands import fail, succeed

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import relens
from relens.errors import RanksError
from relens.prediction import Ensemble

SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=10", "--set", "batch=64")
N = 16
FORMS = ("observed", "types", "few.txt")


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A run on a ring of stations with types, readable names and weights on score gaps."""
    home = tmp_path_factory.mktemp("ring")
    folder = home / "ring"
    folder.mkdir()
    rows = [(f"e{i:02}", "next", f"e{i + 1:02}") for i in range(N - 1)]  # nothing follows the last one
    rows += [(f"e{i:02}", "twice", f"e{(2 * i) % N:02}") for i in range(N)]
    for split, part in (("train", rows[9:]), ("valid", rows[:6]), ("test", rows[6:9])):
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    (folder / "types.tsv").write_text("".join(f"e{i:02}\t{'even' if i % 2 == 0 else 'odd'}\n" for i in range(12)))
    (folder / "relation_labels.tsv").write_text("next\tis followed by\ntwice\tdoubles to\n")
    for model in ("transe", "complex"):
        succeed("train", folder, "--model", model, "--run", home / "run", "--device", "cpu", *SMALL)
    succeed("rank", home / "run", "--device", "cpu")
    for name in ("score", "rank"):
        succeed("search", home / "run", "--method", "simple", "--input", name, "--regularise", "none", "--name", name)
    return home


@pytest.fixture
def at_home(ring, monkeypatch):
    monkeypatch.chdir(ring)
    Path("few.txt").write_text("e01\ne02\nE05\ne09\n")
    return ring


def allowed(dataset, form, relation, direction) -> set[str]:
    """Return who may answer, from the rows of the files."""
    labels = dataset.entities.labels
    if form == "few.txt":
        return {"e01", "e02", "e05", "e09"}
    seen = {labels[(t, h)[direction]] for h, r, t in dataset.train.tolist() if r == relation}
    if form == "observed":
        return seen
    kind_of = dict(line.split("\t") for line in Path("ring/types.tsv").read_text().splitlines())
    kinds = {kind_of.get(entity) for entity in seen} - {None}
    return {entity for entity, kind in kind_of.items() if kind in kinds}


@pytest.mark.parametrize("weights", ["score", "rank"])
@pytest.mark.parametrize("form", FORMS)
def test_predictions_have_the_rank_of_the_evaluation_among_the_same_candidates(at_home, form, weights):
    found = relens.evaluate_among("run", form, weights=weights, device="cpu")
    ensemble = Ensemble.open("run", weights, "cpu", candidates=form)
    dataset = ensemble.dataset
    labels, relations = dataset.entities.labels, dataset.relations.labels
    outside = 0
    for q, row in enumerate(dataset.queries("test").columns().T.tolist()):
        anchor, relation, direction, answer, _ = row
        given = {"relation": relations[relation], ("head", "tail")[direction]: labels[anchor]}
        among = allowed(dataset, form, relation, direction)
        rank = found.answer_ranks.realistic[q]
        assert ensemble.rank_of(labels[answer], **given) == rank, (given, labels[answer])
        listed = ensemble.predict(**given, top=N)
        assert {entry.entity for entry in listed} <= among, "nobody from outside"
        assert {entry.entity: entry.rank for entry in listed}.get(labels[answer], rank) == rank
        assert listed.restriction == found.provenance.candidates
        outside += labels[answer] not in among
        known = dataset.stated_answers.answers_to(anchor, relation, direction)
        assert listed.candidates == len([e for e in among if dataset.entities.id_of(e) not in known])
    assert found.provenance.outside == outside


@pytest.mark.parametrize("weights", ["score", "rank"])
@pytest.mark.parametrize("form", FORMS)
def test_scores_and_verdicts_have_the_ranks_of_the_evaluation_among_the_same_candidates(at_home, form, weights):
    among = relens.evaluate_among("run", form, weights=weights, device="cpu")
    ranks = among.answer_ranks.realistic.reshape(-1, 2).tolist()
    dataset = relens.load_dataset("ring")
    labels, relations = dataset.entities.labels, dataset.relations.labels
    triples = [(labels[h], relations[r], labels[t]) for h, r, t in dataset.test.tolist()]
    found = relens.score("run", triples, candidates=form, weights=weights, device="cpu")
    assert [[one.tail_rank, one.head_rank] for one in found] == ranks
    assert {one.restriction for one in found} == {among.provenance.candidates}
    assert {one.probability for one in found} == {None}
    plain = relens.score("run", triples, weights=weights, device="cpu")
    assert [one.tail_rank for one in plain] != [one.tail_rank for one in found]
    assert {one.restriction for one in plain} == {None}
    ensemble = Ensemble.open("run", weights, "cpu", candidates=form)
    verdicts = relens.classify("run", triples, candidates=form, weights=weights, device="cpu")
    thresholds = ensemble.thresholds()
    logs = [-float(np.log([tail, head]).mean()) for tail, head in ranks]
    values = logs if thresholds.statistic == "rank" else [one.score for one in found]
    assert [one.value for one in verdicts] == pytest.approx(values, rel=1e-12)
    of = dict(zip(relations, thresholds.by_relation.tolist(), strict=True))
    assert [one.threshold for one in verdicts] == [of[relation] for _, relation, _ in triples]
    assert {one.restriction for one in verdicts} == {among.provenance.candidates}


@pytest.mark.parametrize("form", FORMS)
def test_relations_compete_that_both_entities_may_have(at_home, form):
    whole, ensemble = Ensemble.open("run", "rank", "cpu"), Ensemble.open("run", "rank", "cpu", candidates=form)
    dataset = ensemble.dataset
    labels, relations = dataset.entities.labels, dataset.relations.labels
    facts = {(h, r, t) for part in dataset.splits.values() for h, r, t in part.tolist()}
    ranks, outside = [], 0
    for head, relation, tail in dataset.test.tolist():
        pair = {"head": labels[head], "tail": labels[tail]}
        score = {one.relation: one.score for one in whole.predict_relations(**pair)}
        may = [
            r
            for r in range(len(relations))
            if labels[head] in allowed(dataset, form, r, 1) and labels[tail] in allowed(dataset, form, r, 0)
        ]
        new = [r for r in may if (head, r, tail) not in facts]
        (listed,) = ensemble.predict_relations_many([tuple(pair.values())])
        assert (listed.candidates, listed.restriction) == (len(new), ensemble.restriction.name)
        assert {relations.index(one.relation) for one in listed} == set(may)
        for one in listed:
            rivals = [score[relations[r]] for r in new if relations[r] != one.relation]
            assert one.rank == 1 + sum(s > one.score for s in rivals) + sum(s == one.score for s in rivals) / 2
        rivals, own = [score[relations[r]] for r in new if r != relation], score[relations[relation]]
        ranks.append(1 + sum(s > own for s in rivals) + sum(s == own for s in rivals) / 2)
        outside += relation not in may
    found = ensemble.evaluate_relations()
    assert found.overall.mrr == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))
    assert (found.provenance.candidates, found.provenance.outside) == (ensemble.restriction.name, outside)


def test_commands_name_the_restriction_of_their_answers(at_home):
    triple = ("--head", "e05", "--relation", "next", "--tail", "e06")
    options = ("run", "--weights", "rank", "--device", "cpu", "--candidates", "observed")
    for command in ("score", "classify"):
        assert "candidates: observed" in succeed(command, *options, *triple).out
        assert succeed(command, *options, *triple, "--json").json["restriction"] == "observed"
        plain = (*options[:-2], *triple, "--format", "csv")
        assert not succeed(command, *plain).out.splitlines()[0].endswith("restriction")
        lines = succeed(command, *options, *triple, "--format", "csv").out.splitlines()
        assert (lines[0].rpartition(",")[2], lines[1].rpartition(",")[2]) == ("restriction", "observed")
    pair = ("--head", "e05", "--tail", "e06")
    assert " (observed), known ones not counted" in succeed("predict", *options, *pair).out
    for question, queries in (("relation", 3), ("classify", 2 * 6)):
        evaluated = succeed("evaluate", *options, "--question", question, "--json").json
        provenance = evaluated["provenance"]
        assert provenance["candidates"] == "observed"
        assert Path(f"run/evaluations/rank-{question}-test-observed.json").is_file()
        shown = " ".join(succeed("evaluate", *options, "--question", question).out.split())
        assert f"candidates: observed, {provenance['outside']} of {queries} answers" in shown
    fail(2, "is a folder with no list", "score", *options[:-1], "ring", *triple)
    Path("far.txt").write_text("e00\n")
    message = "leave no relation: the two entities share no relation. Choose other --candidates …"
    fail(2, message, "predict", *options[:-1], "far.txt", *pair)
    Path("pairs.tsv").write_text("head\ttail\trelation\ne05\te06\trelation\n")
    (line,) = succeed("predict", *options[:-1], "far.txt", "--queries", "pairs.tsv", "--json").out.splitlines()
    assert json.loads(line)["answers"] == []
    assert json.loads(line)["notes"][0].endswith("leave no relation: the two entities share no relation")


def test_rows_of_files_have_the_readable_name_of_the_relation(at_home):
    options = ("predict", "run", "--weights", "rank", "--device", "cpu", "--format", "tsv")
    head, *rows = succeed(*options, "--head", "e05", "--relation", "next", "--top", "1").out.splitlines()
    assert head.split("\t")[:4] == ["anchor", "relation", "relation_name", "direction"]
    assert rows[0].split("\t")[:4] == ["e05", "next", "is followed by", "tail"]
    head, *rows = succeed(*options, "--head", "e05", "--tail", "e09").out.splitlines()
    column = head.split("\t").index("relation_name")
    assert {row.split("\t")[column] for row in rows} == {"is followed by", "doubles to"}


def test_an_evaluation_among_candidates_leaves_the_standard_one(at_home):
    succeed("evaluate", "run", "--weights", "rank")
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    done = succeed("evaluate", "run", "--weights", "rank", "--candidates", "few.txt", "--device", "cpu")
    out = " ".join(done.out.split())  # lines are wrapped
    assert "candidates: list few.txt " in out
    assert "answers (" in out
    assert "fitted_among all" in out
    assert "warning: the weights were fitted on ranks among other candidates (all)" in done.err
    new = {path for path in Path("run").rglob("*") if path.is_file()} - set(before)
    assert [path.name.rpartition("-")[0] for path in new] == ["rank-test-list-few.txt"]
    assert {path: path.read_bytes() for path in before} == before
    record = read_json(new.pop(), "evaluation")["provenance"]
    assert Run.open("run").evaluation("rank", candidates=record["candidates"]).provenance.outside == record["outside"]
    alone = succeed("evaluate", "run", "--model", "complex", "--candidates", "observed", "--device", "cpu", "--json")
    assert alone.json["provenance"]["candidates"] == "observed"
    assert "fitted_among" not in alone.json["settings"]


def test_ranks_among_candidates_are_searched_and_never_compared_with_others(at_home):
    done = succeed("rank", "run", "--candidates", "observed", "--into", "narrow", "--device", "cpu")
    assert "(candidates: observed, " in done.out
    succeed("search", "narrow", "--method", "simple", "--input", "rank", "--regularise", "none", "--name", "rank")
    narrow = Run.open("narrow")
    assert narrow.weights("rank").candidates == narrow.ranks("valid").provenance.candidates == "observed"
    evaluated = succeed("evaluate", "narrow", "--weights", "rank")
    assert "candidates: observed, " in " ".join(evaluated.out.split())
    assert "fitted_among" not in evaluated.out
    assert "warning" not in evaluated.err
    with pytest.raises(RanksError, match="candidates 'all' and 'observed'"):
        relens.compare_runs("run", "narrow", weights="rank")
    mixed = relens.evaluate(narrow.ranks("test"), Run.open("run").weights("rank"))
    assert mixed.settings["fitted_among"] == "all"


def test_there_is_no_confidence_among_other_candidates(at_home):
    asked = {"head": "e15", "relation": "next", "top": N, "known": "drop"}
    other = relens.predict("run", weights="rank", candidates="observed", **asked)
    assert [answer.confidence for answer in other] == [None] * len(other)
    done = succeed(
        "predict", "run", "--weights", "rank", "--head", "e05", "--relation", "next", "--candidates", "observed"
    )
    assert "(observed), known facts not counted" in done.out
    assert "fitted on ranks among other candidates (all) than these (observed), so there is no confidence" in done.err
    shutil.copytree("run", "observed-run")
    succeed("rank", "observed-run", "--candidates", "observed", "--device", "cpu", "--force")
    weights = ("--method", "simple", "--input", "rank", "--regularise", "none", "--name", "rank")
    succeed("search", "observed-run", *weights)
    fail(
        2,
        "probabilities are calibrated on the scores of all entities",
        "calibrate",
        "observed-run",
        "--weights",
        "rank",
    )


def test_a_list_that_leaves_nobody_is_an_error_for_one_question_and_a_note_in_a_file(at_home):
    Path("anchor.txt").write_text("e05\n")
    asked = ("predict", "run", "--weights", "rank", "--candidates", "anchor.txt", "--device", "cpu")
    message = "leave nobody: none of 1 is a new answer. Choose other --candidates …, or ask without them"
    fail(2, message, *asked, "--head", "e05", "--relation", "next")
    Path("questions.tsv").write_text("e05\tnext\ttail\ne08\tis followed by\ttail\n")
    lines = succeed(*asked, "--queries", "questions.tsv", "--json").out.splitlines()
    first, second = map(json.loads, lines)
    assert (first["answers"], first["notes"][0].startswith("the candidates (list anchor.txt ")) == ([], True)
    assert [answer["entity"] for answer in second["answers"]] == ["e05"]


def test_wrong_candidates_end_with_a_message(at_home):
    asked = ("predict", "run", "--weights", "rank", "--head", "e05", "--relation", "next", "--candidates")
    fail(2, "did you mean 'observed'?", *asked, "obsrved")
    fail(2, "is a folder with no list", *asked, "ring")
    fail(2, "there is no such file or folder", "rank", "run", "--candidates", "none/here", "--force")
    Path("wrong.txt").write_text("e5x\n")
    message = "wrong.txt, line 1: unknown entity 'e5x'"
    fail(2, message, "evaluate", "run", "--weights", "rank", "--candidates", "wrong.txt")
    assert not list(Path("run").glob(".candidates*")), "nothing is left behind"


def test_relations_have_readable_names(at_home):
    asked = ("predict", "run", "--weights", "rank", "--head", "e05")
    shown = succeed(*asked, "--relation", "is followed by")
    assert "(e05, next, ?)" in shown.out
    assert "relation: is followed by" in shown.out
    found = succeed(*asked, "--relation", "Doubles to", "--json").json
    assert (found["relation"], found["relation_name"]) == ("twice", "doubles to")
    fail(2, "unknown relation 'doubles too'; did you mean 'doubles to'?", *asked, "--relation", "doubles too")
    dataset = relens.load_dataset("ring")
    assert dataset.relation_names == {"next": "is followed by", "twice": "doubles to"}
