"""The table of importers: entries, their options, and the one verb that imports."""

from types import MappingProxyType

import numpy as np
import pytest

from relens.errors import InputError, RanksError
from relens.importers.importer import DATA, FILTER, IMPORTERS, MODELS, RELATIONS, Importer, read_ranks
from relens.importers.layouts.pykeen import find_folders
from relens.pipeline.ranking import import_ranks
from tests import authors_files, score_files


def test_the_table_has_the_layouts_in_order():
    assert list(IMPORTERS) == ["authors", "scores", "pykeen"]
    for importer in IMPORTERS.values():
        assert "DIR" in importer.description
        assert "\n" not in importer.description
        assert all(option.help for option in importer.all_options.values())
    assert [(i.needs_data, i.needs_trust) for i in IMPORTERS.values()] == [(False, False), (False, False), (True, True)]
    assert {"data", "trust"} <= IMPORTERS["pykeen"].all_options.keys()


def test_ranks_are_imported_with_one_call(tmp_path):
    authors_files.write_authors(tmp_path / "authors")
    run = import_ranks("authors", tmp_path / "authors", run=tmp_path / "run", models=["rotate"], filtered=True)
    assert run.ranks("test").models == ("rotate",)
    assert run.ranks("valid").provenance.filter_splits == ("valid", "test")
    with pytest.raises(RanksError, match="already has ranks"):
        import_ranks("authors", tmp_path / "authors", run=tmp_path / "run")
    again = import_ranks("authors", tmp_path / "authors", run=tmp_path / "run", force=True, jobs=1, memory_budget=1)
    assert again.ranks("test").models == ("ConvE", "rotate")


@pytest.mark.parametrize("as_name", [True, False])
def test_a_data_set_is_given_itself_or_by_name(tmp_path, as_name):
    scores, graph = tmp_path / "scores", tmp_path / "toy"
    scores.mkdir()
    graph.mkdir()
    score_files.write_scores(scores)
    for split, triples in (("train", score_files.TRAIN), ("valid", score_files.VALID), ("test", score_files.TEST)):
        (graph / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in triples))
    data = str(graph) if as_name else score_files.dataset()
    found = read_ranks("scores", scores, data=data)["test"].header
    assert found.provenance.fingerprint == score_files.dataset().fingerprint
    assert found.gap_scales is not None


@pytest.mark.parametrize(
    ("layout", "options", "message"),
    [
        ("score", {}, "unknown layout 'score'; did you mean 'scores'"),
        ("scores", {"form": "ogb"}, "`form=ogb` is not an option of the layout scores: it belongs to authors"),
        ("authors", {"gaps": True}, "`gaps=True` is not an option of the layout authors: it belongs to scores and pyk"),
        ("scores", {"model": ["x"]}, "`model=…` is not an option of the layout scores: did you mean 'models'"),
        ("authors", {"form": "obg"}, "unknown form 'obg'; did you mean 'ogb'"),
        ("authors", {"n_relations": 0}, "n_relations is 0, expected at least 1"),
        ("authors", {"n_relations": "3"}, "n_relations is '3', expected a whole number"),
        ("scores", {"filtered": 1}, "filtered is 1, expected True or False"),
        ("pykeen", {}, "the layout pykeen needs a data set: pass `data=…`"),
        ("pykeen", {"data": score_files.dataset()}, "loading a pickle runs whatever code .* pass `trust=True`"),
        ("pykeen", {"data": score_files.dataset(), "trust": True}, "has no folders with a trained_model.pkl"),
    ],
)
def test_wrong_options_are_explained(tmp_path, layout, options, message):
    with pytest.raises(InputError, match=message):
        read_ranks(layout, tmp_path, **options)


def test_an_option_that_asks_for_nothing_may_belong_to_another_layout(tmp_path):
    authors_files.write_authors(tmp_path)
    assert set(read_ranks("authors", tmp_path, gaps=False, trust=None)) == {"valid", "test"}


def test_needs_add_options_once():
    class Careful(Importer):
        name, description, needs_data, needs_trust = "careful", "DIR/it", True, True
        options = MappingProxyType({"models": MODELS, "data": DATA})

        def read(self, folder, **options):
            return {}

    assert list(Careful().all_options) == ["trust", "models", "data"]
    assert (RELATIONS.flag, FILTER.flag) == ("relations", "filter")


def test_models_are_found_below_a_folder_in_the_order_asked_for(tmp_path):
    for name in ("b", "a", "not"):
        (tmp_path / name).mkdir()
    for name in ("b", "a"):
        (tmp_path / name / "trained_model.pkl").write_bytes(b"")
    assert list(find_folders(tmp_path)) == ["a", "b"]
    assert find_folders(tmp_path, ["b"]) == {"b": tmp_path / "b"}
    with pytest.raises(RanksError, match="has no model 'not'"):
        find_folders(tmp_path, ["not"])


def test_saved_models_are_imported_as_a_layout(tmp_path):
    pytest.importorskip("pykeen", reason="needs PyKEEN: pip install 'relens[pykeen]'")
    from relens.evaluation import model_ranks
    from relens.importers.layouts.pykeen import PykeenFolder
    from relens.importers.scorers import pack_scorers
    from tests.pykeen_folders import DATASET, save, train

    save(tmp_path / "saved", transe=train("TransE"), inverse=train("DistMult", inverse=True))
    run = import_ranks("pykeen", tmp_path / "saved", run=tmp_path / "run", data=DATASET, trust=True)
    assert run.ranks("test").models == ("inverse", "transe")
    assert run.graph().fingerprint == DATASET.fingerprint
    scorer = PykeenFolder.open(tmp_path / "saved" / "transe", DATASET).load(trust=True)
    expected = pack_scorers({"transe": scorer}, DATASET, tmp_path / "alone")["test"]
    found = model_ranks(run.ranks("test"), "transe").realistic
    assert np.array_equal(found, model_ranks(expected, "transe").realistic)


def test_lines_of_query_files_are_numbered_as_in_an_editor(tmp_path):
    score_files.write_scores(tmp_path)
    lines = (tmp_path / "test_queries.tsv").read_text().splitlines()
    lines[2] = lines[2].replace("likes", "loves").replace("owns", "loves")
    (tmp_path / "test_queries.tsv").write_text("\n" + "\n".join(lines) + "\n")
    with pytest.raises(RanksError, match=r"test_queries.tsv, line 4: unknown relation 'loves'"):
        read_ranks("scores", tmp_path, data=score_files.dataset())
