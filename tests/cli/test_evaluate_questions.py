"""``relens evaluate --question``: relations and verdicts, from the models of a run."""

import pytest

from relens.files import read_json
from tests.cli.commands import fail, succeed

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.prediction import Ensemble
from tests.cli.test_predict import ring  # noqa: F401


def test_other_questions_are_evaluated_with_the_models(ring):  # noqa: F811
    ensemble = Ensemble.open(ring)
    shown = succeed("evaluate", ring, "--question", "relation", "--by", "relation", "--device", "cpu").out
    expected = ensemble.evaluate_relations("test", name="mean")
    assert f"{expected.overall.mrr:.4f}" in shown
    assert "Relations found by mean, by relation" in shown
    found = succeed("evaluate", ring, "--question", "relation", "--json", "--device", "cpu").json
    assert found == expected.to_json()
    assert read_json(ring / "evaluations" / "mean-relation-test.json", "record") == found
    found = succeed("evaluate", ring, "--question", "classify", "--json", "--split", "valid", "--device", "cpu").json
    assert found == ensemble.evaluate_classification("valid", name="mean").to_json()
    assert read_json(ring / "evaluations" / "mean-classify-valid.json", "record") == found
    shown = succeed("evaluate", ring, "--question", "classify", "--by", "relation", "--device", "cpu").out
    assert "Triples classified by mean, by relation" in shown
    assert "false triples of test: sampled hard negatives, seed 0" in " ".join(shown.split())
    refused = "--question relation goes with --weights and --by relation, not with --model or others"
    fail(2, refused, "evaluate", ring, "--question", "relation", "--model", "complex")
    fail(2, refused, "evaluate", ring, "--question", "relation", "--by", "group")


def test_other_questions_need_models(run_path):
    succeed("search", run_path, "--method", "mean")
    fail(2, "holds ranks only, and predictions need the models", "evaluate", run_path, "--question", "relation")
