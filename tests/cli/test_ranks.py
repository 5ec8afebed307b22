"""``relens ranks``: what users type, and what they get."""

import csv
import io
import json
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from click.testing import CliRunner, Result

from relens import registry
from relens.cli import cli
from relens.importers.dense import Matrix
from relens.importers.importer import IMPORTERS, MODELS, Importer
from relens.importers.layouts.scores import read_scores
from relens.options import Option
from relens.runs import Run
from tests import authors_files, oracles, score_files


def relens(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["ranks", *map(str, arguments)])


def fails_with(result: Result, message: str) -> None:
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)


@pytest.fixture
def authors(tmp_path):
    return authors_files.write_authors(tmp_path / "authors")


@pytest.fixture
def imported(authors, tmp_path):
    result = relens("import", tmp_path / "authors", "--layout", "authors", "--run", tmp_path / "run", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_import_reports_what_it_packed(imported, authors, tmp_path):
    assert imported["dataset"] == "WN"
    valid = imported["splits"]["valid"]
    assert (valid["queries"], valid["relations"], valid["candidates"]) == (8, 3, 8 * authors_files.E)
    assert valid["provenance"]["filter_splits"] == []
    assert valid["tie_rule"] == "mean"
    for model, mrr in valid["mrr"].items():
        ranks = [
            oracles.tie_rules(*oracles.ensemble_rank([row.tolist()], answer, [1]))["realistic"]
            for row, (_, _, answer) in zip(authors["valid", model], authors["valid", "triples"], strict=True)
        ]
        assert mrr == pytest.approx(float(sum(1 / rank for rank in ranks) / len(ranks)), abs=1e-12)
    assert Run.open(tmp_path / "run").ranks("test").n_queries == 6


def test_show_prints_sizes_models_and_provenance(imported, tmp_path):
    shown = relens("show", tmp_path / "run").stdout
    for part in ("valid", "test", "contested", "ConvE", "rotate", "tie rule: mean", "data set: WN"):
        assert part in shown
    assert json.loads(relens("show", tmp_path / "run", "--json").stdout) == imported


@pytest.mark.parametrize("chooses", ["reduce", "expand"])
def test_reduced_ranks_become_a_run_of_all_models_or_some(imported, authors, tmp_path, chooses):
    chosen = {step: ("--models", "rotate") if step == chooses else () for step in ("reduce", "expand")}
    assert relens("reduce", tmp_path / "run", "-o", tmp_path / "r.npz", *chosen["reduce"]).exit_code == 0
    result = relens("expand", tmp_path / "r.npz", "--run", tmp_path / "less", "--json", *chosen["expand"])
    splits = json.loads(result.stdout)["splits"]
    assert splits.keys() == imported["splits"].keys()
    for split, shown in splits.items():  # so few candidates are all kept
        assert shown["mrr"] == {"rotate": imported["splits"][split]["mrr"]["rotate"]}


def test_export_lists_each_models_rank_of_each_answer(imported, authors, tmp_path):
    assert relens("export", tmp_path / "run", "--split", "valid", "-o", tmp_path / "ranks.csv").exit_code == 0
    text = (tmp_path / "ranks.csv").read_text()
    assert relens("export", tmp_path / "run", "--split", "valid").stdout == text
    rows = list(csv.DictReader(io.StringIO(text)))
    for q, (row, (anchor, relation, answer)) in enumerate(zip(rows, authors["valid", "triples"].tolist(), strict=True)):
        assert (int(row["anchor"]), int(row["answer"])) == (anchor, answer)
        assert (row["relation"], row["direction"]) == (str(relation % 3), "head" if relation >= 3 else "tail")
        for model in ("ConvE", "rotate"):
            found = oracles.ensemble_rank([authors["valid", model][q].tolist()], answer, [1])
            assert float(row[model]) == oracles.tie_rules(*found)["realistic"]
    value = json.loads(relens("export", tmp_path / "run", "--split", "valid", "--json").stdout)
    assert value["columns"] == ["anchor", "relation", "direction", "answer", "ConvE", "rotate"]
    assert len(value["rows"]) == 8


def test_import_into_a_run_with_ranks_needs_force(imported, tmp_path):
    again = ("import", tmp_path / "authors", "--layout", "authors", "--run", tmp_path / "run")
    fails_with(relens(*again), "already has ranks of valid and test: pass `force=True`")
    result = relens(
        *again, "--force", "--models", "rotate", "--filter", "--relations", 3, "--memory", "64K", "--jobs", 1
    )
    assert result.exit_code == 0
    packed = Run.open(tmp_path / "run").ranks("valid")
    assert packed.models == ("rotate",)
    assert packed.provenance.filter_splits == ("valid", "test")


def test_a_bad_value_in_test_leaves_no_run_behind(authors, tmp_path):
    ranks = authors["test", "rotate"].copy()
    ranks[2, 3] = 0
    np.save(tmp_path / "authors" / "ranks" / "WN" / "rotate_test_ranks.npy", ranks)
    result = relens("import", tmp_path / "authors", "--layout", "authors", "--run", tmp_path / "runs" / "r")
    fails_with(result, "rotate_test_ranks.npy, row 2, column 3: found rank 0, expected a whole number from 1 to 7")
    assert not list((tmp_path / "runs").iterdir())


def test_import_scores_with_a_data_set(tmp_path):
    folder = tmp_path / "scores"
    folder.mkdir()
    score_files.write_scores(folder)
    data = tmp_path / "toy"
    data.mkdir()
    for split, triples in (("train", score_files.TRAIN), ("valid", score_files.VALID), ("test", score_files.TEST)):
        (data / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in triples))
    run = tmp_path / "run"
    result = relens("import", folder, "--layout", "scores", "--run", run, "--data", data, "--json")
    value = json.loads(result.stdout)
    assert value["dataset"] == "toy"
    assert value["splits"]["test"]["gaps"]
    assert value["splits"]["test"]["provenance"]["filter_splits"] == ["train", "valid", "test"]
    plain = tmp_path / "plain"
    result = relens(
        "import", folder, "--layout", "scores", "--run", plain, "--data", data, "--no-gaps", "--no-filter", "--json"
    )
    assert not json.loads(result.stdout)["splits"]["test"]["gaps"]


def pack(tmp_path, split: str, *more: object) -> Result:
    arrays = [f"{model}={tmp_path / f'{model}_{split}_scores.npy'}" for model in ("x", "y")]
    queries = tmp_path / f"{split}_queries.tsv"
    return relens("pack", "--run", tmp_path / "run", "--split", split, "--queries", queries, *arrays, *more)


def test_pack_fills_a_run_split_by_split(tmp_path):
    score_files.write_scores(tmp_path, "fbdace")
    fails_with(pack(tmp_path, "test"), "pack the scores of valid first")
    assert not (tmp_path / "run").exists()
    assert pack(tmp_path, "valid").exit_code == 0
    assert pack(tmp_path, "test").exit_code == 0
    run = Run.open(tmp_path / "run")
    assert run.ranks("valid").gap_scales.tolist() == run.ranks("test").gap_scales.tolist()
    fails_with(pack(tmp_path, "test"), "already has ranks of test: pass `force=True`")
    assert pack(tmp_path, "test", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "'x' is not NAME=FILE.npy"),
        (["x=", "y=b.npy"], "'x=' is not NAME=FILE.npy"),
        (["x=a.npy", "x=b.npy"], "two models are called 'x'"),
        (["x=a.npy", "X=b.npy"], "two models are called 'x' and 'X'"),
        (["x=missing.npy"], "missing.npy does not exist"),
        (["x=a.npy", "--memory", "lots"], "'lots' is not a size"),
        (["x=a.npy", "--memory", "0M"], "'0M' is not a size"),
    ],
)
def test_wrong_use_of_pack_is_explained(tmp_path, arguments, message):
    (tmp_path / "q.tsv").write_text("0\t0\ttail\t0\n")
    fails_with(
        relens("pack", "--run", tmp_path / "r", "--split", "valid", "--queries", tmp_path / "q.tsv", *arguments),
        message,
    )
    assert not (tmp_path / "r").exists()


def test_options_of_one_layout_are_refused_for_the_other(authors, tmp_path):
    base = ("import", tmp_path / "authors", "--run", tmp_path / "r", "--layout")
    for layout, option, message in (
        ("authors", ["--gaps"], "`gaps=True` is not an option of the layout authors: it belongs to scores and pykeen"),
        ("scores", ["--dataset", "WN"], "`dataset=WN` is not an option of the layout scores: it belongs to authors"),
        ("scores", ["--form", "ogb"], "`form=ogb` is not an option of the layout scores: it belongs to authors"),
        ("pykeen", [], "the layout pykeen needs a data set: pass `data=…`"),
    ):
        fails_with(relens(*base, layout, *option), message)
    assert not (tmp_path / "r").exists()
    assert relens(*base, "authors", "--no-gaps", "--form", "auto").exit_code == 0


def test_show_of_a_run_without_ranks_says_how_to_add_them(tmp_path):
    Run.create(tmp_path / "r", "toy")
    fails_with(relens("show", tmp_path / "r"), "has no ranks yet: add them with `relens ranks import`")


def test_a_model_whose_splits_differ_wildly_gets_a_note(tmp_path):
    rows = score_files.asked(score_files.VALID) * 3, score_files.asked(score_files.TEST) * 3
    for split, queries in zip(("valid", "test"), rows, strict=True):
        scores = np.eye(6, dtype=np.float32)[["abcdef".index(answer) for *_, answer in queries]]
        (tmp_path / f"{split}_queries.tsv").write_text("".join("\t".join(query) + "\n" for query in queries))
        np.save(tmp_path / f"good_{split}_scores.npy", scores)
        np.save(tmp_path / f"permuted_{split}_scores.npy", scores if split == "test" else 1 - scores)
    (tmp_path / "entities.txt").write_text("\n".join("abcdef"))
    result = relens("import", tmp_path, "--layout", "scores", "--run", tmp_path / "run")
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert "permuted: valid MRR 0.167, test MRR 1.000. Splits of one data set rarely differ so much" in shown
    assert "in the order of the query files" in shown
    assert "good: valid MRR" not in shown
    (note,) = json.loads(relens("show", tmp_path / "run", "--json").stdout)["notes"]
    assert note.startswith("permuted: ")


def test_help_lists_every_layout_and_its_options(monkeypatch):
    text = relens("import", "--help").output
    for importer in IMPORTERS.values():
        assert importer.name in text
        for name, option in importer.all_options.items():
            assert f"--{option.flag or name}" in text


class Constant(Importer):
    """An importer of another distribution: all scores are alike."""

    name, description = "constant", "DIR/queries.tsv"
    options = MappingProxyType({"value": Option("The score.", "0"), "models": MODELS})

    def read(self, folder, **options):
        scores = read_scores(folder, models=options["models"])
        rows = {
            split: np.full((len(dense.header.queries), 6), float(options["value"])) for split, dense in scores.items()
        }
        return {
            split: replace(dense, matrices=[Matrix.from_array("x", rows[split])] * len(dense.matrices))
            for split, dense in scores.items()
        }


def test_an_importer_of_another_distribution_is_a_layout(tmp_path, monkeypatch):
    class Point:
        name, value, dist = "constant", "elsewhere:CONSTANT", None

        def load(self):
            return Constant()

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()] if group == "relens.importers" else [])
    monkeypatch.setattr(IMPORTERS, "_entries", None)
    score_files.write_scores(tmp_path, "fbdace")
    text = relens("import", "--help").output
    assert "constant" in text
    assert "--value" in text
    result = relens("import", tmp_path, "--layout", "constant", "--value", "2", "--run", tmp_path / "run", "--json")
    assert json.loads(result.stdout)["splits"]["test"]["mrr"] == pytest.approx({"x": 2 / 7, "y": 2 / 7})
    fails_with(
        relens("import", tmp_path, "--layout", "scores", "--value", "2", "--run", tmp_path / "r"),
        "`value=2` is not an option of the layout scores: it belongs to constant",
    )
    monkeypatch.setattr(Constant, "options", {"gaps": Option("Other gaps.")})
    fails_with(
        relens("import", "--help"), "the layouts scores and constant declare the option 'gaps' in different ways"
    )
    monkeypatch.setattr(IMPORTERS, "_entries", None)
