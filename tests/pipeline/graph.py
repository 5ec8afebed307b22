"""A graph and models so small that a whole run takes a second or two."""

from pathlib import Path

MODELS = ("transe", "complex", "conve")
CHANGES = (
    "steps=30",
    "validate_every=10",
    "batch=64",
    "dim=16",
    "conve.channels=2",
    "conve.height=4",
    "transe.negatives=8",
)


def write_ring(folder: Path) -> Path:
    """Write a ring of 16 entities with steps of one and of three, as TSV files."""
    folder.mkdir(parents=True)
    rows = [(f"e{i}", f"plus_{step}", f"e{(i + step) % 16}") for step in (1, 3) for i in range(16)]
    splits = {"train": [], "valid": [], "test": []}
    for number, row in enumerate(rows):
        splits["valid" if number % 6 == 2 else "test" if number % 6 == 5 else "train"].append(row)
    for split, part in splits.items():
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    return folder
