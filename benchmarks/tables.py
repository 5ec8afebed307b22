"""The benchmark reports as Markdown tables, for the documentation.

python benchmarks/tables.py out/search-fb15k-237.json out/search-wn18rr.json out/pack.json
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

Report = dict[str, Any]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(files: tuple[Path, ...]) -> None:
    """Print the tables of the reports in FILES, those of searches side by side."""
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    searches = [report for report in reports if report["benchmark"] == "search"]
    parts = [machine(report) for report in reports[:1]]
    if searches:
        parts += [search_table(searches), methods_table(searches)]
    parts += [TABLES[report["benchmark"]](report) for report in reports if report["benchmark"] in TABLES]
    if any(report["targets"] for report in reports):
        parts.append(targets_table(reports))
    click.echo("\n\n".join(parts))


def machine(report: Report) -> str:
    """Say in a line where and with what the figures were measured."""
    found, versions = report["environment"], report["environment"]["versions"]
    packages = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    return (
        f"{found['cpu']}, {found['cores']} cores, {found['memory_gb']:g} GB; Python {found['python']}, {packages}; "
        f"{report['settings']['jobs']} workers; commit {found['commit'][:12]}."
    )


def search_table(reports: Sequence[Report]) -> str:
    """Return one column per shape."""
    rows: list[tuple[str, Callable[[Report], str]]] = [
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
        ("(b) relens tpe", lambda r: _duration(r["tpe"]["seconds"]) if r["tpe"] else "–"),
        ("(c) relens sweep", lambda r: _duration(r["sweep"]["median_seconds"])),
        ("default fit, with cross-validation", lambda r: _duration(r["default_fit"]["seconds"])),
        ("(a) / (c)", lambda r: _times(r["authors"]["extrapolated"]["seconds"], r) if r["authors"] else "–"),
        ("(b) / (c)", lambda r: _times(r["tpe"]["seconds"], r) if r["tpe"] else "–"),
        ("one evaluation of a weight vector", lambda r: _duration(r["evaluation"]["median_seconds"])),
        (
            "  GB/s (of the best read kernel)",
            lambda r: f"{r['evaluation']['gb_per_second']:.1f} ({r['evaluation']['ratio_to_best_read']:.0%})",
        ),
        ("time of the sweep grows like", lambda r: f"n^{r['growth']['exponents']['sweep']:.2f}"),
        ("time of an evaluation grows like", lambda r: f"n^{r['growth']['exponents']['evaluation']:.2f}"),
    ]
    return _table(["", *_names(reports)], [[title, *map(cell, reports)] for title, cell in rows])


def methods_table(reports: Sequence[Report]) -> str:
    """Return the validation MRRs, one column per shape."""
    rows: list[tuple[str, Callable[[Report], str]]] = [
        ("best single model", lambda r: _mrr(r["methods"]["best_single"])),
        ("mean", lambda r: _mrr(r["methods"]["mean"])),
        ("simple, sweep", lambda r: _mrr(r["methods"]["simple"])),
        ("dsc, tpe (b)", lambda r: _mrr(r["tpe"]["mrr"]) if r["tpe"] else "–"),
        ("dsc, sweep (c)", lambda r: _mrr(r["sweep"]["mrr"])),
        ("sampled groups, authors' procedure (a)", lambda r: _mrr(r["authors"]["mrr"]) if r["authors"] else "–"),
        ("sampled groups, sweep (c)", lambda r: _mrr(r["authors"]["mrr_sweep"]) if r["authors"] else "–"),
    ]
    return _table(["validation MRR", *_names(reports)], [[title, *map(cell, reports)] for title, cell in rows])


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
    return _table(header, rows)


def scale_table(report: Report) -> str:
    """Return one column per size."""
    rows: list[tuple[str, Callable[[Report], str]]] = [
        ("queries, groups", lambda r: f"{r['queries']:,}, {r['groups']:,}"),
        ("rank files, MB", lambda r: f"{r['file_bytes'] / 1e6:,.0f}"),
        ("packed ranks, MB (contested share)", lambda r: f"{r['store_bytes'] / 1e6:,.0f} ({r['contested_share']:.1%})"),
        ("packing", lambda r: _duration(r["pack"]["median_seconds"])),
        (
            "  GB/s (of the best way to read)",
            lambda r: f"{r['pack_gb_per_second']:.1f} ({r['ratio_to_best_read']:.0%})",
        ),
        ("search of all groups", lambda r: _duration(r["search"]["median_seconds"])),
        ("evaluation, with intervals", lambda r: _duration(r["evaluation"]["median_seconds"])),
        (
            "default fit, with cross-validation",
            lambda r: _duration(r["default_fit"]["seconds"]) if "default_fit" in r else "–",
        ),
        ("memory at most, GB", lambda r: f"{r['peak_gb']:.2f}"),
    ]
    header = ["triples", *(f"{size['triples']:,}" for size in report["sizes"])]
    return _table(header, [[title, *map(cell, report["sizes"])] for title, cell in rows])


def models_table(report: Report) -> str:
    """Return one column per number of models."""
    rows: list[tuple[str, Callable[[Report], str]]] = [
        ("contested share", lambda r: f"{r['statistics']['contested_share']:.1%}"),
        ("packed ranks, MB", lambda r: f"{r['store_bytes'] / 1e6:,.0f}"),
        ("ranking and packing of scores", lambda r: _duration(r["pack_seconds"])),
        ("search of all groups", lambda r: _duration(r["search"]["median_seconds"])),
        ("evaluation, with intervals", lambda r: _duration(r["evaluation"]["median_seconds"])),
        ("memory at most, GB", lambda r: f"{r['peak_gb']:.2f}"),
        ("best single model", lambda r: _mrr(r["mrr_best_single"])),
        ("dsc, sweep", lambda r: _mrr(r["mrr"])),
        ("models with a weight, per group", lambda r: f"{r['models_used']:.1f}"),
        ("search with a limit on the models", lambda r: _duration(r["few"]["seconds"]) if "few" in r else "–"),
        (
            "dsc with that limit",
            lambda r: f"{_mrr(r['few']['mrr'])} (at most {r['few']['max_models']})" if "few" in r else "–",
        ),
    ]
    header = ["models", *(str(size["models"]) for size in report["sizes"])]
    return _table(header, [[title, *map(cell, report["sizes"])] for title, cell in rows])


def ogb_table(report: Report) -> str:
    """Return one column per form of the files."""
    rows: list[tuple[str, Callable[[Report], str]]] = [
        ("files, MB", lambda r: f"{r['bytes'] / 1e6:,.0f}"),
        ("reading the bytes alone", lambda r: _duration(r["bytes_alone"]["median_seconds"])),
        ("first read: checked and copied", lambda r: _duration(r["first"]["median_seconds"])),
        ("memory at most, GB", lambda r: f"{r['peak_gb']:.2f}"),
        ("every further read", lambda r: _duration(r["again"]["median_seconds"])),
    ]
    forms = report["forms"]
    return _table(["", *forms], [[title, *map(cell, forms.values())] for title, cell in rows])


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
    return _table(["", "target", "bound", "measured", "reached"], rows)


TABLES: dict[str, Callable[[Report], str]] = {
    "pack": pack_table,
    "scale": scale_table,
    "models": models_table,
    "ogb": ogb_table,
}
"""The tables of reports that are shown one by one."""


def _names(reports: Sequence[Report]) -> list[str]:
    return [report["shape"]["name"] for report in reports]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _authors(report: Report, key: str) -> str:
    return _duration(report["authors"]["extrapolated"][key]) if report["authors"] else "–"


def _times(seconds: float, report: Report) -> str:
    return f"{seconds / report['sweep']['median_seconds']:,.0f}×"


def _mrr(value: float) -> str:
    return f"{value:.4f}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


if __name__ == "__main__":
    main()
