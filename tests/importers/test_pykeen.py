"""PyKEEN's models rank here as they do in PyKEEN, whatever the order of ids, and no pickle is loaded unasked."""

import gzip
import pickle
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("pykeen", reason="needs PyKEEN: pip install 'relens[pykeen]'")

from pykeen.evaluation import RankBasedEvaluator  # noqa: E402

from relens.data.dataset import Dataset  # noqa: E402
from relens.data.queries import HEAD, TAIL  # noqa: E402
from relens.errors import InputError, MissingExtraError, RanksError  # noqa: E402
from relens.evaluation import model_ranks  # noqa: E402
from relens.importers.layouts.pykeen import PykeenFolder, PykeenIds, PykeenScorer  # noqa: E402
from relens.importers.scorers import pack_scorers  # noqa: E402
from tests.pykeen_folders import DATASET, factory, save, train  # noqa: E402

CASES = {
    "transe": ("TransE", {}),
    "rotate": ("RotatE", {}),
    "inverse": ("DistMult", {"inverse": True}),
    "sigmoid": ("ComplEx", {"predict_with_sigmoid": True}),
}
PYKEENS_ROUNDING = 1e-7
"""Its ranks are float32."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    results = {name: train(model, **options) for name, (model, options) in CASES.items()}
    return save(tmp_path_factory.mktemp("pykeen"), **results)


@pytest.fixture
def folder(folders, tmp_path):
    """A copy of one model's folder, to break."""
    return shutil.copytree(folders / "transe", tmp_path / "transe")


def load(folder, dataset=DATASET, **options):
    return PykeenFolder.open(folder, dataset, **options).load(trust=True)


def pykeen_mrr(model, side):
    """Return the filtered realistic MRR of test as PyKEEN computes it."""
    others = [factory(DATASET.splits[split]).mapped_triples for split in ("train", "valid")]
    result = RankBasedEvaluator(filtered=True).evaluate(
        model, factory(DATASET.test).mapped_triples, additional_filter_triples=others, batch_size=4, use_tqdm=False
    )
    return result.get_metric(f"{side}.realistic.inverse_harmonic_mean_rank")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_the_mrr_is_pykeens_own(folders, name, tmp_path):
    scorer = load(folders / name)
    packed = pack_scorers({name: scorer}, DATASET, tmp_path)["test"]
    reciprocal = 1 / model_ranks(packed, name).realistic
    direction = packed.queries.direction
    for side, of_side in (("both", direction >= 0), ("tail", direction == TAIL), ("head", direction == HEAD)):
        assert reciprocal[of_side].mean() == pytest.approx(pykeen_mrr(scorer._model, side), abs=PYKEENS_ROUNDING), side


@pytest.mark.filterwarnings("ignore")
def test_ties_share_their_mean_rank_as_in_pykeen(folders, tmp_path):
    scorer = load(folders / "transe")
    with torch.no_grad():
        for parameter in scorer._model.parameters():
            parameter.zero_()
    packed = pack_scorers({"zero": scorer}, DATASET, tmp_path)["test"]
    ranks = model_ranks(packed, "zero").realistic
    np.testing.assert_array_equal(ranks, (packed.n_candidates + 1) / 2)
    assert (1 / ranks).mean() == pytest.approx(pykeen_mrr(scorer._model, "both"), abs=PYKEENS_ROUNDING)


@pytest.mark.parametrize("name", ["transe", "sigmoid"])
def test_scores_are_those_of_the_triples_by_label(folders, name):
    scorer = load(folders / name)
    queries = DATASET.queries("test")
    scores = scorer.score(queries)
    training = factory(DATASET.train)
    entities, relations = DATASET.entities.labels, DATASET.relations.labels
    for q, (anchor, relation, direction, _, _) in enumerate(queries.columns().T.tolist()):
        pairs = [(entities[anchor], label)[:: -1 if direction == HEAD else 1] for label in entities]
        triples = [
            (training.entity_to_id[head], training.relation_to_id[relations[relation]], training.entity_to_id[tail])
            for head, tail in pairs
        ]
        with torch.inference_mode():
            expected = scorer._model.score_hrt(torch.tensor(triples)).numpy()[:, 0]
        np.testing.assert_allclose(scores[q], expected, rtol=1e-5, atol=1e-6)


def test_a_model_in_memory_needs_no_folder():
    result = train("TransE")
    scorer = PykeenScorer.from_model(result.model, result.training, DATASET)
    assert scorer.score(DATASET.queries("valid")).shape == (6, 14)
    other = Dataset.from_labels("other", train=[("a", "next", "b")])
    with pytest.raises(RanksError, match="PyKEEN's TransE: the model has 14 entities that other lacks"):
        PykeenScorer.from_model(result.model, result.training, other)


def test_batches_follow_memory(folders, monkeypatch):
    scorer, queries = load(folders / "transe"), DATASET.queries("test")
    expected = scorer.score(queries)
    small = PykeenScorer(scorer._model, scorer._ids, memory=1)
    np.testing.assert_allclose(small.score(queries), expected, rtol=1e-5)
    predict = scorer._model.predict_t

    def scarce(batch):
        if len(batch) > 1:
            raise torch.OutOfMemoryError("no memory for so many")
        return predict(batch)

    monkeypatch.setattr(scorer._model, "predict_t", scarce, raising=False)
    np.testing.assert_allclose(scorer.score(queries), expected, rtol=1e-5)
    assert scorer._batches.rows == 1
    monkeypatch.setattr(small._model, "predict_t", lambda batch: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError, match="none"):
        small.score(queries)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_is_not_opened_without_trust(folder, tmp_path):
    (folder / "trained_model.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    found = PykeenFolder.open(folder, DATASET)
    with pytest.raises(InputError, match=r"trained_model.pkl: loading a pickle runs .* pass `trust=True`"):
        found.load(trust=False)
    assert not (tmp_path / "sprung").exists()


def test_files_that_are_not_models_are_refused(folder):
    torch.save({"weights": torch.ones(2)}, folder / "trained_model.pkl")
    with pytest.raises(RanksError, match="holds dict, expected a PyKEEN model"):
        load(folder)
    (folder / "trained_model.pkl").write_bytes(b"no pickle at all")
    with pytest.raises(
        RanksError, match=r"cannot be loaded by PyKEEN [\d.]+ here: .*Use the PyKEEN and torch that saved"
    ):
        load(folder)


def test_a_model_of_fewer_entities_than_its_labels_is_refused(folder):
    model = torch.load(folder / "trained_model.pkl", weights_only=False)
    model.num_entities = 3
    torch.save(model, folder / "trained_model.pkl")
    with pytest.raises(RanksError, match="has 3 entities, but there are labels of 14 beside it"):
        load(folder)


def test_pykeen_is_an_extra(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pykeen.version", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install -c constraints.txt '.[pykeen]'")):
        load(folder)


def test_a_folder_that_pykeen_did_not_write_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match=r"is not a folder: expected a folder written by pipeline_result.save"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"has no trained_model\.pkl"):
        load(tmp_path)
    table = folder / "training_triples" / "relation_to_id.tsv.gz"
    for text, message in (
        ("label\tid\nnext\t0\n", "expected the columns id, label"),
        ("id\tlabel\n0\tnext\n2\ttwice\n", "expected the ids 0 to 1, each with its label"),
        ("id\tlabel\nx\tnext\n", "expected the ids 0 to 0"),
    ):
        table.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(InputError, match=message):
            load(folder)
    table.unlink()
    with pytest.raises(InputError, match=r"relation_to_id.tsv.gz does not exist: expected the labels of the"):
        load(folder)


@pytest.mark.parametrize("name", CASES)
def test_the_score_of_a_query_does_not_depend_on_the_others(folders, name):
    scorer = load(folders / name)
    queries = DATASET.queries("train")
    together = scorer.score(queries)
    for number in range(0, len(queries), 7):
        np.testing.assert_array_equal(scorer.score(queries[[number]])[0], together[number])
    np.testing.assert_array_equal(scorer.score(queries[::-1])[::-1], together)


def changed(**splits):
    """Return the small data set with other triples of labels."""
    entities, relations = DATASET.entities.labels, DATASET.relations.labels
    rows = {
        split: [(entities[head], relations[relation], entities[tail]) for head, relation, tail in triples.tolist()]
        for split, triples in DATASET.splits.items()
    }
    return Dataset.from_labels("changed", **{split: [*rows[split], *splits.get(split, ())] for split in rows})


def test_labels_that_one_side_lacks_are_refused(folders):
    with pytest.raises(
        RanksError, match=r"the model lacks 1 of the 15 entities of changed, such as 'new'\. Train it .*entity_to_id"
    ):
        load(folders / "transe", changed(test=[("e0", "next", "new")]))
    with pytest.raises(RanksError, match=r"lacks 1 of the 4 relations of changed, such as 'likes'"):
        load(folders / "transe", changed(train=[("e0", "likes", "e1")]), missing="last")
    smaller = Dataset.from_labels("smaller", train=[(f"e{i}", "next", "e0") for i in range(13)])
    with pytest.raises(RanksError, match=r"has 1 entities that smaller lacks, such as 'e13' .did you mean"):
        load(folders / "transe", smaller)


def test_entities_that_a_model_does_not_know_come_last_if_asked_for(folders, tmp_path):
    dataset = changed(valid=[("e1", "next", "new"), ("new", "next", "e2")], test=[("e0", "next", "newer")])
    scorer = load(folders / "transe", dataset, missing="last")
    packs = pack_scorers({"transe": scorer}, dataset, tmp_path)
    valid, ranks = packs["valid"], model_ranks(packs["valid"], "transe").realistic
    labels = np.array(dataset.entities.labels)
    answers, anchors = labels[valid.queries.answer], labels[valid.queries.anchor]
    (row,) = np.flatnonzero((answers == "new") & (anchors == "e1"))
    assert ranks[row] == valid.n_candidates[row] - 0.5, "the last two share the last two places"
    for row in np.flatnonzero(anchors == "new"):
        assert ranks[row] == (valid.n_candidates[row] + 1) / 2
    known = pack_scorers({"transe": load(folders / "transe")}, DATASET, tmp_path / "known")["valid"]
    np.testing.assert_array_equal(model_ranks(known, "transe").realistic, ranks[:6])


def test_a_model_that_was_trained_on_held_out_triples_is_refused(folder):
    entities, relations = DATASET.entities.labels, DATASET.relations.labels
    rows = [(entities[h], relations[r], entities[t]) for h, r, t in DATASET.train.tolist()]
    other_split = Dataset.from_labels("split anew", train=rows[5:], valid=rows[:3], test=rows[3:5])
    with pytest.raises(
        RanksError, match="was trained on 5 of the 5 triples that split anew holds out for valid and test"
    ):
        PykeenFolder.open(folder, replace(other_split, name="split anew"))
    (folder / "training_triples" / "numeric_triples.tsv.gz").unlink()
    assert isinstance(PykeenFolder.open(folder, DATASET).ids, PykeenIds)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("numeric_triples", "1\tx\t2", r"row 2: found \['1', 'x', '2'\], expected three ids"),
        ("numeric_triples", "1\tnan\t2", "expected three ids"),
        ("numeric_triples", f"1\t0\t{'9' * 30}", "expected three ids"),
        ("numeric_triples", "14\t0\t1", r"row 2: found .*expected entities below 14 and relations below 3"),
        ("entity_to_id", f"{'1' * 5000}\te1", "expected the ids 0 to 0"),
        ("entity_to_id", f"0\t{'x' * 140_000}", r"is not as PyKEEN writes it \(field larger than field limit"),
    ],
    ids=range(6),
)
def test_tables_without_ids_are_refused(folder, file, text, message):
    path = folder / "training_triples" / f"{file}.tsv.gz"
    heading = gzip.decompress(path.read_bytes()).split(b"\n")[0]
    path.write_bytes(gzip.compress(heading + b"\n" + text.encode() + b"\n"))
    with pytest.raises(InputError, match=message):
        PykeenFolder.open(folder, DATASET)


def test_labels_that_need_quotes_are_read(folder):
    table = folder / "training_triples" / "entity_to_id.tsv.gz"
    text = gzip.decompress(table.read_bytes()).decode().replace("\te1\n", '\t"a ""quoted"" one"\n')
    table.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(RanksError, match=re.escape("""has 1 entities that small lacks, such as 'a "quoted" one'""")):
        load(folder)
