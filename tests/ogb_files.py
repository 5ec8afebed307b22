"""Small data sets laid out like OGB's archives: the same files, the same keys, the same types."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

NODE_COUNTS = {"protein": 12, "disease": 11, "drug": 10}  # OGB sorts the types: disease, drug, protein
RELATIONS = [("disease", "protein"), ("drug", "disease"), ("drug", "drug"), ("protein", "protein")]
N_NODES, N_RELATIONS, N_NEGATIVES = 30, 4, 4
SIZES = {"train": 40, "valid": 9, "test": 11}


def biokg_splits(seed: int = 0) -> dict[str, dict[str, Any]]:
    """Draw triples between typed nodes, and negatives of the same type that are not known answers."""
    rng = np.random.default_rng(seed)
    triples = [
        (relation, head, tail)
        for relation, (head_type, tail_type) in enumerate(RELATIONS)
        for head in range(NODE_COUNTS[head_type])
        for tail in range(NODE_COUNTS[tail_type])
    ]
    chosen = [triples[i] for i in rng.permutation(len(triples))[: sum(SIZES.values())]]
    facts, splits = set(chosen), {}
    for split, size in SIZES.items():
        rows, chosen = chosen[:size], chosen[size:]
        relation, head, tail = np.array(rows).T
        splits[split] = {
            "head_type": [RELATIONS[r][0] for r in relation],
            "head": head,
            "relation": relation,
            "tail_type": [RELATIONS[r][1] for r in relation],
            "tail": tail,
        }
        if split != "train":
            for side, place in (("head", 0), ("tail", 1)):
                others = [
                    [e for e in range(NODE_COUNTS[RELATIONS[r][place]])
                     if ((r, e, t) if side == "head" else (r, h, e)) not in facts]
                    for r, h, t in rows
                ]  # fmt: skip
                splits[split][f"{side}_neg"] = np.stack([rng.permutation(o)[:N_NEGATIVES] for o in others])
    return splits


def wikikg_splits(seed: int = 0) -> dict[str, dict[str, Any]]:
    """Draw triples of untyped nodes, and negatives that are not the answer."""
    rng = np.random.default_rng(seed)
    splits: dict[str, dict[str, Any]] = {}
    for split, size in SIZES.items():
        head, tail = rng.integers(0, N_NODES, (2, size))
        splits[split] = {"head": head, "relation": rng.integers(0, N_RELATIONS, size), "tail": tail}
        if split != "train":
            for side, answers in (("head", head), ("tail", tail)):
                drawn = [rng.permutation(np.delete(np.arange(N_NODES), a))[:N_NEGATIVES] for a in answers]
                splits[split][f"{side}_neg"] = np.stack(drawn)
    return splits


def write_biokg(root: Path, splits: dict[str, dict[str, Any]] | None = None, **saving: Any) -> Path:
    """Write ``ogbl_biokg`` below a root, the graph for ogb's own reader included."""
    splits, folder = splits or biokg_splits(), root / "ogbl_biokg"
    write_splits(folder / "split" / "random", splits, **saving)
    write_csv(folder / "raw" / "num-node-dict.csv.gz", [list(NODE_COUNTS), list(NODE_COUNTS.values())])
    names = [(head, f"{head}-{tail}", tail) for head, tail in RELATIONS]
    write_csv(folder / "raw" / "triplet-type-list.csv.gz", names)
    train = splits["train"]
    for relation, triplet in enumerate(names):
        edges = folder / "raw" / "relations" / "___".join(triplet)
        rows = np.stack([train["head"], train["tail"]], axis=1)[train["relation"] == relation].tolist()
        write_csv(edges / "edge.csv.gz", rows)
        write_csv(edges / "num-edge-list.csv.gz", [[len(rows)]])
        write_csv(edges / "edge_reltype.csv.gz", [[relation]] * len(rows))
    mapping = [[relation, triplet[1]] for relation, triplet in enumerate(names)]
    write_csv(folder / "mapping" / "relidx2relname.csv.gz", [["rel idx", "rel name"], *mapping])
    for kind, size in NODE_COUNTS.items():
        rows = [[number, f"{kind[:2].upper()}{number:04d}"] for number in range(size)]
        write_csv(folder / "mapping" / f"{kind}_entidx2name.csv.gz", [["ent idx", "ent name"], *rows])
    (folder / "RELEASE_v1.txt").touch()
    (folder / "processed").mkdir()
    return folder


def write_wikikg(root: Path, splits: dict[str, dict[str, Any]] | None = None, **saving: Any) -> Path:
    """Write ``ogbl_wikikg2`` below a root."""
    splits, folder = splits or wikikg_splits(), root / "ogbl_wikikg2"
    write_splits(folder / "split" / "time", splits, **saving)
    train = splits["train"]
    write_csv(folder / "raw" / "num-node-list.csv.gz", [[N_NODES]])
    write_csv(folder / "raw" / "num-edge-list.csv.gz", [[len(train["head"])]])
    write_csv(folder / "raw" / "edge.csv.gz", np.stack([train["head"], train["tail"]], axis=1).tolist())
    write_csv(folder / "raw" / "edge_reltype.csv.gz", train["relation"][:, None].tolist())
    entities = [[number, f"Q{100 + number}"] for number in range(N_NODES)]
    write_csv(folder / "mapping" / "nodeidx2entityid.csv.gz", [["node idx", "entity id"], *entities])
    relations = [[number, f"P{10 + number}"] for number in range(N_RELATIONS)]
    write_csv(folder / "mapping" / "reltype2relid.csv.gz", [["reltype", "rel id"], *relations])
    (folder / "RELEASE_v1.txt").touch()
    (folder / "processed").mkdir()
    return folder


def write_splits(folder: Path, splits: dict[str, dict[str, Any]], *, joint: bool = False, **saving: Any) -> None:
    """Save the splits as OGB does; ``joint`` is its newer form, one file for all."""
    folder.mkdir(parents=True, exist_ok=True)
    if joint:
        torch.save(splits, folder / "split_dict.pt", **saving)
        return
    for split, columns in splits.items():
        torch.save(columns, folder / f"{split}.pt", **saving)


def write_csv(path: Path, rows: Any) -> None:
    """Write a compressed table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
