import csv
import json
import re
import shutil
import sys
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from relens.comparison import DEFAULT_SPECS, Comparison, compare
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.data.stored import write_graph
from relens.ensemble import learning_curves
from relens.errors import DamagedError, InputError, MissingExtraError
from relens.files import read_json, write_json
from relens.packs.simulation import Simulation
from relens.packs.store import save_pack
from relens.reports import check_extra, write_report
from relens.reports.figures import EQUAL, UNSEEN
from relens.reports.style import method_label
from relens.reports.summary import Highest, highest_sentence
from relens.runs import COMPARISON, Run
from relens.significance import Interval, PairedTest, paired_test
from tests import simulated
from tests.random_packs import changed
from tests.reports.pages import Page

SPECS = ("mean", "simple:input=rank", "dsc:input=rank,regularise=none")
HOSTILE = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def reported(tiny_run, tmp_path_factory):
    """A run and its report, which tests only read."""
    run = Run.open(shutil.copytree(tiny_run, tmp_path_factory.mktemp("report") / "run"))
    path = write_report(run, run.path / "report")
    return run, path, Page.read(path)


def comparison_of(run):
    return Comparison.from_json(read_json(run.path / COMPARISON, "record"))


def quick_run(path, valid, test, specs=SPECS):
    """Write a run that was compared by a few methods already."""
    run = Run.open(simulated.write_run(path, valid, test))
    write_json(run.path / COMPARISON, compare(valid, test, specs).to_json())
    return run


def test_the_table_holds_the_numbers_of_the_comparison(reported):
    run, _, page = reported
    comparison = comparison_of(run)
    head, *rows = page.tables["Models and ensembles on the test split"]
    assert head[:5] == ["method", "kind", "MRR", "95\N{NO-BREAK SPACE}% interval", "Hit@1"]
    assert head[-3:] == ["gain over gamma", "interval of that gain", "p of that gain"]
    assert len(rows) == len(comparison.evaluations) == 3 + len(DEFAULT_SPECS)
    ordered = sorted(comparison.evaluations, key=lambda evaluation: -evaluation.overall.mrr)
    for row, evaluation in zip(rows, ordered, strict=True):
        low, high = evaluation.interval
        m = evaluation.overall
        assert row[0].split(" (")[0] == evaluation.name.split(":")[0]
        assert row[1] == ("model" if evaluation.name in simulated.SIMULATION.models else "ensemble")
        assert row[2:5] == [f"{m.mrr:.4f}", f"{low:.4f}–{high:.4f}", f"{m.hits_at_1:.4f}"]
        if evaluation.paired is None:
            assert row[-3:] == ["–"] * 3
        else:
            assert float(row[-3].replace("−", "-")) == pytest.approx(evaluation.paired.difference, abs=5e-5)
            assert float(row[-1]) == pytest.approx(evaluation.paired.p_value, rel=0.05)


def test_the_headline_names_ensemble_reference_and_numbers(reported):
    run, _, page = reported
    ours = comparison_of(run).evaluations[-1]
    low, high = ours.interval
    assert f"the ensemble dsc reaches an MRR of {ours.overall.mrr:.4f}" in page.text
    assert f"interval {low:.4f} to {high:.4f}" in page.text
    assert "gamma, the best single model" in page.text


def test_every_relation_and_direction_has_a_row(reported):
    run, _, page = reported
    ours, models = comparison_of(run).evaluations[-1], simulated.SIMULATION.models
    weights = comparison_of(run).weights["dsc"]
    head, *rows = page.tables["All relations, both directions"]
    assert len(rows) == 8
    assert {len(row) for row in rows} == {len(head)} == {17}
    assert head[5:9] == ["MRR of dsc", "MRR of gamma", "gain over gamma", "p of that gain"]
    assert head[9:11] == ["best model here", "its MRR"]
    for row in rows:
        metrics = ours.by_group[f"{row[0]} [{row[1]}]"]
        assert (row[2], row[5]) == (str(metrics.queries), f"{metrics.mrr:.4f}")
        group = weights.grouping.labels.index(f"{row[0]} [{row[1]}]")
        assert row[14:] == [f"{value:.3f}" for value in weights.normalised()[group]]
        best = max(models, key=lambda model: row[11 + models.index(model)])
        assert row[10] == row[11 + models.index(best)]
        assert row[6] == row[11 + models.index("gamma")]
        assert row[9] in models
        gain = float(row[5]) - float(row[6])
        assert float(row[7].replace("−", "-").rstrip("*")) == pytest.approx(gain, abs=1.01e-4)
        assert (row[8] == "–") == (metrics.queries < 10)


def test_the_glossary_explains_the_words_of_the_page(reported):
    _, path, page = reported
    section = path.read_text().split('<section id="glossary">')[1].split("</section>")[0]
    words = re.findall("<dt>(.*?)</dt>", section)
    assert words[0] == "gamma, best single model"
    for word in ("dsc", "simple", "mrr-mean", "greedy", "mean", "stacking", "input rank", "κ (kappa)", "contested",
                 "MRR", "Hit@10", "MR", "interval", "p"):  # fmt: skip
        assert word in words
    assert "share of the queries whose answer is among the first 10" in section
    assert "basic" not in words  # was not compared
    assert "#glossary" in page.with_attribute("href")


def test_score_gaps_are_explained_where_they_are_used(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"), ("dsc:input=score",))
    section = write_report(run, tmp_path / "out").read_text().split('<section id="glossary">')[1]
    assert "<dt>score gap</dt>" in section
    assert "<dt>input score</dt>" in section


def test_figures_are_png_and_svg_and_in_the_page(reported):
    _, path, page = reported
    files = sorted(file.name for file in (path.parent / "figures").iterdir())
    assert files == [f"{name}.{kind}" for name in ("comparison", "relations", "weights") for kind in ("png", "svg")]
    for file in (path.parent / "figures").iterdir():
        content = file.read_bytes()
        if file.suffix == ".png":
            assert content.startswith(b"\x89PNG")
        else:
            ElementTree.fromstring(content)
    alts = [tag.attributes["aria-label"] for tag in page.tags if tag.attributes.get("role") == "img"]
    assert len(alts) == 3
    assert alts[0].startswith("Test MRR with 95 % intervals: ")
    assert " dsc 0." in alts[0]
    assert sum(tag.name == "svg" for tag in page.tags) == 2 * 3  # wide, and for a phone
    ids = page.with_attribute("id")
    assert len(ids) == len(set(ids))


def test_the_page_needs_nothing_but_itself(reported):
    _, path, page = reported
    content = path.read_text()
    assert "http://" not in content
    assert "https://" not in content
    assert "@import" not in content
    assert page.with_attribute("src") == []
    assert all(re.match(r"#|figures/|relations.csv$|data:,$", link) for link in page.with_attribute("href"))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", content))
    links = [link for link in page.with_attribute("href") if link.startswith(("figures/", "relations"))]
    assert all((path.parent / link).is_file() for link in links)


def test_the_page_says_what_a_run_of_imported_ranks_lacks(reported):
    _, _, page = reported
    assert "The run holds ranks but no trained models, so there are no training curves." in page.text
    assert "The run has no graph, so its statistics are left out" in page.text
    assert "How training ended" not in page.tables


def test_every_number_can_be_traced(reported):
    _, _, page = reported
    for fact in ("fingerprint seed 36", "filter as imported", "grouping relation-direction", "seed 0", "ties mean",
                 "candidates all", "resamples 1,000", "relens 0.1.0"):  # fmt: skip
        assert fact in page.text


def test_a_comparison_of_these_ranks_is_used_as_it_is(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    before = (run.path / COMPARISON).read_bytes()
    page = Page.read(write_report(run, tmp_path / "out"))
    assert (run.path / COMPARISON).read_bytes() == before
    rows = page.tables["Models and ensembles on the test split"][1:]
    ensembles = [row[0] for row in rows if row[1] == "ensemble"]
    assert sorted(ensembles) == ["dsc (input=rank, regularise=none)", "mean", "simple (input=rank)"]
    assert not (run.path / "report").exists()


def retrained(split, kept):
    """Ranks of the same queries by the same models, of which all but one are trained anew."""
    packed = simulated.packed(split)
    names = [name for name in packed.models if name != kept]
    others = {name: names[(i + 1) % len(names)] for i, name in enumerate(names)}
    shuffled = packed.select_models([others.get(name, name) for name in packed.models])
    return changed(shuffled, models=packed.models, gap_scales=packed.gap_scales)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_comparison_of_other_ranks_is_made_anew(tmp_path, split):
    packs = {name: simulated.packed(name) for name in ("valid", "test")}
    run = quick_run(tmp_path / "run", packs["valid"], packs["test"])
    old = comparison_of(run)
    packs[split] = retrained(split, old.best_single)
    save_pack(packs[split], run.ranks_path(split))
    page = Page.read(write_report(run, tmp_path / "out"))
    found, expected = comparison_of(run), compare(packs["valid"], packs["test"])
    assert found.ranks == {name: packed.digest for name, packed in packs.items()} != old.ranks
    assert [entry.overall for entry in found.evaluations] == [entry.overall for entry in expected.evaluations]
    rows = page.tables["Models and ensembles on the test split"][1:]
    values = sorted((entry.overall.mrr for entry in expected.evaluations), reverse=True)
    assert [row[2] for row in rows] == [f"{value:.4f}" for value in values]
    if split == "test":  # the best single model's MRR alone would not have told
        before, after = ({e.name: e.overall.mrr for e in c.evaluations} for c in (old, expected))
        assert before[old.best_single] == after[old.best_single]


def test_a_comparison_of_some_models_is_used_as_it_is(tmp_path):
    valid, test = simulated.packed("valid"), simulated.packed("test")
    run = quick_run(tmp_path / "run", valid, test)
    some = compare(valid.select_models(["gamma", "alpha"]), test.select_models(["gamma", "alpha"]), SPECS)
    write_json(run.path / COMPARISON, some.to_json())
    page = Page.read(write_report(run, tmp_path / "out"))
    assert comparison_of(run).ranks == some.ranks
    rows = page.tables["Models and ensembles on the test split"][1:]
    assert [row[0] for row in rows if row[1] == "model"] == ["gamma", "alpha"]


ONE_VECTOR = "one weight vector for all relations"


@pytest.mark.parametrize(
    ("specs", "name", "label"),
    [
        (("simple:input=score", "simple:input=rank", "dsc:input=score"), "simple:input=score",
         f"over simple (input=score): {ONE_VECTOR}"),
        (("simple:input=rank", "simple:input=score", "dsc:input=rank"), "simple:input=rank",
         f"over simple (input=rank): {ONE_VECTOR}"),
        (("simple:input=rank", "dsc:input=score"), "simple:input=rank",
         f"over simple (input=rank): {ONE_VECTOR}, on ranks where dsc (input=score) has score gaps"),
    ],
)  # fmt: skip
def test_the_ensemble_is_compared_with_the_one_vector_of_its_own_input(tmp_path, specs, name, label):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"), specs)
    path = write_report(run, tmp_path / "out")
    mrr = {entry.name: entry.overall.mrr for entry in comparison_of(run).evaluations}
    over = f"{mrr[specs[-1]] - mrr[name]:+z.4f}".replace("-", "−")
    assert f"<div><dt>{label}</dt><dd>{over}</dd></div>" in path.read_text()
    assert (
        f"below those that {label.split(':')[0].removeprefix('over ')} uses for all relations" in Page.read(path).text
    )


def test_one_weight_vector_is_not_compared_with_itself(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"), ("mean", "simple"))
    page = Page.read(write_report(run, tmp_path / "out"))
    assert "the ensemble simple reaches an MRR of" in page.text
    assert f": {ONE_VECTOR}" not in page.text


def test_only_a_searched_weight_vector_is_compared_with_the_ensemble(tmp_path):
    specs = ("simple:input=rank", "mean", "dsc:input=rank")
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"), specs)
    page = Page.read(write_report(run, tmp_path / "out"))
    assert f"over simple (input=rank): {ONE_VECTOR}" in page.text
    assert f"over mean: {ONE_VECTOR}" not in page.text


def test_a_comparison_that_cannot_be_read_is_made_anew(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    write_json(run.path / COMPARISON, {"kind": "relens comparison", "format": 1})
    write_report(run, tmp_path / "out")
    assert list(comparison_of(run).weights)[-1] == "dsc"


def test_without_dsc_the_report_is_about_the_last_method(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"), ("mean", "greedy"))
    path = write_report(run, tmp_path / "out")
    page = Page.read(path)
    assert "the ensemble greedy reaches an MRR of" in page.text
    assert not (path.parent / "figures" / "weights.svg").exists()
    assert "#weights" not in page.with_attribute("href")


def test_groups_without_validation_queries_show_the_fallback(tmp_path):
    valid = simulated.packed("valid")
    valid = valid.select_queries(np.flatnonzero(valid.queries.relation < 3))
    run = quick_run(tmp_path / "run", valid, simulated.packed("test"))
    page = Page.read(write_report(run, tmp_path / "out"))
    assert sum(tag.attributes.get("class") == "f" for tag in page.tags) == 2 * 3
    assert "2 of 8 groups have no validation queries: global weights" in page.text


def edited_run(path, edit, specs=SPECS):
    """Write a run whose comparison, as JSON, was changed by ``edit``."""
    run = quick_run(path, simulated.packed("valid"), simulated.packed("test"), specs)
    value = read_json(run.path / COMPARISON, "record")
    edit(value)
    write_json(run.path / COMPARISON, value)
    return run


def test_equal_weights_are_no_judgement_of_the_models(tmp_path):
    def edit(value):
        weights = value["weights"][SPECS[-1]]
        weights["groups"]["relation 0 [tail]"]["weights"] = dict.fromkeys(weights["models"], 7)
        weights["groups"]["relation 0 [head]"]["weights"] = dict(zip(weights["models"], (7, 7, 8), strict=True))
        del weights["groups"]["relation 1 [head]"]
        weights["fallback"] = dict.fromkeys(weights["models"], 1)

    page = Page.read(write_report(edited_run(tmp_path / "run", edit), tmp_path / "out"))
    drawn = (tmp_path / "out" / "figures" / "weights.svg").read_text()
    assert (drawn.count(EQUAL), drawn.count(UNSEEN)) == (1, 1)
    assert "no weights did better on validation than equal ones" in page.text
    assert any("1 rows have equal weights" in label for label in page.with_attribute("aria-label"))
    # In the table, they have numbers but no colour; the fallback's are in italics.
    classes = [tag.attributes.get("class") for tag in page.tags]
    assert (classes.count("e"), classes.count("f")) == (3, 3)
    assert sum(style.startswith("--v") for style in page.with_attribute("style")) == 8 * 3 + 7 * 3


def test_equal_weights_are_mentioned_only_where_they_occur(reported):
    _, path, page = reported
    assert EQUAL not in path.read_text()
    assert "than equal ones" not in page.text


def test_settings_say_what_a_method_has_and_what_was_chosen(reported):
    _, _, page = reported
    head, *rows = page.tables["How the weights of each method came about"]
    assert head == ["method", "settings", "chosen by cross-validation"]
    chosen = {row[0]: row[2] for row in rows}
    assert (chosen["simple"], chosen["dsc"]) == ("input", "input and shrinkage (kappa)")
    assert chosen["mean"] == chosen["dsc (input=rank, regularise=none)"] == "–"
    settings = {row[0]: row[1] for row in rows}
    assert "grouping" not in settings["simple"] + settings["simple (input=rank)"]
    assert "grouping relation-direction" in settings["dsc"]


@pytest.mark.parametrize(
    ("won", "lost", "said"),
    [
        (0.96281, 0.96279, "not matter here: won or lost, the MRR of dsc (input=rank, regularise=none) is 0.9628"),
        (0.97, 0.96, "regularise=none) would be 0.9700 were all ties won, 0.9600 were all lost"),
    ],
)  # fmt: skip
def test_the_page_says_what_ties_could_change(tmp_path, won, lost, said):
    def edit(value):
        value["evaluations"][-1]["overall"] |= {"mrr_optimistic": won, "mrr_pessimistic": lost}

    assert said in Page.read(write_report(edited_run(tmp_path / "run", edit), tmp_path / "out")).text


def test_relations_too_small_to_test_are_not_counted(tmp_path):
    test = simulated.packed("test")
    test = test.select_queries(np.flatnonzero(test.queries.relation > 0)[:16])
    run = quick_run(tmp_path / "run", simulated.packed("valid"), test)
    page = Page.read(write_report(run, tmp_path / "out"))
    assert "clearly better : worse" not in page.text
    assert "(0 of 8 rows)" in page.text


def test_losses_have_a_minus_sign(tmp_path):
    def edit(value):
        value["evaluations"][-1]["paired"]["difference"] = -0.13 * value["evaluations"][2]["overall"]["mrr"]

    text = Page.read(write_report(edited_run(tmp_path / "run", edit), tmp_path / "out")).text
    assert "over gamma (−13.0 %)" in text


def test_the_row_with_the_highest_mrr_is_named_and_tested(tmp_path):
    """The report is about the last method; of these few queries, the mean has a higher MRR."""
    valid, test = simulated.packed("valid"), simulated.packed("test")
    run = quick_run(tmp_path / "run", valid, test, ("mean", "greedy"))
    page = Page.read(write_report(run, tmp_path / "out"))
    comparison = comparison_of(run)
    mrr = {evaluation.name: evaluation.overall.mrr for evaluation in comparison.evaluations}
    assert max(mrr, key=mrr.__getitem__) == "mean"
    mean, greedy = (1 / comparison.weights[name].answer_ranks(test).realistic for name in ("mean", "greedy"))
    p = paired_test(mean, greedy, test.queries.triple, reference="greedy").p_value
    more = f"{mrr['mean']:.4f}, {mrr['mean'] - mrr['greedy']:.4f} above greedy"
    assert f"The highest MRR in the table is that of mean: {more}; a paired test" in page.text
    assert f"(p = {p:.2g})" in page.text.split("The highest MRR")[1].split("test MRR of")[0]


def test_no_sentence_if_the_ensemble_has_the_highest_mrr(tmp_path):
    def edit(value):
        value["evaluations"][-1]["overall"]["mrr"] = 0.999

    assert "The highest MRR" not in Page.read(write_report(edited_run(tmp_path / "run", edit), tmp_path / "out")).text
    assert highest_sentence(None, "dsc") == ""


@pytest.mark.parametrize(
    ("difference", "p", "said"),
    [
        (0.0007, 0.6, "0.9635, 0.0007 above dsc; a paired test cannot tell the two apart (p = 0.6)."),
        (0.00002, 0.05, "0.9635, less than 0.0001 above dsc; a paired test cannot tell the two apart (p = 0.05)."),
        (0.01, 0.001, "0.9635, 0.0100 above dsc; a paired test tells the two apart (p = 0.001), but the row was picked "
         "on the queries it is tested on."),
    ],
)  # fmt: skip
def test_the_sentence_on_the_highest_row_gives_its_paired_test(difference, p, said):
    paired = PairedTest("dsc", difference, Interval(0.0, 0.1), p, False)
    text = highest_sentence(Highest("dsc:input=rank,regularise=none", 0.9635, paired), "dsc")
    assert text == f"The highest MRR in the table is that of dsc (input=rank, regularise=none): {said}"


def hostile(split):
    packed = simulated.packed(split)
    relations = (HOSTILE, "\"' onmouseover='x", "$x_1$ & <b>", '关系 id="x" #0072b2')
    models = ("<img src=x>", "beta&amp;", "ga'mma\"")
    return changed(
        packed, relations=relations, models=models, provenance=replace(packed.provenance, dataset="</title><script>")
    )


def test_labels_are_text_whatever_they_hold(tmp_path):
    run = quick_run(tmp_path / "run", hostile("valid"), hostile("test"))
    path = write_report(run, tmp_path / "out")
    content, page = path.read_text(), Page.read(path)
    assert content.count("<script>") == 2  # the page's own
    assert "<b>" not in content.split("All relations, both directions")[1].split("</table>")[0]
    assert not any(tag.name == "img" or "onmouseover" in tag.attributes for tag in page.tags)
    rows = page.tables["All relations, both directions"][1:]
    assert {row[0] for row in rows} == set(hostile("test").relations)
    assert '关系 id="x" #0072b2' in page.text.split("All relations")[0]  # in the figure, too
    for file in (tmp_path / "out" / "figures").glob("*.svg"):
        ElementTree.fromstring(file.read_text())


def with_graph(tmp_path):
    """A run whose models were trained on a graph that lies in a folder."""
    rng = np.random.default_rng(0)
    (tmp_path / "toy").mkdir()
    names = [(f"e{h}", f"relation {r}", f"e{t}") for h, r, t in rng.integers(0, [9, 4, 9], size=(200, 3))]
    write_folder(
        Dataset.from_labels("toy", train=names[:180], valid=names[180:190], test=names[190:]), tmp_path / "toy"
    )
    dataset = read_folder(tmp_path / "toy")
    packs = []
    for split in ("valid", "test"):
        packed = simulated.packed(split)
        provenance = replace(packed.provenance, dataset="toy", fingerprint=dataset.fingerprint)
        packs.append(changed(packed, provenance=provenance, cardinalities=("1-1", "1-N", "N-N", "N-N")))
    run = quick_run(tmp_path / "run", *packs)
    run.keep_graph(dataset)
    for model in ("alpha", "beta"):
        records = [
            {"step": 100 * i, "loss": 3 / i, "mrr": i / 10 if i % 2 else None, "seconds": 2.0 * i} for i in range(1, 5)
        ]
        folder = run.path / "models" / model
        (folder / "trained").mkdir(parents=True)
        (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        record = {
            "settings": {"model": "complex", "loss": "1vsall", "lr": 0.125},
            "result": {"best_mrr": 0.3, "step": records[-1]["step"]},
        }
        write_json(folder / "trained" / "model.json", record)
    return run, dataset


def test_training_and_graph_are_shown_where_they_are_at_hand(tmp_path):
    run, dataset = with_graph(tmp_path)
    page = Page.read(write_report(run, tmp_path / "out"))
    assert page.tables["How training ended"][1] == ["alpha", "complex", "1vsall", "400", "0.3000"]
    assert (tmp_path / "out" / "figures" / "training.svg").is_file()
    assert "lr 0.125" in page.text
    rows = page.tables["Relations of the graph"][1:]
    assert [row[0] for row in rows] == list(dataset.relations.labels)
    assert sum(int(row[2]) for row in rows) == len(dataset.train)
    classes = page.tables["Test MRR by cardinality class"]
    assert [row[:3] for row in classes[1:]] == [["1-1", "1", "6"], ["1-N", "1", "12"], ["N-N", "2", "42"]]
    assert "its statistics are left out" not in page.text


def test_times_have_a_page_of_their_own(tmp_path):
    run, _ = with_graph(tmp_path)
    path = write_report(run, tmp_path / "out")
    assert "log.html" in Page.read(path).with_attribute("href")
    times = Page.read(path.with_name("log.html"))
    assert times.tables["How long training took"] == [
        ["name", "steps", "seconds"], ["alpha", "400", "8.0"], ["beta", "400", "8.0"],
    ]  # fmt: skip
    assert "index.html" in times.with_attribute("href")
    before = {file.name: file.read_bytes() for file in path.parent.rglob("*.*") if file.is_file()}
    for log in run.path.glob("models/*/log.jsonl"):
        log.write_text(log.read_text().replace('"seconds": ', '"seconds": 1'))
    write_report(run, tmp_path / "out")
    after = {file.name: file.read_bytes() for file in path.parent.rglob("*.*") if file.is_file()}
    assert {name for name in after if after[name] != before[name]} == {"log.html"}


def test_a_report_without_times_has_no_page_of_times(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    path = write_report(run, tmp_path / "out")
    assert not path.with_name("log.html").exists()
    assert "log.html" not in Page.read(path).with_attribute("href")


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_tables_of_many_relations_show_the_largest_and_files_have_all(tmp_path, monkeypatch):
    monkeypatch.setattr("relens.reports.page.LISTED", 2)
    run, dataset = with_graph(tmp_path)
    path = write_report(run, tmp_path / "out")
    page = Page.read(path)
    assert "The table shows the 2 largest of 4 relations. relations.csv has all of them" in page.text
    assert "The 2 relations of the graph with most triples, of 4" in page.text
    rows = page.tables["All relations, both directions"][1:]
    assert [row[:2] for row in rows] == [[f"relation {r}", side] for r in (3, 2) for side in ("tail", "head")]
    sizes = sum(np.bincount(triples[:, 1], minlength=4) for triples in dataset.splits.values())
    largest = sorted(np.argsort(-sizes, kind="stable")[:2])
    assert [row[0] for row in page.tables["Relations of the graph"][1:]] == [f"relation {r}" for r in largest]
    assert page.with_attribute("href").count("graph.csv") == 1
    graph = read_csv(path.parent / "graph.csv")
    assert [row["relation"] for row in graph] == list(dataset.relations.labels)
    assert [int(row["train"]) for row in graph] == np.bincount(dataset.train[:, 1]).tolist()
    kept = read_csv(path.parent / "relations.csv")
    assert len(kept) == 8
    comparison = comparison_of(run)
    name = next(heading for heading in kept[0] if heading.startswith("MRR of dsc")).removeprefix("MRR of ")
    ours = next(e for e in comparison.evaluations if method_label(e.name) == name)
    best = next(e for e in comparison.evaluations if e.name == comparison.best_single)
    for row in kept:
        label = f"{row['relation']} [{row['direction']}]"
        assert float(row[f"MRR of {name}"]) == pytest.approx(ours.by_group[label].mrr, abs=1e-12)
        gain = ours.by_group[label].mrr - best.by_group[label].mrr
        assert float(row[f"gain over {best.name}"]) == pytest.approx(gain, abs=1e-12)


def test_leftovers_of_a_killed_process_are_not_searched_for_the_graph(tmp_path):
    """A model that had stepped aside is none, whatever is left of it."""
    run, _ = with_graph(tmp_path)
    left = run.path / "models" / ".alpha.old" / "trained"
    left.mkdir(parents=True)
    (left / "model.json").write_text("{")
    assert "Relations of the graph" in Page.read(write_report(run, tmp_path / "out")).tables


def test_the_graph_of_other_ranks_is_not_described(tmp_path):
    run, dataset = with_graph(tmp_path)
    write_graph(replace(dataset, train=dataset.train[1:]), run.graph_path)
    page = Page.read(write_report(run, tmp_path / "out"))
    assert "The ranks belong to another graph than that of the run" in page.text
    assert "Relations of the graph" not in page.tables


def test_curves_are_measured_when_asked_for_and_shown_from_then_on(tmp_path, monkeypatch):
    monkeypatch.setattr(learning_curves, "TRIALS", (3, 4))
    monkeypatch.setattr(learning_curves, "cpu_count", lambda: 1)
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    write_report(run, tmp_path / "out")
    times = tmp_path / "out" / "log.html"
    assert not times.exists()
    write_report(run, tmp_path / "out", curves=True)
    measured = Page.read(times)
    rows = measured.tables["Where each search ended"][1:]
    assert [row[0] for row in rows[-2:]] == ["dsc, tpe, 2 workers (replayed)", "dsc, tpe, 5 workers (replayed)"]
    assert "computed from the trial times recorded with one worker" in " ".join(measured.text.split())
    page = write_report(run, tmp_path / "out")
    assert Page.read(times).tables["Where each search ended"][1:] == rows
    assert "Where each search ended" not in Page.read(page).tables
    assert "figures/curves" not in page.read_text()
    assert (tmp_path / "out" / "figures" / "curves.png").is_file()


def test_five_hundred_rows_fit_a_small_page(tmp_path):
    sizes = tuple(np.maximum(1, 60 // np.arange(1, 251)).tolist())
    simulation = Simulation(("a", "b", "c", "d", "e", "f"), sizes, 40, level=(1.2, 1.0), skill=0.8, agreement=0.3)
    packs = [simulation.packed(split, gaps=False) for split in ("valid", "test")]
    run = quick_run(tmp_path / "run", *packs, specs=("simple:input=rank", "dsc:input=rank,regularise=none"))
    path = write_report(run, tmp_path / "out")
    assert path.stat().st_size < 1_000_000
    page = Page.read(path)
    assert len(page.tables["All relations, both directions"]) == 501
    assert "scroll tall" in page.with_attribute("class")
    assert "All 500 rows are in the box above: scroll inside it, or search." in page.text
    assert "the figure shows the 40 largest of 250" in page.text


def test_nothing_but_a_report_is_replaced(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("<p>mine")
    with pytest.raises(
        InputError, match="exists and is not a report: choose another folder with `folder=DIR`, or empty this one"
    ):
        write_report(run, tmp_path / "mine")
    assert (tmp_path / "mine" / "index.html").read_text() == "<p>mine"
    (tmp_path / "empty").mkdir()
    first = write_report(run, tmp_path / "empty").read_bytes()
    assert write_report(run, tmp_path / "empty").read_bytes() == first


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_the_extra_the_report_says_what_to_install(tiny_run, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"the report needs an optional dependency: pip install .*\[report\]'"):
        write_report(Run.open(tiny_run), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(MissingExtraError, match=r"\[report\]"):
        check_extra()


def test_with_the_extra_there_is_nothing_to_say():
    check_extra()


def test_a_damaged_comparison_is_no_reason_to_compare_something_else(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    text = run.comparison_path.read_text()
    run.comparison_path.write_text(text.replace('"seed": 0', '"seed": 1', 1))
    with pytest.raises(DamagedError, match=r"comparison.json is damaged.* Repeat the `relens run` that made it, or"):
        write_report(run, tmp_path / "out")
    run.comparison_path.unlink()
    assert write_report(run, tmp_path / "out").is_file()


@pytest.mark.parametrize("name", ["log.jsonl", "curves.json"])
def test_damaged_logs_and_curves_are_named(tmp_path, name):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    folder = run.model_path(simulated.SIMULATION.models[0])
    folder.mkdir(parents=True)
    file, remedy = {
        "log.jsonl": (folder / "log.jsonl", "Remove the file"),
        "curves.json": (run.path / "curves.json", f"`relens report {run.path} --curves`"),
    }[name]
    file.write_text('{"step": 1, "checksum": "beef"}\n')
    with pytest.raises(DamagedError, match=rf"{re.escape(str(file))}.*{re.escape(remedy)}"):
        write_report(run, tmp_path / "out")


def test_a_log_that_was_cut_is_noticed(tmp_path):
    run = quick_run(tmp_path / "run", simulated.packed("valid"), simulated.packed("test"))
    folder = run.model_path(simulated.SIMULATION.models[0])
    write_json(folder / "trained" / "model.json", {"result": {"step": 20}, "settings": {}})
    (folder / "log.jsonl").write_text('{"step": 10}\n')
    with pytest.raises(DamagedError, match=r"log.jsonl does not end with step 20, the last one of the training"):
        write_report(run, tmp_path / "out")
