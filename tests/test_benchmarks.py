"""The benchmark programs run, and the figures of one run do not contradict each other."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relens.comparison import Comparison
from relens.data.queries import EVALUATED
from relens.ensemble.search import search as search_weights
from relens.evaluation import evaluate
from relens.files import read_json
from relens.packs.reduced import write_reduced
from relens.packs.store import load_pack
from relens.runs import Run
from tests.patience import HANG

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def run(program: str, *arguments: str | Path) -> str:
    command = [sys.executable, str(BENCHMARKS / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def search_file(folder: Path) -> Path:
    output = folder / "search.json"
    run(
        "bench_search.py", "--shape", "tiny", "--repeats", "1", "--sample-groups", "3", "--authors-trials", "70",
        "--tpe-trials", "22", "--cache", folder / "cache", "--output", output,
    )  # fmt: skip
    return output


@pytest.fixture(scope="module")
def search(search_file: Path) -> dict[str, Any]:
    return json.loads(search_file.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pack(folder: Path) -> dict[str, Any]:
    return json.loads(run("bench_pack.py", "--shape", "tiny", "--size", "0.001", "--repeats", "1", "--cache", folder))


@pytest.fixture(scope="module")
def scale(folder: Path) -> dict[str, Any]:
    output = folder / "scale.json"
    run(
        "bench_scale.py", "--triples", "1100", "--parts", "2,1", "--repeats", "1", "--folder", folder / "files",
        "--output", output,
    )  # fmt: skip
    return json.loads(output.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Any]:
    output = folder / "models.json"
    run(
        "bench_models.py", "--shape", "tiny", "--models", "9,6", "--repeats", "1", "--folder", folder / "packs",
        "--output", output,
    )  # fmt: skip
    return json.loads(output.read_text(encoding="utf-8"))


def run_training(output: Path, *arguments: str) -> dict[str, Any]:
    """Run the benchmark of training at a tiny size; one thread, because two wait long for each other on busy cores."""
    run(
        "bench_training.py", "--dimension", "8", "--negatives", "4", "--seconds", "0.05", "--repeats", "2",
        "--triples", "40", "--workers", "0", "--threads", "1", "--preset", "demo", "--output", output, *arguments,
    )  # fmt: skip
    return json.loads(output.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def training(folder: Path) -> dict[str, Any]:
    pytest.importorskip("pykeen", reason="PyKEEN is not installed")
    return run_training(folder / "training.json", "--batch", "64")


def test_a_search_report_has_all_parts(search: dict[str, Any]) -> None:
    parts = "shape settings environment sweep methods evaluation growth default_fit tpe authors targets"
    assert set(parts.split()) <= search.keys()
    assert search["environment"]["versions"]["relens"]
    assert search["shape"]["queries"] == 188
    assert search["shape"]["groups_with_queries"] == 12
    assert len(search["targets"]) == 9


def test_the_sweep_is_no_worse_than_anything_else(search: dict[str, Any]) -> None:
    best = search["sweep"]["mrr"]
    assert best == search["methods"]["dsc"]
    others = [search["methods"][name] for name in ("best_single", "mean", "simple")]
    assert best >= max(*others, search["tpe"]["mrr"])
    assert search["authors"]["mrr_sweep"] >= search["authors"]["mrr"]


def test_dense_ranks_and_packed_ranks_agree_on_the_authors_weights(search: dict[str, Any]) -> None:
    """Weights drawn at random tie hardly anything, so breaking ties by position makes no difference."""
    for row in search["authors"]["sample"]:
        assert row["mrr_dense"] == pytest.approx(row["mrr"], abs=1e-9)


def test_extrapolation_adds_up(search: dict[str, Any]) -> None:
    authors, shape = search["authors"], search["shape"]
    estimate = authors["extrapolated"]
    objective = sum(row["objective_seconds"] for row in authors["sample"])
    overhead = sum(row["hyperopt_seconds"] for row in authors["sample"])
    expected = objective * shape["queries"] / authors["sample_queries"]
    expected += overhead * shape["groups_with_queries"] / len(authors["sample"])
    assert estimate["seconds"] == pytest.approx(expected / estimate["workers"])


def test_growth_is_measured_on_whole_triples(search: dict[str, Any]) -> None:
    assert search["growth"]["queries"] == [12, 48, 188]


def test_packing_report_has_all_cases_and_stays_within_the_limit(pack: dict[str, Any]) -> None:
    assert list(pack["cases"]) == ["ranks", "scores", "scores with gaps"]
    for case in pack["cases"].values():
        assert case["ratio_to_best_read"] > 0
        assert case["peak_private_gb"] <= pack["settings"]["limit_gb"]
    # Scores hold twice the bytes of ranks per query, and gaps come on top of what a store holds anyway.
    assert pack["cases"]["ranks"]["queries"] == pytest.approx(2 * pack["cases"]["scores"]["queries"], abs=1)
    assert pack["cases"]["scores with gaps"]["store_bytes"] > pack["cases"]["scores"]["store_bytes"]


def test_a_large_graph_has_its_shape_and_a_report_of_all_steps(folder: Path) -> None:
    output = folder / "large.json"
    run(
        "bench_large.py", "--parts", "8192,4096", "--jobs", "1", "--folder", folder / "large", "--output", output,
    )  # fmt: skip
    report = json.loads(output.read_text(encoding="utf-8"))
    small, large = report["sizes"]
    assert (large["entities"], large["train"], large["valid"], large["test"]) == (1121, 5032, 100, 100)
    assert large["relations"] <= 822
    assert small["costs"].keys() == large["costs"].keys() == report["growth"].keys()
    assert all(cost["peak_gb"] > 0 and cost["seconds"] > 0 for cost in large["costs"].values())
    assert [target["name"] for target in report["targets"]][-1] == "GB while reading"
    assert list((folder / "large").iterdir()) == []


def test_a_scale_report_counts_what_the_authors_files_hold(folder: Path, scale: dict[str, Any]) -> None:
    small, large = scale["sizes"]
    for size, triples in ((small, 550), (large, 1100)):
        assert (size["triples"], size["queries"], size["groups"]) == (triples, 4 * triples, 1070)
        assert size["file_bytes"] == 3 * (128 + 2 * triples * 1002 * 2)
        assert size["mrr"] >= size["mrr"] - size["mrr_over_first_model"] > 0
    assert set(scale["growth"]) == {"pack", "search", "evaluation", "store bytes", "peak memory"}
    assert 0 < scale["growth"]["store bytes"] < 1.5
    assert "default_fit" in large.keys() - small.keys()
    assert not any((folder / "files").iterdir())
    assert "| 4,400, 1,070 |" in run("tables.py", folder / "scale.json")


def test_a_models_report_grows_with_the_models(folder: Path, models: dict[str, Any]) -> None:
    few, many = models["sizes"]
    assert (few["models"], many["models"]) == (6, 9)
    assert few["statistics"]["contested"] < many["statistics"]["contested"]
    assert few["store_bytes"] < many["store_bytes"]
    for size in (few, many):
        assert size["mrr"] >= size["mrr_best_single"]
    assert 1 <= many["few"]["models_used"] <= 3 < many["models_used"]
    assert many["mrr_best_single"] <= many["few"]["mrr"]
    assert f"{many['few']['mrr']:.4f} (at most 3)" in run("tables.py", folder / "models.json")


def test_files_of_ogbs_form_are_read_in_both_protocols(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    report = tmp_path / "ogb.json"
    run("bench_ogb.py", "--part", "1e-4", "--repeats", "1", "--cache", tmp_path, "--output", report)
    found = json.loads(report.read_text(encoding="utf-8"))
    triples, negatives = found["settings"]["triples"], 1000
    assert triples == 42
    for form in found["forms"].values():
        assert 0 < form["bytes"] - 2 * triples * negatives * 8 < form["bytes"] / 2
        assert form["peak_gb"] * 1e9 > form["bytes"]
    assert list(tmp_path.iterdir()) == [report]
    assert "torch.save's default | protocol 4 |" in run("tables.py", report)


def test_tables_show_the_figures(folder: Path, search_file: Path, pack: dict[str, Any]) -> None:
    pack_file = folder / "pack.json"
    pack_file.write_text(json.dumps(pack), encoding="utf-8")
    text = run("tables.py", search_file, pack_file)
    mrr = json.loads(search_file.read_text(encoding="utf-8"))["sweep"]["mrr"]
    assert f"| dsc, sweep (c) | {mrr:.4f} |" in text
    assert "| scores with gaps |" in text
    assert "| times faster than relens tpe |" in text


def test_a_training_report_compares_with_pykeen(training: dict[str, Any]) -> None:
    assert training["environment"]["versions"]["pykeen"]
    for part, others in (
        ("training", {"relens, negatives per row", "relens, its own recipe"}),
        ("ranking", {"relens", "relens, making the filter"}),
    ):
        assert list(training[part]) == ["transe", "rotate"]
        for found in training[part].values():
            assert found["rows"].keys() == {"pykeen", *others}
            assert found["ratios"].keys() == others
            for name, ratio in found["ratios"].items():
                assert len(found["rows"][name]["all"]) == 2
                assert ratio == pytest.approx(found["rows"][name]["median"] / found["rows"]["pykeen"]["median"])


def test_pykeen_ranks_the_same_with_the_same_parameters(training: dict[str, Any]) -> None:
    """Only TransE: PyKEEN's RotatE takes another norm."""
    found = training["ranking"]["transe"]
    assert found["queries"] == 80
    assert found["mrr"]["pykeen"] == pytest.approx(found["mrr"]["relens"], rel=1e-3)


def test_bounds_of_training_steps_add_up(training: dict[str, Any]) -> None:
    from relens.models import MODELS

    models = training["limits"]["models"]
    assert list(models) == list(MODELS)
    for model, row in models.items():
        phases = row["bound"]["phases"]
        assert row["bound"]["seconds"] == pytest.approx(sum(phase["seconds"] for phase in phases.values()))
        assert row["share"] == pytest.approx(1e3 * row["bound"]["seconds"] / row["milliseconds"]["median"])
        # Adagrad has one moment, Adam two.
        passes = 20 if model in {"complex", "autoblm", "complex-rp"} else 28
        assert phases["optimiser"]["bytes"] == passes * row["parameters"]
    assert models["transe"]["pairs"] == 512 * 129
    assert models["transe"]["bound"]["phases"]["forward"]["multiply_adds"] == 2 * 512 * 129 * 64
    assert models["rotate"]["bound"]["phases"]["forward"]["roots"] == 512 * 129 * 32


def test_what_fails_in_a_training_benchmark_is_recorded(folder: Path) -> None:
    """A batch larger than the training split: PyKEEN has none, batches of relens span epochs."""
    pytest.importorskip("pykeen", reason="PyKEEN is not installed")
    found = run_training(folder / "failed.json", "--part", "training", "--model", "transe", "--batch", "8192")
    rows = found["training"]["transe"]["rows"]
    assert "Did not have a single training batch" in rows["pykeen"]["error"]
    assert rows["relens, its own recipe"]["median"] > 0
    assert found["training"]["transe"]["ratios"] == {}
    assert "ranking" not in found


@pytest.mark.parametrize("name", ["complex", "conve", "compgcn", "autoblm", "complex-rp"])
def test_matrix_products_of_a_step_are_counted_as_pytorch_counts_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from relens.data.catalog import load_dataset
    from relens.training.loop import new_model
    from relens.training.objective import build_objective
    from relens.training.presets import resolve_settings
    from relens.training.queries import TrainingQueries

    monkeypatch.syspath_prepend(BENCHMARKS)
    limits = import_module("limits")
    dataset, settings = load_dataset("patterns"), resolve_settings("patterns", name, "demo", ["batch=32"])
    sizes = len(dataset.entities), len(dataset.relations)
    model = new_model(settings, dataset.train, *sizes).train()
    facts = torch.from_numpy(dataset.train.astype("int64"))
    objective, _ = build_objective(model, TrainingQueries.from_triples(facts, *sizes), settings)
    counted = []
    in_place = {torch.ops.aten.addmm_: lambda total, left, right, *rest, **options: 2 * left[0] * left[1] * right[1]}
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        loss = objective(torch.arange(settings.batch))
        counted.append(counter.get_total_flops())
        loss.backward()
        counted.append(counter.get_total_flops() - counted[0])
    work = limits.step(limits.Case(settings, *sizes, len(facts), model.n_parameters))
    assert [2 * work.forward.products, 2 * work.backward.products] == counted


@pytest.fixture(scope="module")
def ring(folder: Path) -> Path:
    """A finished run on a tiny graph."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    import relens
    from tests.pipeline.graph import CHANGES, MODELS, write_ring

    return relens.run(
        write_ring(folder / "ring"), run=folder / "run", models=MODELS, methods=("mean", "dsc"), changes=CHANGES,
        device="cpu", jobs=1, report=False,
    ).path  # fmt: skip


def test_a_record_of_a_run_has_its_models_and_methods_and_their_ranks(folder: Path, ring: Path) -> None:
    run(
        "record_run.py", ring, "--command", "relens run ring", "--device", "a CPU",
        "--output", folder / "record.json", "--ranks", folder / "ranks.npz",
    )  # fmt: skip
    record = json.loads((folder / "record.json").read_text())
    comparison = Comparison.from_json(json.loads((ring / "comparison.json").read_text()))
    expected = {evaluation.name: evaluation.overall.mrr for evaluation in comparison.evaluations}
    found = {**record["models"], **record["methods"]}
    assert {name: entry["test"]["mrr"] for name, entry in found.items()} == expected
    for model in record["models"].values():
        assert max(model["validation_mrr_by_step"].values()) == pytest.approx(model["best_mrr"], abs=1e-4)
        assert model["settings"]["steps"] == 30
    seconds = [json.loads(log.read_text().splitlines()[-1])["seconds"] for log in ring.glob("models/*/log.jsonl")]
    assert record["training_seconds"] == pytest.approx(sum(seconds))
    assert min(seconds) > 0
    with np.load(folder / "ranks.npz", allow_pickle=False) as ranks:
        mrrs = np.mean(1 / (1 + ranks["ahead"] + ranks["tied"] / 2), axis=1)
        assert dict(zip(ranks["names"].tolist(), mrrs.tolist(), strict=True)) == pytest.approx(expected)
        assert ranks["relation"].shape == ranks["triple"].shape == ranks["ahead"][0].shape


def test_models_are_judged_by_both_protocols(tmp_path: Path) -> None:
    """The whole script, on a tiny graph: the same models rank among all entities, then among a few."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from tests.pipeline.graph import CHANGES, write_ring

    changes = "\n".join(CHANGES[:4])  # those that all models have
    config = tmp_path / "tiny.toml"
    config.write_text(
        f'dataset = "{write_ring(tmp_path / "ring")}"\nmodels = ["autoblm", "complex-rp"]\nmethods = ["mean", "dsc"]\n'
        f"[set]\n{changes}\n"
    )
    script = BENCHMARKS / "reproduction/leaderboard.sh"
    environment = {**os.environ, "RELENS": f"{sys.executable} -m relens", "PYTHON": sys.executable, "DEVICE": "cpu"}
    command = ["bash", script, tmp_path / "run", tmp_path / "results", config]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr + (tmp_path / "results/run.log").read_text()
    full, sampled = (json.loads((tmp_path / f"results/{name}.json").read_text()) for name in ("full", "sampled"))
    assert [record["provenance"]["candidates"] for record in (full, sampled)] == ["all", "sampled"]
    for name in ("autoblm", "complex-rp"):
        assert sampled["models"][name]["best_mrr"] == full["models"][name]["best_mrr"]
        assert sampled["models"][name]["test"]["mrr"] >= full["models"][name]["test"]["mrr"]


def test_searches_go_on_where_they_stopped(folder: Path, ring: Path) -> None:
    pytest.importorskip("optuna", reason="needs Optuna: pip install 'relens[tpe]'")
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'relens[stacking]'")
    command = ("paper_searches.py", ring, "--output", folder / "s.json", "--trials", "2", "--basic-trials", "2")
    printed = run(*command, "--jobs", "1").splitlines()
    record = read_json(folder / "s.json", "searches")
    assert [line.partition(":")[0] for line in printed] == list(record["searches"])
    assert {"stacking", "dsc, sweep", "simple, sweep, resample 9", "dsc, tpe, Q = 2, seed 4"} <= record[
        "searches"
    ].keys()
    exact, sampled = (record["searches"][name]["valid"]["mrr"] for name in ("dsc, sweep", "dsc, tpe, Q = 2, seed 0"))
    assert exact >= sampled
    valid, test = (Run.open(ring).ranks(split) for split in ("valid", "test"))
    for name, searched, given in [
        ("dsc, sweep", valid, "rank"),
        ("dsc, sweep, on test itself", test, "rank"),
        ("dsc, sweep, score gaps, on test itself", test, "score"),
    ]:
        with pytest.warns(UserWarning, match="test split") if searched is test else nullcontext():
            weights = search_weights(searched, method="dsc", input=given, regularise="none")
        for split, ranks in (("valid", valid), ("test", test)):
            assert record["searches"][name][split]["mrr"] == evaluate(ranks, weights).overall.mrr
    del record["searches"]["mean"]
    (folder / "s.json").write_text(json.dumps(record))
    assert [line.partition(":")[0] for line in run(*command, "--jobs", "1").splitlines()] == ["mean"]


def test_curves_at_the_size_of_a_data_set_rise_and_the_sweep_ends_highest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, with few trials: a search of 51 relations with all of them takes a minute."""
    pytest.importorskip("optuna", reason="needs Optuna: pip install 'relens[tpe]'")
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
    monkeypatch.setattr("relens.ensemble.learning_curves.TRIALS", (2, 4))
    monkeypatch.syspath_prepend(BENCHMARKS)
    output, figures = tmp_path / "curves.json", tmp_path / "figures"
    command = ["ogbl-biokg", "--triples", "102", "--output", str(output), "--figures", str(figures)]
    import_module("ogb_curves").main.main(command, standalone_mode=False)
    found = json.loads(output.read_text(encoding="utf-8"))
    assert (found["benchmark"], found["dataset"]) == ("curves", "ogbl-biokg")
    assert (found["shape"]["queries"], found["shape"]["groups"]) == (2 * 102, 51)
    assert 0 < found["shape"]["contested"] < 204 * 500
    for curve in found["curves"]:
        assert len(curve["seconds"]) == len(curve["mrr"])
        assert curve["seconds"] == sorted(curve["seconds"])
        assert curve["mrr"] == sorted(curve["mrr"])
    best = {(c["method"], c["searcher"], c["trials"], c["workers"]): c["mrr"][-1] for c in found["curves"]}
    assert len(best) == len(found["curves"]) == 2 + 2 * (2 + 3)
    sweep = best["dsc", "sweep", 0, 1]
    assert sweep > best["simple", "sweep", 0, 1] >= best["simple", "tpe", 4, 1]
    assert sweep >= best["dsc", "tpe", 4, 1] >= best["dsc", "tpe", 2, 1]
    for workers in (2, 5):  # they are done sooner, and find the same
        assert best["dsc", "tpe", 4, workers] == pytest.approx(best["dsc", "tpe", 4, 1])
    assert any(figures.iterdir())


def test_optima_compare_the_sweep_with_tpe_in_large_groups(folder: Path, search_file: Path):
    (store,) = folder.glob("cache/tiny-*")
    found = json.loads(run("bench_optima.py", f"tiny={store}", "--inputs", "rank", "--trials", "3"))
    (row,) = found["rows"]
    assert row["data"] == "tiny"
    assert row["groups"] > 0
    assert row["tpe_ahead"] <= row["groups"]
    assert row["mrr"]["sweep"] > row["mrr"]["tpe"] - 0.001


def test_overfitting_compares_rules_on_queries_that_were_not_fitted_on(folder: Path, search_file: Path):
    (store,) = folder.glob("cache/tiny-*")
    found = json.loads(run("bench_overfitting.py", f"tiny={store}", "--fractions", "0.5,1", "--seeds", "2"))
    assert [(row["fraction"], row["seed"]) for row in found["rows"]] == [(0.5, 0), (1.0, 0), (0.5, 1), (1.0, 1)]
    for rule, values in found["summary"].items():
        differences = [row["difference"][rule] for row in found["rows"]]
        assert values == {"mean": pytest.approx(np.mean(differences)), "worst": min(differences)}
    for row in found["rows"]:
        assert float(row["choice"]["from 3"][1]) >= 3
        assert row["difference"]["guarded"] in (0.0, row["difference"]["from 0"])


def test_members_are_left_out_one_at_a_time(folder: Path, search_file: Path):
    (store,) = folder.glob("cache/tiny-*")
    found = json.loads(run("bench_members.py", store))
    packed = load_pack(store)
    assert tuple(found["without"]) == packed.models
    scores = search_weights(packed, method="simple").settings["cross_validation"]
    assert found["all"]["simple"] == max(score for row in scores.values() for score in row.values())
    assert found["all"]["simple"] > min(values["simple"] for values in found["without"].values())


def test_gates_are_compared_with_weights_per_group(folder: Path, ring: Path):
    kept = folder / "kept"
    kept.mkdir()
    write_reduced({split: Run.open(ring).ranks(split) for split in EVALUATED}, kept / "reduced.npz")
    graph = folder / "ring"
    run("confidence.py", ring, "--dataset", graph, "--device", "cpu", "--output", kept / "confidence.npz")
    with np.load(kept / "confidence.npz", allow_pickle=False) as file:
        entropy, margin, lead = np.moveaxis(file["numbers"], -1, 0)
        assert (entropy > 0).all()
        assert (lead >= margin * 0.5).all()  # the mean is no higher than the best two
        assert (margin >= 0).all()
    found = json.loads(run("bench_gates.py", f"{graph}={kept}"))
    assert len(found["rows"]) == 12
    assert len({row["plain"] for row in found["rows"]}) == 1
    assert all(0 < row["mrr"] <= 1 for row in found["rows"])


def test_queries_of_a_group_are_cut_at_its_own_quantiles(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    cut = import_module("bench_gates").cut
    group, values = np.array([0, 1, 0, 1, 1, 0]), np.array([9, 1, 7, 3, 2, 8])
    assert cut(values, group, 2).tolist() == [1, 2, 0, 3, 2, 0]


def test_features_see_the_competitors_alone(monkeypatch: pytest.MonkeyPatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(BENCHMARKS)
    scores = torch.tensor([[1.0, 5.0, 2.0], [0.0, 0.0, 0.0]])
    (first, second) = import_module("confidence").features(scores, torch.tensor([0]), torch.tensor([1])).tolist()
    probability = np.array([1, np.e]) / (1 + np.e)
    assert first == pytest.approx([-(probability * np.log(probability)).sum(), 1, 0.5, 2])
    assert second[:3] == pytest.approx([np.log(3), 0, 0])


def test_a_service_and_bulk_prediction_are_measured(folder: Path):
    pytest.importorskip("torch")
    pytest.importorskip("fastapi")
    output = folder / "serving.json"
    run(
        "bench_serving.py", "--dataset", "patterns", "--preset", "demo", "--requests", "60", "--others", "20",
        "--propagation", "10", "--clients", "4", "--bulk", "4", "--repeats", "1", "--output", output,
    )  # fmt: skip
    found = json.loads(output.read_text(encoding="utf-8"))
    asked = {"ranks": 60, "scores": 20, "propagation, one client": 10, "propagation": 10}
    assert {name: service["answers"] for name, service in found["services"].items()} == asked
    for service in found["services"].values():
        assert 0 < service["p50_seconds"] <= service["p99_seconds"] <= service["seconds"]
        assert service["answers_per_second"] == pytest.approx(service["answers"] / service["seconds"])
        processor = service["server_processor_seconds"] + service["client_processor_seconds"]
        assert service["processor_limit"] == pytest.approx(2 / processor)
        assert all(size > 0 for _, size in service["memory_bytes"])
    assert found["bulk"]["queries"] == 8
    assert found["bulk"]["ranking"]["ratio"] == 1
    assert {target["name"] for target in found["targets"]} >= {"p99, seconds, ranks", "bulk over ranking, score"}
