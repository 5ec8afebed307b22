"""Members of every origin in one run: added, ranked, searched, asked, moved; and every way in which they fail."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("pykeen", reason="needs PyKEEN: pip install 'relens[pykeen]'")

import relens
from relens.data.queries import DIRECTIONS, EVALUATED
from relens.errors import DamagedError, InputError, RanksError, WeightsError
from relens.evaluation import model_ranks
from relens.files import read_json
from relens.prediction import Ensemble
from relens.runs import MADE_BY, Run
from tests import foreign_members
from tests.cli.commands import fail, succeed
from tests.foreign_members import GRAPH, INPUTS, MODULE
from tests.oracles import mean_rank

OWN = ("complex", "transe")
OTHERS = ("pk_transe", "pk_distmult", "frequency", "far")
ASKED = {"head": "e3", "relation": "next"}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    return foreign_members.save_models(tmp_path_factory.mktemp("pykeen"))


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """The folder of the module of scorers, which is on the path."""
    folder = foreign_members.write_module(tmp_path_factory.mktemp("modules") / "scorers")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop(MODULE, None)


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Run:
    """A run of two models of relens; tests only read it."""
    folder = tmp_path_factory.mktemp("own")
    return foreign_members.make_own(folder, folder / "run")


@pytest.fixture(scope="module")
def mixed(own, models, module, tmp_path_factory) -> Run:
    """The same with members of every origin, and weights; tests only read it."""
    path = tmp_path_factory.mktemp("mixed") / "run"
    shutil.copytree(own.path, path)
    succeed(
        "ranks", "add", path, "--pykeen", models / "pk_transe", "--pykeen", models / "pk_distmult",
        "--scorer", f"frequency={MODULE}:Frequency", "--scorer", f"far={MODULE}:Frequency",
        "--arguments", 'far={"scale": -2.0, "offset": 67108864, "dtype": "float64"}', "--trust",
    )  # fmt: skip
    run = Run.open(path)
    foreign_members.fit(run)
    return run


@pytest.fixture
def copied(mixed, tmp_path) -> Run:
    return Run.open(shutil.copytree(mixed.path, tmp_path / "copy"))


@pytest.fixture
def copied_own(own, tmp_path) -> Run:
    return Run.open(shutil.copytree(own.path, tmp_path / "copy"))


def files(run: Run) -> dict[str, bytes]:
    return {
        str(path.relative_to(run.path)): path.read_bytes() for path in sorted(run.path.rglob("*")) if path.is_file()
    }


def test_all_members_are_ranked_and_the_others_keep_their_ranks(own, mixed):
    for split in EVALUATED:
        before, after = own.ranks(split), mixed.ranks(split)
        assert after.models == (*before.models, *OTHERS)
        for number, name in enumerate(before.models):
            np.testing.assert_array_equal(after.answer[number], before.answer[number], err_msg=name)
            assert after.gap_scales[number] == before.gap_scales[number]
    untouched = {name: content for name, content in files(own).items() if name.startswith(("models", "graph", "run"))}
    assert untouched
    assert {name: files(mixed)[name] for name in untouched} == untouched
    assert mixed.member_names == sorted((*OWN, *OTHERS))
    assert mixed.model_names == sorted(OWN)
    assert mixed.made_by()["models"] == {name: mixed.member(name).digest for name in (*OWN, *OTHERS)}


def test_the_ranks_are_those_of_obvious_loops(mixed):
    """Those of float64 scores, too, which float32 would tie."""
    ensemble = Ensemble.open(mixed, "mean-rank", trust=True)
    facts = {tuple(row) for split in GRAPH.splits.values() for row in split.tolist()}
    queries = GRAPH.queries("test")
    for name in OTHERS:
        found = model_ranks(mixed.ranks("test"), name).realistic
        scores = ensemble.models.scores(name, queries)
        for number in range(0, len(queries), 5):
            anchor, relation, direction, answer, _ = queries.columns()[:, number].tolist()
            known = {
                entity
                for entity in range(len(GRAPH.entities))
                if ((anchor, relation, entity), (entity, relation, anchor))[direction] in facts
            }
            assert found[number] == mean_rank(scores[number].tolist(), answer, known - {answer})
    scores = ensemble.models.scores("far", queries)
    assert len(np.unique(scores)) > len(np.unique(scores.astype(np.float32))) == 3


@pytest.mark.parametrize("name", [f"{method}-{input}" for method in ("dsc", "mean") for input in INPUTS])
def test_the_rank_of_a_prediction_is_that_of_the_evaluation(mixed, name):
    ensemble = Ensemble.open(mixed, name, trust=True)
    expected = ensemble.weights.answer_ranks(mixed.ranks("test")).realistic
    entities, relations = GRAPH.entities.labels, GRAPH.relations.labels
    queries = GRAPH.queries("test")
    for number, query in enumerate(zip(*queries.columns()[:4].tolist(), strict=True)):
        anchor, relation, direction, answer = query
        given = {"relation": relations[relation], ("head", "tail")[direction]: entities[anchor]}
        assert ensemble.rank_of(entities[answer], **given) == expected[number], (number, DIRECTIONS[direction])
    used = {
        model
        for model, weight in zip(ensemble.weights.models, ensemble.weights.table.max(axis=0), strict=True)
        if weight
    }
    if name.startswith("mean"):
        assert used == {*OWN, *OTHERS}
        votes = {vote.model for vote in ensemble.predict(**ASKED)[0].votes}
        assert votes == used


def test_nothing_is_imported_or_unpickled_without_trust(copied, module, monkeypatch, tmp_path):
    bomb = tmp_path / "exploded"
    folder = copied.model_path("pk_transe")
    (folder / "pykeen" / "trained_model.pkl").write_bytes(f"cpathlib\nPath\n(V{bomb}\ntR(dcos\nsystem\n.".encode())
    sys.modules.pop(MODULE, None)
    (module / "imported").unlink(missing_ok=True)
    message = (
        r"copy: .*'pk_transe' is a pickle that PyKEEN saved and .*'frequency' is the Python object scorers_of_others:"
        r"Frequency.*: loading them runs whatever code is there\. .* pass `trust=True`\. Trust is not stored"
    )
    with pytest.raises(InputError, match=message):
        Ensemble.open(copied, "mean-rank")
    with pytest.raises(InputError, match=message):
        relens.predict(copied, weights="mean-rank", **ASKED)
    with pytest.raises(InputError, match=r"'far' is the Python object .*trust=True"):
        relens.rank(copied, force=True)
    question = ("--head", "e3", "--relation", "next", "--weights", "mean-rank")
    fail(2, "or trust the person who did, pass --trust. Trust is not stored", "predict", copied.path, *question)
    fail(2, "pass --trust", "serve", copied.path, "--port", 0, "--weights", "mean-rank")
    fail(2, "pass --trust", "rank", copied.path, "--force")
    fail(2, "pass --trust", "ranks", "add", copied.path, "--scorer", f"more={MODULE}:Frequency")
    assert MODULE not in sys.modules
    assert not (module / "imported").exists()
    assert not bomb.exists()
    assert not copied.model_path("more").exists()
    for name in ("run.json", "ranks/made_by.json", "models/pk_transe/member.json"):
        assert "trust" not in (copied.path / name).read_text()


def test_a_moved_run_needs_nothing_but_the_module_of_its_scorers(models, mixed, module, tmp_path):
    moved = shutil.copytree(mixed.path, tmp_path / "elsewhere" / "moved")
    hidden = models.rename(models.with_name("hidden"))
    try:
        expected = Ensemble.open(mixed, "mean-log", trust=True).predict(**ASKED)
        assert relens.predict(moved, weights="mean-log", trust=True, **ASKED) == expected
    finally:
        hidden.rename(models)
    for file in (moved / "models").rglob("member.json"):
        text = file.read_text()
        assert str(models) not in text
        assert str(mixed.path.parent) not in text
    command = ("predict", moved, "--head", "e3", "--relation", "next", "--weights", "mean-log", "--json")
    assert succeed(*command, "--trust").json == json.loads(json.dumps(expected.to_json()))


def test_a_trained_model_and_a_kept_member_can_be_added(copied_own, module):
    run = copied_own
    relens.rank(run, models=["complex"], device="cpu", force=True)
    before = run.ranks("test").answer[0].copy()
    relens.add_members(run, models=["transe"], device="cpu")
    assert run.ranks("test").models == ("complex", "transe")
    np.testing.assert_array_equal(run.ranks("test").answer[0], before)
    relens.add_members(run, scorers={"frequency": (f"{MODULE}:Frequency", {"scale": 3})}, trust=True)
    assert run.member("frequency").origin.arguments == {"scale": 3}
    relens.rank(run, device="cpu", force=True, trust=True)
    assert run.ranks("test").models == ("complex", "frequency", "transe"), "rank includes members of others"


def test_old_weights_say_that_they_must_be_searched_again(copied_own, module):
    run = copied_own
    foreign_members.fit(run)
    relens.add_members(run, scorers={"frequency": f"{MODULE}:Frequency"}, trust=True)
    with pytest.raises(WeightsError, match=r"fitted on other validation ranks .*: search again with `relens search"):
        Ensemble.open(run, "dsc-rank", trust=True)
    succeed("search", run.path, "--method", "mean")
    assert Ensemble.open(run, "mean", trust=True).predict(**ASKED)


def test_a_new_run_can_be_made_of_others_alone(models, module, tmp_path):
    data = foreign_members.write_graph(tmp_path / "ring", GRAPH)
    succeed("ranks", "add", tmp_path / "new", "--dataset", data, "--pykeen", models / "pk_transe", "--names", "one",
            "--scorer", f"frequency={MODULE}:Frequency", "--trust")  # fmt: skip
    run = Run.open(tmp_path / "new")
    assert run.ranks("valid").models == ("one", "frequency")
    succeed("search", run.path, "--method", "mean")
    shutil.rmtree(data)
    answers = succeed("predict", run.path, "--head", "e3", "--relation", "next", "--trust", "--json").json["answers"]
    assert {vote["model"] for vote in answers[0]["votes"]} == {"one", "frequency"}


@pytest.mark.parametrize("way", ["from-pykeen", "import"])
def test_imported_pykeen_models_answer(models, tmp_path, way):
    data, run = foreign_members.write_graph(tmp_path / "ring", GRAPH), tmp_path / "run"
    if way == "import":
        succeed("ranks", "import", models, "--layout", "pykeen", "--data", data, "--run", run, "--trust")
    else:
        folders = [models / name for name in ("pk_transe", "pk_distmult")]
        succeed("ranks", "from-pykeen", *folders, "--dataset", data, "--run", run, "--trust", "--device", "cpu")
    shutil.rmtree(data)
    succeed("search", run, "--method", "mean")
    ensemble = Ensemble.open(run, "mean", trust=True)
    expected = ensemble.weights.answer_ranks(ensemble.run.ranks("test")).realistic
    anchor, relation, direction, answer, _ = GRAPH.queries("test").columns()[:, 7].tolist()
    labels = GRAPH.entities.labels
    given = {"relation": GRAPH.relations.labels[relation], ("head", "tail")[direction]: labels[anchor]}
    assert ensemble.rank_of(labels[answer], **given) == expected[7]


def test_files_of_scores_are_only_evaluated(module, models, own, tmp_path):
    folder = tmp_path / "scores"
    folder.mkdir()
    labels, relations = GRAPH.entities.labels, GRAPH.relations.labels
    for split in EVALUATED:
        queries = GRAPH.queries(split)
        np.save(folder / f"filed_{split}_scores.npy", np.random.default_rng(0).random((len(queries), len(labels))))
        rows = [
            f"{labels[a]}\t{relations[r]}\t{DIRECTIONS[d]}\t{labels[t]}\n"
            for a, r, d, t, _ in queries.columns().T.tolist()
        ]
        (folder / f"{split}_queries.tsv").write_text("".join(rows))
    data, run = foreign_members.write_graph(tmp_path / "ring", GRAPH), tmp_path / "run"
    succeed("ranks", "import", folder, "--layout", "scores", "--data", data, "--run", run)
    assert Run.open(run).made_by()["imported"] == {"filed": "scores"}
    succeed("search", run, "--method", "mean")
    fail(2, "run holds ranks only, and predictions need the models that made them (files were imported, layout scores: "
         "they can be evaluated, and know no other questions)",
         "predict", run, "--head", "e3", "--relation", "next")  # fmt: skip
    fail(2, "has only the ranks of filed, from files or of folders that are missing. New members need the scores of "
         "all for the same candidates, so nothing can be added here. Import all together into a new run with `relens "
         "ranks import`", "ranks", "add", run, "--scorer", f"frequency={MODULE}:Frequency", "--trust")  # fmt: skip
    succeed("evaluate", run, "--weights", "mean")
    shutil.copytree(own.model_path("transe"), run / "models" / "transe")
    with pytest.raises(InputError, match=r"but no model 'filed': .* \(files were imported, layout scores: they can be"):
        Ensemble.open(run, "mean")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_module_of_this_name:x", "there is no module 'no_module_of_this_name' here. Install it, put its folder on "
         "PYTHONPATH, or run relens where no_module_of_this_name.py is"),
        (f"{MODULE}:Frequenzy", "scorers_of_others has no Frequenzy; did you mean 'Frequency'?"),
        (f"{MODULE}:number", "'bad' (scorers_of_others:number) is int, which cannot be called: expected a class"),
        (f"{MODULE}:nothing", "'bad' (scorers_of_others:nothing) returned NoneType without a method score"),
        (f"{MODULE}:broken", "failed when it was called with (data set): RuntimeError: no table of counts here "
         "(scorers_of_others.py, line"),
        ("a b:c", "'a b:c' is not an import path: expected package.module:object"),
        (MODULE, "'scorers_of_others' is not an import path"),
    ],
)  # fmt: skip
def test_scorers_that_cannot_be_loaded_are_explained(copied_own, module, path, message):
    before = files(copied_own)
    fail(2, message, "ranks", "add", copied_own.path, "--scorer", f"bad={path}", "--trust")
    left = files(copied_own)
    left.pop(".lock", None)
    before.pop(".lock", None)
    assert left == before, "nothing is lost, nothing is left"


def test_arguments_are_checked(copied_own, module):
    add = ("ranks", "add", copied_own.path, "--trust", "--scorer", f"bad={MODULE}:Frequency", "--arguments")
    fail(2, "called with (data set, size=3): TypeError", *add, 'bad={"size": 3}')
    fail(2, "the arguments of bad are not JSON", *add, "bad={size: 3}")
    fail(2, "the arguments of bad are 3, expected a JSON object", *add, "bad=3")
    fail(2, "--arguments bat=… has no --scorer bat=…; did you mean 'bad'?", *add, "bat={}")


def test_a_killed_addition_is_finished_by_the_same_command(copied_own, models, module, tmp_path):
    """The members are kept one by one, then all are ranked: a kill leaves some, or all of them not ranked."""
    add = ("--pykeen", models / "pk_transe", "--scorer", f"frequency={MODULE}:Frequency", "--trust", "--device", "cpu")
    begun = Run.open(shutil.copytree(copied_own.path, tmp_path / "begun" / copied_own.path.name))
    succeed("ranks", "add", copied_own.path, *add)
    whole = files(copied_own)
    shutil.copytree(copied_own.model_path("pk_transe"), begun.model_path("pk_transe"))
    succeed("ranks", "add", begun.path, *add)
    assert files(begun) == whole
    assert "pk_transe, frequency: ranked already" in succeed("ranks", "add", begun.path, *add).err
    assert files(begun) == whole
    other = f"frequency={MODULE}:Mood"
    fail(2, "two models are called 'frequency'", "ranks", "add", begun.path, "--scorer", other, "--trust")
    assert files(begun) == whole


def test_names_are_checked(copied_own, models, module):
    path, scorer = copied_own.path, f"{MODULE}:Frequency"
    fail(2, "there is nothing to add", "ranks", "add", path)
    fail(2, "two models are called 'transe' and 'transe'", "ranks", "add", path, "--scorer", f"transe={scorer}")
    fail(2, "two models are called 'transe' and 'TransE'", "ranks", "add", path, "--scorer", f"TransE={scorer}")
    fail(2, "has no member 'rotate'; ", "ranks", "add", path, "--model", "rotate")
    fail(2, "'a/b' cannot name a member: expected 1 to 100", "ranks", "add", path, "--scorer", f"a/b={scorer}")
    relens.rank(copied_own, models=["complex"], device="cpu", force=True)
    with pytest.raises(InputError, match=r"has a member 'transe' already: .* or rank it as it is with `models=transe`"):
        relens.add_members(copied_own, scorers={"transe": scorer}, trust=True)


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        (
            "raises",
            "model 'moody' failed in score() of 64 queries: KeyError: 'no such table' (scorers_of_others.py, line",
        ),
        ("exits", "model 'moody' failed in score() of 64 queries: SystemExit: 3"),
        ("nan", "the score of entity 'e0' is nan, expected a finite number"),
        ("shape", "expected scores of shape (64, 40), found (64, 39)"),
        ("list", "expected scores as a numpy array, found builtins.list"),
    ],
)
def test_a_scorer_that_fails_in_the_middle_ends_the_request_and_the_service_stays_up(served, module, mood, message):
    client, expected = served
    asked = {"head": "e3", "relation": "next"}
    try:
        (module / "mood").write_text(mood)
        answer = client.get("/api/predict", params=asked)
        assert answer.status_code == 500
        assert message in answer.json()["error"]
        assert "Traceback" not in answer.text
        assert client.post("/api/predict", json={"queries": [asked]}).status_code == 500
    finally:
        (module / "mood").unlink()
    answer = client.get("/api/predict", params=asked)
    assert (answer.status_code, answer.json()) == (200, expected)


@pytest.fixture(scope="module")
def served(own, module, tmp_path_factory):
    """A client of the service of a run with a moody member, and its first answer."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    from relens.serve.app import warm_up
    from tests.patience import HANG
    from tests.serve.serving import serving

    path = shutil.copytree(own.path, tmp_path_factory.mktemp("served") / "run")
    relens.add_members(path, scorers={"moody": f"{MODULE}:Mood"}, trust=True)
    succeed("search", path, "--method", "mean")
    ensemble = Ensemble.open(path, "mean", trust=True)
    warm_up(ensemble)
    with serving(ensemble) as address, httpx.Client(base_url=address, timeout=HANG) as client:  # type: ignore[arg-type]
        answer = client.get("/api/predict", params={"head": "e3", "relation": "next"})
        assert answer.status_code == 200, answer.text
        yield client, answer.json()


def test_damaged_copies_of_pykeens_files_are_named(copied):
    folder = copied.model_path("pk_transe") / "pykeen"
    table = folder / "training_triples" / "entity_to_id.tsv.gz"
    table.unlink()
    with pytest.raises(
        DamagedError, match=r"entity_to_id\.tsv\.gz cannot be read: .* Copy the whole folder of the mem"
    ):
        relens.predict(copied, weights="mean-rank", trust=True, **ASKED)
    pickle = folder / "trained_model.pkl"
    content = bytearray(pickle.read_bytes())
    content[len(content) // 2] ^= 1
    pickle.write_bytes(content)
    with pytest.raises(DamagedError, match=r"trained_model\.pkl is damaged: its checksum is"):
        relens.predict(copied, weights="mean-rank", trust=True, **ASKED)
    shutil.rmtree(copied.model_path("pk_transe"))
    with pytest.raises(InputError, match="but no model 'pk_transe': predictions need the models themselves"):
        relens.predict(copied, weights="mean-rank", trust=True, **ASKED)


def test_records_are_checked(copied):
    record = copied.model_path("frequency") / "member.json"
    whole = read_json(record, "member")

    def spoiled(**changes):
        record.write_text(json.dumps(whole | changes))
        return Ensemble.open(copied, "mean-rank", trust=True)

    with pytest.raises(InputError, match=r"member\.json has the origin 'magic', this relens knows pykeen and scorer"):
        spoiled(origin="magic")
    with pytest.raises(InputError, match=r"member\.json is damaged .*Copy the whole folder of the member again"):
        spoiled(object=3)
    with pytest.raises(InputError, match=r"frequency is another one since the run was ranked"):
        spoiled(arguments={"scale": -1.0})
    record.write_text(json.dumps(whole))
    record = copied.model_path("pk_transe") / "member.json"
    whole = read_json(record, "member")
    with pytest.raises(InputError, match=r"member\.json is damaged .*outside the folder"):
        spoiled(files={"../../../x": "0"})


def test_a_member_of_another_graph_is_refused(mixed):
    member = mixed.member("frequency")
    other = relens.Dataset.from_labels("other", train=[("a", "r", "b")])
    with pytest.raises(InputError, match=r"frequency scores ring \(fingerprint .*\), not this other"):
        member.load(other, trust=True)


def test_training_keeps_the_members_of_others(copied, module):
    data = foreign_members.write_graph(copied.path.parent / "ring", GRAPH)
    message = "has a member that relens did not train, and keeps it: train another model"
    for force in ((), ("--force",)):
        fail(2, message, "train", data, "--model", "transe", "--name", "pk_transe", "--run", copied.path, *force)
    before = files(copied)
    plan = [word for change in ("dim=8", "steps=20", "validate_every=20", "batch=64") for word in ("--set", change)]
    run = (
        "run", data, "--run", copied.path, "--models", "transe,complex", "--preset", "demo", *plan, "--device", "cpu",
        "--no-report",
    )  # fmt: skip
    fail(2, "'pk_transe' is a pickle that PyKEEN saved", *run)
    assert files(copied)["ranks/test/manifest.json"] == before["ranks/test/manifest.json"]
    succeed(*run, "--trust")
    assert copied.ranks("test").models == ("transe", "complex", *sorted(OTHERS))
    succeed(*run)  # complete: nothing is loaded
    after = files(copied)
    kept = [name for name in before if name.startswith("models") and not name.endswith(".lock")]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def test_a_record_of_ranks_without_members_is_read(copied):
    """As written by an older relens for imported ranks: none."""
    (copied.path / "ranks" / MADE_BY).unlink()
    assert Ensemble.open(copied, "mean-rank", trust=True).predict(**ASKED)


def test_other_candidates_than_those_of_the_ranks_are_refused(copied_own, module, tmp_path):
    candidates = tmp_path / "candidates"
    data = foreign_members.write_graph(tmp_path / "ring", GRAPH)
    succeed("data", "sample-negatives", data, "-o", candidates, "--per-query", 5)
    with pytest.raises(RanksError, match=r"was ranked otherwise than new members would be: .* pass `candidates=…`"):
        relens.add_members(
            copied_own, models=[], scorers={"f": f"{MODULE}:Frequency"}, candidates=candidates, trust=True
        )
    relens.rank(copied_own, candidates=candidates, device="cpu", force=True)
    before = copied_own.ranks("test").answer.copy()
    relens.add_members(copied_own, scorers={"f": f"{MODULE}:Frequency"}, candidates=candidates, trust=True)
    np.testing.assert_array_equal(copied_own.ranks("test").answer[:2], before)
    assert copied_own.ranks("test").provenance.candidates == "sampled"
