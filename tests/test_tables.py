"""Tables show what is there: rounded for people, exact for programs, escaped for both."""

import csv
import json
import re
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.errors import InputError
from relens.evaluation import Evaluation, Metrics
from relens.metrics import METRICS
from relens.records import Provenance
from relens.significance import Interval, PairedTest
from relens.tables import Column, Row, Table, breakdown_table, comparison_table, evaluation_table, spread_table
from relens.tables.formats import wrapped
from relens.tables.table import Look

FACTS = {"data set": "toy_set", "split": "test"}
CAPTION = (
    "data set: fb15k-237; split: test; filter: train+valid+test; ties: mean; grouping: relation; "
    "candidates: all; seed: 3"
)
SPLIT = Provenance("fb15k-237", "0123", "test", ("train", "valid", "test"))


def metrics(mrr: float, queries: int = 10, mean_rank: float = 20.0, hits_at_1: float = 0.25) -> Metrics:
    values = [mrr, hits_at_1, 0.5, 0.75, mean_rank, mrr + 0.01, mrr - 0.01]
    return Metrics(queries, dict(zip(METRICS, values, strict=True)))


def evaluation(name: str = "dsc", mrr: float = 0.36, **changes: Any) -> Evaluation:
    base = Evaluation(
        name=name,
        provenance=SPLIT,
        grouping="relation",
        seed=3,
        resamples=1000,
        settings={"method": name, "searcher": "sweep"},
        overall=metrics(mrr),
        by_direction={"tail": metrics(0.4, 5), "head": metrics(0.32, 5)},
        by_relation={"/film/film_genre": metrics(0.1, 2), "_hypernym": metrics(0.5, 7), "a|b": metrics(0.3, 1)},
        by_group={"_hypernym [tail]": metrics(0.2, 10)},
        by_cardinality={"1-N": metrics(0.3, 10)},
        interval=Interval(mrr - 0.005, mrr + 0.00512345),
    )
    return replace(base, **changes)


def against(reference: str, difference: float, p_value: float = 0.001) -> PairedTest:
    return PairedTest(reference, difference, Interval(difference - 0.002, difference + 0.002), p_value, False)


def small(values: list[Any], **options: Any) -> Table:
    """One label column and one column of numbers in which higher is better."""
    columns = (Column("name", align="left"), Column("MRR", ".2f", better="higher"))
    return Table("A table", columns, tuple(Row((f"m{i}", v)) for i, v in enumerate(values)), FACTS, **options)


def labelled(label: str) -> Table:
    return Table("T", (Column("name", align="left"), Column("n", "d")), (Row((label, 1)),), FACTS)


def read_csv(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(table.to_csv())))


@pytest.mark.parametrize(
    ("label", "markdown", "latex"),
    [
        ("/film/film_genre", r"/film/film\_genre", r"/film/film\_genre"),
        ("_hypernym", r"\_hypernym", r"\_hypernym"),
        ("a|b", r"a\|b", r"a\textbar{}b"),
        ("r [tail]", r"r \[tail\]", "r {[}tail]"),
        ("*[x]", r"\*\[x\]", "{*}{[}x]"),
        ("50% of {x} & #1", r"50% of {x} \& \#1", r"50\% of \{x\} \& \#1"),
        ("a\\b~c^d", r"a\\b\~c^d", r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"),
        ("<e>$", r"\<e\>\$", r"\textless{}e\textgreater{}\$"),
    ],
)
def test_labels_are_escaped(label: str, markdown: str, latex: str) -> None:
    table = labelled(label)
    assert f"| {markdown} | 1 |" in table.to_markdown()
    assert f"{latex} & 1 \\\\" in table.to_latex()
    assert label in table.to_text()
    assert read_csv(table)[0]["name"] == label
    assert table.to_json()["rows"] == [{"name": label, "n": 1}]


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=12))
def test_any_label_stays_one_cell(label: str) -> None:
    table = labelled(label)
    row = table.to_markdown().split("\n")[4]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 3
    assert len(re.findall(r"(?<!\\)(?:\\\\)*&", table.to_latex().split("\n")[7])) == 1
    assert read_csv(table)[0]["name"] == label


def test_only_text_for_people_is_rounded() -> None:
    table = small([1 / 3, None])
    assert "0.33" in table.to_text()
    assert "0.333" not in table.to_text() + table.to_markdown() + table.to_latex()
    assert float(read_csv(table)[0]["MRR"]) == 1 / 3
    assert [row["MRR"] for row in json.loads(json.dumps(table.to_json()))["rows"]] == [1 / 3, None]
    assert read_csv(table)[1]["MRR"] == ""


def test_the_facts_travel_with_every_rendering() -> None:
    table = small([0.5], notes=("a note",))
    assert "data set: toy_set; split: test\na note" in table.to_text()
    assert "data set: toy\\_set; split: test  \na note" in table.to_markdown()
    assert r"\caption{A table. data set: toy\_set; split: test. a note.}" in table.to_latex()
    assert read_csv(table)[0] == {"name": "m0", "MRR": "0.5", "data set": "toy_set", "split": "test"}
    assert table.to_json()["facts"] == FACTS


def test_the_best_is_marked_in_every_rendering_for_people() -> None:
    table = small([0.25, 0.75, None], mark_best=True)
    assert "**0.75**" in table.to_markdown()
    assert "**0.25**" not in table.to_markdown()
    assert r"\textbf{0.75}" in table.to_latex()
    assert "0.75*" in table.to_text()
    assert table.to_text().endswith("* best of its column")
    assert re.search(r"\x1b\[1m *0\.75\x1b", table.to_text(terminal=True))
    assert "*" not in table.to_text(terminal=True) + table.to_csv()


def test_values_that_round_to_the_best_are_marked_as_best() -> None:
    assert small([0.3301, 0.3349, 0.32], mark_best=True).to_markdown().count("**0.33**") == 2


def test_a_lone_value_is_not_called_the_best() -> None:
    assert not any(cell.best for row in small([0.5], mark_best=True).cells() for cell in row)


def test_plain_text_has_no_escapes_and_no_trailing_blanks() -> None:
    text = small([0.5, 0.25]).to_text()
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.split("\n"))


def test_bare_markdown_is_the_rows_alone_with_labels_as_they_are() -> None:
    table = replace(small([0.5]), rows=(Row(("`dsc`", 0.5)),))
    assert table.to_markdown(bare=True) == "| name | MRR |\n| :-- | --: |\n| `dsc` | 0.50 |"


def test_markdown_layout() -> None:
    assert small([0.5]).to_markdown().split("\n") == [
        "**A table**",
        "",
        "| name | MRR |",
        "| :-- | --: |",
        "| m0 | 0.50 |",
        "",
        r"data set: toy\_set; split: test",
    ]


def test_latex_layout() -> None:
    rows = (Row(("m", -0.5)), Row(("up", 0.125), spec="+.1%"), Row(("up again", None), spec="+.1%"))
    assert replace(small([]), rows=rows).to_latex().split("\n") == [
        r"\begin{table}",
        r"\centering",
        r"\caption{A table. data set: toy\_set; split: test.}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"name & MRR \\",
        r"\midrule",
        r"m & $-$0.50 \\",
        r"\midrule",
        r"up & +12.5\% \\",
        r"up again & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


@pytest.mark.parametrize("width", [20, 60, 110])
def test_numbers_and_labels_survive_any_width(width: int) -> None:
    label = "/film/film/estimated_budget./measurement_unit/dated_money_value/currency_[tail]"
    table = evaluation_table(evaluation(by_cardinality={label: metrics(0.123456, 40932)}))
    lines = table.to_text(width).split("\n")
    rule = next(line for line in lines if line.startswith("─"))
    first = next(position for position, line in enumerate(lines) if "40,932" in line)
    assert all(number in lines[first] for number in ("40,932", "0.1235", "0.2500", "20.0", "0.1335", "0.1135"))
    assert len(rule) <= max(width, 100)
    folded = "".join(line[: lines[first].index("40,932")].strip() for line in lines[first - 1 : first + 8])
    assert label in folded


def width_of(text: str) -> int:
    """Return the width of the widest line, colours left out."""
    return max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n"))


def headings_of(text: str) -> list[str]:
    return re.split(r" {2,}", re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")[1].strip())


@pytest.mark.parametrize(
    ("label", "width", "lines"),
    [
        ("dsc:input=rank,regularise=none", 30, ["dsc:input=rank,regularise=none"]),
        ("dsc:input=rank,regularise=none", 29, ["dsc:input=rank,", "regularise=none"]),
        ("simple:input=rank", 16, ["simple:", "input=rank"]),
        ("Relative ↑ of dsc over rotate", 17, ["Relative ↑ of dsc", "over rotate"]),
        ("northeast_neighbour", 16, ["northeast_", "neighbour"]),
        ("/film/film/estimated_budget", 16, ["/film/film/", "estimated_budget"]),
        ("abcdefghijkl", 5, ["abcde", "fghij", "kl"]),
        ("关系关系关系", 8, ["关系关系", "关系"]),
    ],
)
def test_labels_break_between_words(label: str, width: int, lines: list[str]) -> None:
    assert wrapped(label, width) == lines


@given(st.text(min_size=1, max_size=40), st.integers(2, 20))
def test_broken_labels_lose_nothing_but_blanks_at_the_ends_of_lines(label: str, width: int) -> None:
    lines = wrapped(label, width)
    assert "".join(lines).replace(" ", "") == label.replace(" ", "")
    assert all(lines) or " " in label


def test_a_narrow_terminal_drops_columns_with_a_note() -> None:
    table = comparison_table([*compared(), evaluation("dsc:input=rank,regularise=none", 0.36)], ensemble="dsc")
    everything = ["method", "kind", "MRR", "95% interval", "Hit@1", "Hit@3", "Hit@10", "MR", "Δ MRR", "p"]
    wide, at_100, at_80 = (table.to_text(width, terminal=True) for width in (120, 100, 80))
    assert headings_of(wide) == everything
    assert "that do not fit" not in wide
    assert headings_of(at_100) == [heading for heading in everything if heading not in ("MR", "p")]
    assert "columns that do not fit: MR, p; shown on a wider terminal, in a pipe, or as JSON" in at_100
    assert headings_of(at_80) == ["method", "MRR", "95% interval", "Hit@1", "Hit@10", "Δ MRR"]
    assert "columns that do not fit: kind, Hit@3, MR, p; " in at_80
    assert "\n dsc:input=rank, " in at_80
    assert "\n regularise=none\n" in at_80
    assert [width_of(text) <= width for text, width in ((wide, 120), (at_100, 100), (at_80, 80))] == [True] * 3


def test_outside_a_terminal_all_columns_are_shown() -> None:
    text = comparison_table(compared()).to_text(60)
    assert len(headings_of(text)) == 10
    assert "that do not fit" not in text


def test_a_table_without_rows_renders() -> None:
    table = small([])
    assert "MRR" in table.to_text()
    assert read_csv(table) == []
    assert table.to_json()["rows"] == []


def test_evaluation_table_values() -> None:
    table = evaluation_table(evaluation(paired=against("rotate", -0.0123)))
    assert [row.values[:3] for row in table.rows] == [
        ("overall", 10, 0.36),
        ("direction tail", 5, 0.4),
        ("direction head", 5, 0.32),
        ("class 1-N", 10, 0.3),
    ]
    shown = dict(zip((c.heading for c in table.columns), (cell.text for cell in table.cells()[0]), strict=True))
    assert (shown["MRR optimistic"], shown["MRR pessimistic"], shown["MR"]) == ("0.3700", "0.3500", "20.0")
    assert table.caption == CAPTION
    assert table.notes == (
        "overall MRR: 95% interval [0.3550, 0.3651], 1,000 bootstrap resamples by triple",
        "overall MRR minus that of rotate: -0.0123, 95% interval [-0.0143, -0.0103], p = 0.001 "
        "(paired sign-flip test by triple)",
        "settings: method dsc, searcher sweep",
    )


def test_breakdown_tables_begin_with_the_largest_part() -> None:
    by_relation = breakdown_table(evaluation(), by="relation")
    assert [row.values[:2] for row in by_relation.rows] == [("_hypernym", 7), ("/film/film_genre", 2), ("a|b", 1)]
    assert [row.values[0] for row in breakdown_table(evaluation(), by="group").rows] == ["_hypernym [tail]"]
    assert by_relation.caption == CAPTION


def compared() -> list[Evaluation]:
    return [
        evaluation("transe", 0.30, settings={}, paired=against("rotate", -0.05)),
        evaluation("rotate", 0.35, settings={}, overall=metrics(0.35, mean_rank=10.0, hits_at_1=0.0)),
        evaluation("simple", 0.355, paired=against("rotate", 0.005, 0.0421)),
        evaluation("dsc", 0.364, paired=against("rotate", 0.014)),
    ]


def test_comparison_table_values() -> None:
    table = comparison_table(compared())
    assert [column.heading for column in table.columns] == [
        "method", "kind", "MRR", "95% interval", "Hit@1", "Hit@3", "Hit@10", "MR", "Δ MRR", "p"
    ]  # fmt: skip
    shown = [[cell.text for cell in row] for row in table.cells()]
    assert [row[0] for row in shown[:4]] == ["dsc", "simple", "rotate", "transe"]  # the highest MRR first
    assert shown[1][-2:] == ["+0.0050", "0.042"]
    assert shown[2] == ["rotate", "model", "0.3500", "[0.3450, 0.3551]", "0.0000", "0.5000", "0.7500", "10.0", "–", "–"]
    assert [row[1] for row in shown[:4]] == ["ensemble", "ensemble", "model", "model"]
    assert table.caption == CAPTION
    assert "Δ MRR: difference to rotate, with the two-sided p of a paired sign-flip test by triple" in table.notes


def test_relative_row_gives_the_improvement_over_the_best_single_model() -> None:
    shown = [cell.text for cell in comparison_table(compared()).cells()[-1]]
    # A Hit@1 of zero has no multiple; a mean rank that doubled got 100 % worse.
    assert shown[:3] == ["Relative ↑ of dsc over rotate", "", "+4.00%"]
    assert shown[3:] == ["–", "–", "+0.00%", "+0.00%", "-100.00%", "–", "–"]


def test_summary_rows_are_set_apart_in_text() -> None:
    assert re.search(r"\n transe .*\n\n Relative ↑ of dsc", comparison_table(compared()).to_text(140))


def published(*values: float) -> Metrics:
    """Return the four metrics of the paper's tables."""
    return Metrics(1, dict(zip(METRICS, values, strict=False)))


def test_relative_rows_reproduce_the_paper() -> None:
    # WN18RR in the paper's main table, whose row is the improvement over SimpleEns.
    simple = evaluation("simple", overall=published(0.5121, 0.4670, 0.5289, 0.6021))
    dsc = evaluation("dsc", overall=published(0.5201, 0.4770, 0.5375, 0.6039))
    shown = [cell.text for cell in comparison_table([dsc, simple], ensemble="dsc", over=["simple"]).cells()[-1]]
    assert [shown[i] for i in (2, 4, 5, 6)] == ["+1.56%", "+2.14%", "+1.63%", "+0.30%"]


def test_best_of_a_comparison_ignores_summary_rows_and_prefers_low_mean_ranks() -> None:
    best = {
        (row[0].text, column) for row in comparison_table(compared()).cells() for column, c in enumerate(row) if c.best
    }
    models = ("transe", "rotate", "simple", "dsc")
    assert {mark for mark in best if mark[1] in (2, 7)} == {("dsc", 2), ("rotate", 7)}
    assert {mark for mark in best if mark[1] == 5} == {(model, 5) for model in models}


def test_comparison_without_a_reference_row_has_no_relative_row() -> None:
    assert len(comparison_table([evaluation("dsc", paired=against("absent", 0.1))]).rows) == 1
    assert len(comparison_table(compared(), over=[]).rows) == 4


def test_comparison_csv_splits_intervals_and_keeps_fractions() -> None:
    rows = read_csv(comparison_table(compared()))
    assert float(rows[3]["95% interval high"]) == 0.30 + 0.00512345
    assert float(rows[-1]["MRR"]) == pytest.approx(0.04)
    assert rows[-1]["95% interval low"] == ""
    assert {row["grouping"] for row in rows} == {"relation"}


def test_captions_name_every_grouping_and_say_as_imported() -> None:
    imported = replace(SPLIT, filter_splits=(), candidates="sampled")
    table = comparison_table(
        [evaluation("a", provenance=imported), evaluation("b", provenance=imported, grouping="file", seed=4)]
    )
    assert table.caption == (
        "data set: fb15k-237; split: test; filter: as imported; ties: mean; grouping: relation / file; "
        "candidates: sampled; seed: 3 / 4"
    )


def test_a_difference_of_nothing_has_no_sign_of_loss() -> None:
    table = comparison_table([evaluation("a"), evaluation("b", paired=against("a", -1e-9))])
    assert table.cells()[1][-2].text == "+0.0000"


def test_spread_table_begins_with_the_largest_spread() -> None:
    relation = {"queries": 4, "std": 0.1, "best": "a", "worst": "b", "mrr": {"a": 0.5, "b": 0.3}}
    spread = {
        "models": ["a", "b"],
        "std_by_queries": 0.12345,
        "std_by_relations": 0.2,
        "relations": {"r": relation, "s": {**relation, "std": 0.3}},
    }
    table = spread_table(spread, [evaluation("a"), evaluation("b")])
    assert [row.values for row in table.rows] == [("s", 4, 0.3, "a", 0.5, "b", 0.3), ("r", 4, 0.1, "a", 0.5, "b", 0.3)]
    assert table.notes == (
        "std over the models, mean over relations: 0.1235 weighted by queries, 0.2000 unweighted",
    )  # fmt: skip
    assert table.caption == CAPTION


def test_evaluations_that_do_not_belong_together_are_refused() -> None:
    valid = replace(SPLIT, split="valid")
    with pytest.raises(InputError, match="'a' and 'b' do not belong in one table: split is 'test' and 'valid'"):
        comparison_table([evaluation("a"), evaluation("b", provenance=valid)])


def test_unknown_names_and_empty_comparisons_are_refused() -> None:
    with pytest.raises(InputError, match="no evaluation is named 'rotat'; did you mean 'rotate'"):
        comparison_table(compared(), over=["rotat"])
    with pytest.raises(InputError, match="no evaluations were given"):
        comparison_table([])


def test_html_layout() -> None:
    columns = (
        Column("name", align="left"),
        Column("kind", align="left"),
        Column("gain", "+.2f", better="lower"),
        Column("a<b", ".1f", group="MRR"),
        Column("interval", ".2f"),
    )
    rows = (
        Row(("x & y", "<i>", -0.5, 0.25, Interval(0.1, 0.2)), css="marked", looks={3: Look(0.25, "f"), 1: Look(0.5)}),
        Row(("up", "", 0.125, float("nan"), None), spec="+.1%"),
    )
    assert Table("T <1>", columns, rows).to_html({"class": "a", "id": '"'}, sortable=True).split("\n") == [
        '<table class="a" id="&quot;">',
        "<caption>T &lt;1&gt;</caption>",
        "<thead><tr>",
        '<th scope="col" class="t"><button type="button">name</button>',
        '<th scope="col" class="t"><button type="button">kind</button>',
        '<th scope="col" data-better="lower"><button type="button">gain</button>',
        '<th scope="col"><button type="button"><span class="group">MRR </span>a&lt;b</button>',
        '<th scope="col"><button type="button">interval</button>',
        "</thead>",
        "<tbody>",
        '<tr class="marked"><th scope=row>x &amp; y<td style=--v:0.50 class=t>&lt;i&gt;<td>−0.50'
        "<td style=--v:0.25 class=f>0.2<td>0.10–0.20",
        '<tr class="summary"><th scope=row>up<td class=t><td>+12.5\N{NO-BREAK SPACE}%<td>–<td>–',
        "</tbody>",
        "</table>",
    ]


def test_html_marks_the_best_and_carries_the_facts() -> None:
    found = small([0.25, 0.75], mark_best=True, notes=("a note",)).to_html()
    assert "<td><b>0.75</b>" in found
    assert "<b>0.25" not in found
    assert '<tfoot><tr><td class="t" colspan="2">data set: toy_set; split: test<br>a note</tfoot>' in found
    assert "<button" not in found


def test_a_signed_interval_has_no_dash_in_html() -> None:
    table = Table("T", (Column("n", align="left"), Column("i", "+z.2f")), (Row(("a", Interval(-0.5, 0.25))),))
    assert "<td>−0.50 to +0.25" in table.to_html()


def test_a_group_precedes_the_heading_in_every_rendering() -> None:
    columns = (Column("r", align="left"), Column("a", ".1f", group="weight"), Column("a", ".1f", group="MRR"))
    table = Table("T", columns, (Row(("x", 0.5, 0.25)),))
    assert "weight" in table.to_text()
    assert "| r | weight a | MRR a |" in table.to_markdown()
    assert table.to_json()["rows"] == [{"r": "x", "weight a": 0.5, "MRR a": 0.25}]
    assert read_csv(table)[0]["MRR a"] == "0.25"
