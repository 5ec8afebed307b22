"""The table of the campaigns: what was tried and what survived, for each seed."""

import json
from typing import Any

from reproduction.evidence import ROOT

from .markdown import table


def campaigns() -> str:
    """Return a row for each attack, with the numbers tried and survived of each seed."""
    files = sorted((ROOT / "docs/results/campaigns").glob("seed-*.json"))
    found: list[dict[str, Any]] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    header = ["campaign", "attack"]
    for report in found:
        header += [f"tried, seed {report['seed']}", f"survived, seed {report['seed']}"]
    rows = []
    for name, attacks in found[0]["campaigns"].items():
        for attack in attacks:
            tallies = [report["campaigns"][name][attack] for report in found]
            numbers = [f"{tally[key]:,}" for tally in tallies for key in ("tried", "survived")]
            rows.append([name, attack.replace("_", " "), *numbers])
    times = [text for report in found for text in (f"{report['seconds'] / 60:.0f} min", "")]
    return table(header, [*rows, ["all", "time", *times]])


TABLES = {"campaigns": campaigns}
