"""Tables of what the programs ``benchmarks/bench_*.py`` measured: times, memory and growth."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from reproduction.evidence import load

from .markdown import duration, table

Report = dict[str, Any]
Row = tuple[str, Callable[[Report], str]]
"""A row of a table: its title, and what says the cell of a column."""


def machine_table(report: Report) -> str:
    """Say where and with what the figures were measured."""
    found = report["environment"]
    packages = ", ".join(f"{name} {number}" for name, number in found["versions"].items() if number)
    cells = [
        found["cpu"],
        str(found["cores"]),
        f"{found['memory_gb']:g}",
        found["python"],
        packages,
        str(report["settings"]["jobs"]),
        found["commit"][:12],
    ]
    header = ["processor", "cores", "memory, GB", "Python", "packages", "workers", "commit"]
    return table(header, [cells], align="left")


def search_table(reports: Sequence[Report]) -> str:
    """Return one column per shape."""
    rows: list[Row] = [
        ("queries, groups", lambda r: f"{r['shape']['queries']:,}, {r['shape']['groups']:,}"),
        ("candidates, models", lambda r: f"{r['shape']['candidates']:,}, {r['shape']['models']}"),
        ("contested share", lambda r: f"{r['shape']['contested_share']:.1%}"),
        (
            "contested per query, median / mean",
            lambda r: f"{r['shape']['contested_median']:,.0f} / {r['shape']['contested_mean']:,.0f}",
        ),
        (
            "packed ranks, MB (of dense uint16)",
            lambda r: f"{r['shape']['packed_bytes'] / 1e6:,.0f} ({r['shape']['packed_over_dense']:.1%})",
        ),
        ("(a) authors' procedure, extrapolated", lambda r: _authors(r, "seconds")),
        ("  with numpy as it comes", lambda r: _authors(r, "seconds_numpy_as_it_comes")),
        ("  with the published objective", lambda r: _authors(r, "seconds_as_published")),
        ("(b) relens tpe", lambda r: duration(r["tpe"]["seconds"]) if r["tpe"] else "–"),
        ("(c) relens sweep", lambda r: duration(r["sweep"]["median_seconds"])),
        ("default fit, with cross-validation", lambda r: duration(r["default_fit"]["seconds"])),
        ("(a) / (c)", lambda r: _times(r["authors"]["extrapolated"]["seconds"], r) if r["authors"] else "–"),
        ("(b) / (c)", lambda r: _times(r["tpe"]["seconds"], r) if r["tpe"] else "–"),
        ("one evaluation of a weight vector", lambda r: duration(r["evaluation"]["median_seconds"])),
        (
            "  GB/s (of the best read kernel)",
            lambda r: f"{r['evaluation']['gb_per_second']:.1f} ({r['evaluation']['ratio_to_best_read']:.0%})",
        ),
        ("time of the sweep grows like", lambda r: f"n^{r['growth']['exponents']['sweep']:.2f}"),
        ("time of an evaluation grows like", lambda r: f"n^{r['growth']['exponents']['evaluation']:.2f}"),
    ]
    return _columns("", _names(reports), rows, reports)


def methods_table(reports: Sequence[Report]) -> str:
    """Return the validation MRRs, one column per shape."""
    rows: list[Row] = [
        ("best single model", lambda r: _mrr(r["methods"]["best_single"])),
        ("mean", lambda r: _mrr(r["methods"]["mean"])),
        ("simple, sweep", lambda r: _mrr(r["methods"]["simple"])),
        ("dsc, tpe (b)", lambda r: _mrr(r["tpe"]["mrr"]) if r["tpe"] else "–"),
        ("dsc, sweep (c)", lambda r: _mrr(r["sweep"]["mrr"])),
        ("sampled groups, authors' procedure (a)", lambda r: _mrr(r["authors"]["mrr"]) if r["authors"] else "–"),
        ("sampled groups, sweep (c)", lambda r: _mrr(r["authors"]["mrr_sweep"]) if r["authors"] else "–"),
    ]
    return _columns("validation MRR", _names(reports), rows, reports)


def pack_table(report: Report) -> str:
    """Return one row per kind of array."""
    header = ["packing", "GB", "seconds", "GB/s", "of reading", "store, MB", "private memory, GB"]
    rows = [
        [
            name,
            f"{case['bytes'] / 1e9:.1f}",
            f"{case['median_seconds']:.1f}",
            f"{case['gb_per_second']:.2f}",
            f"{case['ratio_to_best_read']:.0%}",
            f"{case['store_bytes'] / 1e6:,.0f}",
            f"{case['peak_private_gb']:.2f}",
        ]
        for name, case in report["cases"].items()
    ]
    return table(header, rows)


def scale_table(report: Report) -> str:
    """Return one column per size."""
    rows: list[Row] = [
        ("queries, groups", lambda r: f"{r['queries']:,}, {r['groups']:,}"),
        ("rank files, MB", lambda r: f"{r['file_bytes'] / 1e6:,.0f}"),
        ("packed ranks, MB (contested share)", lambda r: f"{r['store_bytes'] / 1e6:,.0f} ({r['contested_share']:.1%})"),
        ("packing", lambda r: duration(r["pack"]["median_seconds"])),
        (
            "  GB/s (of the best way to read)",
            lambda r: f"{r['pack_gb_per_second']:.1f} ({r['ratio_to_best_read']:.0%})",
        ),
        ("search of all groups", lambda r: duration(r["search"]["median_seconds"])),
        ("evaluation, with intervals", lambda r: duration(r["evaluation"]["median_seconds"])),
        (
            "default fit, with cross-validation",
            lambda r: duration(r["default_fit"]["seconds"]) if "default_fit" in r else "–",
        ),
        ("memory at most, GB", lambda r: f"{r['peak_gb']:.2f}"),
    ]
    return _columns("triples", [f"{size['triples']:,}" for size in report["sizes"]], rows, report["sizes"])


def large_table(report: Report) -> str:
    """Return one row per step and one column per size: seconds, processor seconds and memory; and the growth."""
    sizes = report["sizes"]
    header = ["seconds (of processor), GB at most", *(f"{size['train']:,}" for size in sizes), "grows like"]
    rows = [
        ["entities", *(f"{size['entities']:,}" for size in sizes), ""],
        ["train.txt, MB", *(f"{size['file_bytes'] / 1e6:,.0f}" for size in sizes), ""],
        ["graph of a run, MB", *(f"{size['graph_bytes'] / 1e6:,.0f}" for size in sizes), ""],
    ]
    of = {
        "training steps": f"{sizes[-1]['steps']} training steps of {sizes[-1]['batch']} examples",
        "ranking": f"ranking {sizes[-1]['ranked']} queries by one model",
        "packing": f"ranking and packing {sizes[-1]['packed']} queries by two models",
    }
    for name in sizes[-1]["costs"]:
        cells = [
            f"{cost['seconds']:.1f} ({cost['processor_seconds']:.1f}), {cost['peak_gb']:.2f}"
            for cost in (size["costs"][name] for size in sizes)
        ]
        exponent = f"n^{report['growth'][name]:.2f}" if report["growth"] else "–"
        rows.append([of.get(name, name), *cells, exponent])
    return table(header, rows)


def models_table(report: Report) -> str:
    """Return one column per number of models."""
    rows: list[Row] = [
        ("contested share", lambda r: f"{r['statistics']['contested_share']:.1%}"),
        ("packed ranks, MB", lambda r: f"{r['store_bytes'] / 1e6:,.0f}"),
        ("ranking and packing of scores", lambda r: duration(r["pack_seconds"])),
        ("search of all groups", lambda r: duration(r["search"]["median_seconds"])),
        ("evaluation, with intervals", lambda r: duration(r["evaluation"]["median_seconds"])),
        ("memory at most, GB", lambda r: f"{r['peak_gb']:.2f}"),
        ("best single model", lambda r: _mrr(r["mrr_best_single"])),
        ("dsc, sweep", lambda r: _mrr(r["mrr"])),
        ("models with a weight, per group", lambda r: f"{r['models_used']:.1f}"),
        ("search with a limit on the models", lambda r: duration(r["few"]["seconds"]) if "few" in r else "–"),
        (
            "dsc with that limit",
            lambda r: f"{_mrr(r['few']['mrr'])} (at most {r['few']['max_models']})" if "few" in r else "–",
        ),
    ]
    return _columns("models", [str(size["models"]) for size in report["sizes"]], rows, report["sizes"])


def ogb_table(report: Report) -> str:
    """Return one column per form of the files."""
    rows: list[Row] = [
        ("files, MB", lambda r: f"{r['bytes'] / 1e6:,.0f}"),
        ("reading the bytes alone", lambda r: duration(r["bytes_alone"]["median_seconds"])),
        ("first read: checked and copied", lambda r: duration(r["first"]["median_seconds"])),
        ("memory at most, GB", lambda r: f"{r['peak_gb']:.2f}"),
        ("every further read", lambda r: duration(r["again"]["median_seconds"])),
    ]
    return _columns("", list(report["forms"]), rows, list(report["forms"].values()))


COSTS = {
    "pack": "packing",
    "packing": "packing",
    "search": "search",
    "evaluation": "evaluation",
    "peak memory": "memory",
    "store bytes": "packed ranks",
    "contested candidates": "contested candidates",
}
"""Names of the growing quantities, in reports and in pages."""


def growth_table(report: Report) -> str:
    """Return the exponents of growth with the models, or with the triples: over all sizes and over the last step."""
    sizes = report["sizes"]
    if report["benchmark"] == "models":
        header = ["grows with the models N like", f"from {sizes[0]['models']} to {sizes[-1]['models']} models"]
        return table(header, [[COSTS[name], f"N^{value:.2f}"] for name, value in report["growth"].items()])
    first, last = (round(sizes[-1]["triples"] / size["triples"]) for size in (sizes[0], sizes[-2]))
    header = ["grows with the triples n like", f"from 1/{first} to all", f"from 1/{last} to all"]
    spans = report["growth"], report["growth_at_last"]
    return table(header, [[COSTS[name], *(f"n^{span[name]:.2f}" for span in spans)] for name in report["growth"]])


def serving_table(report: Report) -> str:
    """Return one row per service."""
    rows = [
        [
            name,
            f"{found['answers']:,}",
            f"{found['answers_per_second']:.1f}",
            f"{1e3 * found['p50_seconds']:,.0f}",
            f"{1e3 * found['p99_seconds']:,.0f}",
            f"{1e3 * found['server_processor_seconds']:,.1f}",
            f"{found['processor_limit']:.1f}",
            f"{found['memory_bytes'][-1][1] / 1e6:,.0f}",
            f"{found['memory_growth'] - 1:+.1%}",
        ]
        for name, found in report["services"].items()
    ]
    header = [
        "service", "answers", "per second", "p50, ms", "p99, ms", "processor, ms per answer",
        "processor limit, per second", "memory, MB", "growth",
    ]  # fmt: skip
    return table(header, rows)


def bulk_table(report: Report) -> str:
    """Return seconds per query of ranking, and of predictions with either input."""
    bulk = report["bulk"]
    rows = [
        [
            title,
            f"{1e3 * bulk[name]['seconds']:.1f}",
            f"{1e3 * bulk[name]['processor_seconds']:.1f}",
            f"{bulk[name]['ratio']:.2f}",
            f"{bulk[name]['processor_ratio']:.2f}",
        ]
        for name, title in (("ranking", "ranking"), ("rank", "predictions, ranks"), ("score", "predictions, scores"))
    ]
    header = ["", "ms per query", "processor, ms per query", "of ranking", "of its processor time"]
    return table(header, rows)


def targets_table(reports: Sequence[Report]) -> str:
    """Return every target, what was measured, and whether that reaches it."""
    rows = [
        [
            report["shape"]["name"] if report["benchmark"] == "search" else report["benchmark"],
            target["name"],
            f"{target['kind']} {target['bound']:g}",
            f"{target['value']:,.0f}" if abs(target["value"]) >= 1000 else f"{target['value']:.3g}",
            "yes" if target["reached"] else "no",
        ]
        for report in reports
        for target in report["targets"]
    ]
    return table(["", "target", "bound", "measured", "reached"], rows, align="left")


def _columns(corner: str, headings: Sequence[str], rows: Sequence[Row], entries: Sequence[Report]) -> str:
    """Return a table with a column for each entry."""
    return table([corner, *headings], [[title, *map(cell, entries)] for title, cell in rows])


def _names(reports: Sequence[Report]) -> list[str]:
    return [report["shape"]["name"] for report in reports]


def _authors(report: Report, key: str) -> str:
    return duration(report["authors"]["extrapolated"][key]) if report["authors"] else "–"


def _times(seconds: float, report: Report) -> str:
    return f"{seconds / report['sweep']['median_seconds']:,.0f}×"


def discovery_table(reports: Sequence[Report]) -> str:
    """Return one column per ensemble that searched for new facts."""
    rows: list[Row] = [
        ("models", lambda r: f"{len(r['settings']['models'])} × {', '.join(dict.fromkeys(r['settings']['models']))}"),
        ("input", lambda r: r["settings"]["input"]),
        ("measured on", lambda r: f"{r['environment']['device']}, {r['environment']['cpu']}"),
        ("load of the machine, cores", lambda r: f"{r['environment']['load_average']}, {r['environment']['cores']}"),
        ("queries of the sample", lambda r: f"{r['sample']['queries']:,}"),
        ("processor time, wall-clock time", lambda r: _times_of(r["sample"])),
        ("  of it for scores", lambda r: f"{r['sample']['scoring_cpu_seconds'] / r['sample']['cpu_seconds']:.0%}"),
        ("peak memory, GB", lambda r: f"{r['sample']['peak_gb']:.1f}"),
        *(
            row
            for rule in ("observed", "likely", "all")
            for row in (
                (f"`{rule}`: pairs, queries at most", partial(_planned, rule)),
                ("  hours of one core, of two", partial(_core_hours, rule)),
            )
        ),
    ]
    return _columns("", [f"{number}" for number in range(1, len(reports) + 1)], rows, reports)


def pruning_table(report: Report) -> str:
    """Return what each rule for candidates finds of the held-out facts, and of the facts without pruning."""
    top = f"{report['settings']['top']:,}"
    header = ["candidates", "depth", "queries", "best 100 kept", "held-out considered", f"held-out in best {top}"]
    rows = [
        [
            f"`{row['candidates']}`",
            f"{row['depth']:,}",
            f"{row['queries']:,}",
            f"{row['kept']:.1%}",
            f"{row['held_out']:.1%}",
            f"{row['held_out_in_best']:.1%}",
        ]
        for row in report["rows"]
    ]
    return table(header, rows)


def candidates_table(report: Report) -> str:
    """Return a row for each graph and rule for candidates."""
    header = ["graph", "candidates", "pairs", "of all pairs", "queries", "valid facts kept", "test facts kept"]
    rows = [
        [
            row["dataset"],
            f"`{row['candidates']}`",
            f"{row['pairs']:,}",
            f"{row['share_of_pairs']:.2%}",
            f"{row['queries']:,}",
            f"{row['valid']:.1%}",
            f"{row['test']:.1%}",
        ]
        for row in report["rows"]
    ]
    return table(header, rows)


def _times_of(sample: Report) -> str:
    return f"{duration(sample['cpu_seconds'])}, {duration(sample['seconds'])}"


def _planned(rule: str, report: Report) -> str:
    planned = report["planned"][rule]
    return f"{planned['pairs']:.3g}, {planned['queries_at_most']:,}"


def _core_hours(rule: str, report: Report) -> str:
    hours = report["extrapolated"][rule]["cpu_seconds"] / 3600
    return f"{hours:,.1f}, {hours / 2:,.1f}"


def _mrr(value: float) -> str:
    return f"{value:.4f}"


SEARCHES = ("search-fb15k-237", "search-wn18rr")
DISCOVERIES = ("discover",)
MEASURED = (*SEARCHES, "pack", "scale-wikikg2", "models-fb15k-237", "ogb-reading", "scale-large")

TABLES: dict[str, Callable[..., str]] = {
    "machine": lambda report: machine_table(load(report)),
    "search": lambda: search_table([load(name) for name in SEARCHES]),
    "methods": lambda: methods_table([load(name) for name in SEARCHES]),
    "pack": lambda: pack_table(load("pack")),
    "scale": lambda: scale_table(load("scale-wikikg2")),
    "large": lambda: large_table(load("scale-large")),
    "models": lambda: models_table(load("models-fb15k-237")),
    "growth": lambda report: growth_table(load(report)),
    "discover": lambda: discovery_table([load(name) for name in DISCOVERIES]),
    "discover-candidates": lambda: candidates_table(load("discover-candidates")),
    "pruning": lambda: pruning_table(load("discover-pruning")),
    "ogb-reading": lambda: ogb_table(load("ogb-reading")),
    "serving": lambda: serving_table(load("serving")),
    "bulk": lambda: bulk_table(load("serving")),
    "targets": lambda: targets_table([load(name) for name in MEASURED]),
}
"""The tables of the committed reports, by name."""

BY_BENCHMARK: dict[str, tuple[Callable[[Report], str], ...]] = {
    "pack": (pack_table,),
    "scale": (scale_table, growth_table),
    "large": (large_table,),
    "models": (models_table, growth_table),
    "ogb": (ogb_table,),
    "discover": (lambda report: discovery_table([report]),),
    "serving": (serving_table, bulk_table),
}
"""The tables of each kind of report, except searches, which share a table."""


def all_tables(reports: Sequence[Report]) -> list[str]:
    """Return the tables of any reports, those of searches side by side."""
    searches = [report for report in reports if report["benchmark"] == "search"]
    parts = [machine_table(report) for report in reports[:1]]
    if searches:
        parts += [search_table(searches), methods_table(searches)]
    parts += [show(report) for report in reports for show in BY_BENCHMARK.get(report["benchmark"], ())]
    if any(report["targets"] for report in reports):
        parts.append(targets_table(reports))
    return parts
