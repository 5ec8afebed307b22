"""Tables of the strong ensembles: beside published models, and member by member."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from reproduction.evidence import EVERY, METRICS, STRONG, load

from .markdown import figure, signed, table
from .paper import trained

PUBLISHED = json.loads((Path(__file__).parents[1] / "reproduction/published.json").read_text(encoding="utf-8"))
"""Test MRRs of single models that were selected on validation, as their authors published them."""
NONE = "–"


def beside_published() -> str:
    """Return the test MRRs of the strong ensembles beside published ones; a dash where there is none."""
    rows = [
        [
            name,
            *(figure(found["mrr"][strong.dataset], 3) if strong.dataset in found["mrr"] else NONE for strong in STRONG),
        ]
        for name, found in PUBLISHED.items()
    ]
    rows.append(["RelEns-DSC, the paper", *(figure(evidence.paper["dsc"][0]) for evidence in EVERY)])
    rows.append(["relens, the paper's six models, `dsc`", *(figure(evidence.test("dsc")["mrr"]) for evidence in EVERY)])
    rows.append(["relens `--preset strong`, best single member", *(spread(strong.best_single()) for strong in STRONG)])
    rows.append(["relens `--preset strong`, `simple`", *(spread(strong.mrrs("simple")) for strong in STRONG)])
    bold = (spread(strong.mrrs("dsc")) for strong in STRONG)
    rows.append(["**relens `--preset strong`, `dsc`**", *(cell if cell == NONE else f"**{cell}**" for cell in bold)])
    rows.append(["seeds of `--preset strong`", *(str(len(strong.seeds)) for strong in STRONG)])
    return table(["test MRR", *(strong.title for strong in STRONG)], rows)


def spread(values: Sequence[float]) -> str:
    """Return the mean and the standard deviation of several values, or the only one; a dash for none."""
    if len(values) < 2:
        return figure(values[0]) if values else NONE
    return f"{figure(statistics.mean(values))} ± {figure(statistics.stdev(values))}"


def members(dataset: str, seed: str) -> str:
    """Return how each member was trained and what it is worth, and what the ensembles are worth."""
    (found,) = (strong.record(int(seed)) for strong in STRONG if strong.dataset == dataset)
    header = ["", "seconds", "steps", "best step", "validation MRR", "test MRR", "Hit@1", "Hit@3", "Hit@10"]
    rows = [
        [f"`{name}`", *trained(model), *(figure(model["test"][metric]) for metric in METRICS[1:])]
        for name, model in found["models"].items()
    ]
    rows += [
        [f"`{name}`", *[""] * 4, *(figure(method["test"][metric]) for metric in METRICS)]
        for name, method in found["methods"].items()
    ]
    return table(header, rows)


def left_out(dataset: str) -> str:
    """Return the cross-validated MRR of all members, and its change without each of them."""
    found = load(f"strong/{dataset}/members")
    rows = [["all", figure(found["all"]["dsc"]), figure(found["all"]["simple"])]]
    rows += [
        [f"without `{name}`", *(signed(changed[method] - found["all"][method]) for method in ("dsc", "simple"))]
        for name, changed in found["without"].items()
    ]
    return table(["cross-validated MRR", "`dsc`", "`simple`"], rows)


def gates() -> str:
    """Return the cross-validated gain of weights that see more than the relation."""
    found = [row for strong in STRONG for row in load(f"strong/{strong.dataset}/gates")["rows"]]
    gain = {(row["data"], row["weights"]): row["mrr"] - row["plain"] for row in found}
    kinds = dict.fromkeys(row["weights"] for row in found)
    rows = [[kind, *(signed(gain[strong.dataset, kind]) for strong in STRONG)] for kind in kinds]
    return table(["gain over `dsc`, cross-validated MRR", *(strong.title for strong in STRONG)], rows)


TABLES = {"strong": beside_published, "strong-members": members, "strong-left-out": left_out, "strong-gates": gates}
