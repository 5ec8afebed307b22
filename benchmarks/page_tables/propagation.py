"""Tables of NBFNet: how fast it is beside message tensors, and what variants reach."""

import json
from typing import Any

from reproduction.evidence import ROOT

from .markdown import table

GRAPHS = {"wn18rr": "WN18RR", "fb15k-237": "FB15k-237", "nell-995": "NELL-995"}
KINDS = {"step": "a training step", "ranking": "ranking"}


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / f"docs/results/propagation/{name}.json").read_text(encoding="utf-8"))
    return found


def speed() -> str:
    """Return milliseconds per query with the kernels, with message tensors, and the ratio."""
    report = _read("messages")
    rows = []
    for graph, title in GRAPHS.items():
        for kind, what in KINDS.items():
            by_type = [found for key, found in report["messages"][graph].items() if key.startswith("torch.")]
            slow = min(found[f"{kind}_milliseconds_per_query"] for found in by_type)
            ratio = min(found[f"{kind}_ratio"] for found in by_type)
            rows.append([f"{title}, {what}", f"{slow / ratio:.2f}", f"{slow:.1f}", f"{ratio:.0f}×"])
    return table(["ms per query", "kernels", "message tensors", "ratio"], rows)


def variants() -> str:
    """Return the MRR of every variant."""
    rows = []
    for found in _read("variants")["variants"]:
        changes = ", ".join(f"`{key}={value}`" for key, value in found["changes"].items()) or "none"
        results = (f"{found[split]['mrr']:.4f}".lstrip("0") for split in ("valid", "test"))
        rows.append([GRAPHS[found["graph"]], changes, f"{found['seconds']:.0f}", f"{found['steps']:,}", *results])
    return table(["", "changes", "seconds", "steps", "validation MRR", "test MRR"], rows)


TABLES = {"propagation-speed": speed, "propagation-variants": variants}
