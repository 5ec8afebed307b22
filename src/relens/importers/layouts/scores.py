"""Score matrices of a folder, with query files.

A folder holds ``{model}_{valid,test}_scores.npy``, (queries, entities), and ``{valid,test}_queries.tsv`` or ``.npy``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relens.data.queries import EVALUATED
from relens.importers.arrays import ArrayOptions, find_models, scores_with_queries
from relens.importers.dense import Dense, Matrix
from relens.importers.importer import DATA, FILTER, GAPS, MODELS, RELATIONS, Importer
from relens.options import Option


def read_scores(folder: Path, *, models: Sequence[str] = (), options: ArrayOptions | None = None) -> dict[str, Dense]:
    """Read the scores of valid and test, of all models in alphabetical order, or of ``models`` in their order."""
    files = find_models(folder, "scores", models)
    matrices = {split: {name: Matrix.open(paths[split]) for name, paths in files.items()} for split in EVALUATED}
    return scores_with_queries(folder, matrices, options or ArrayOptions())


class ScoresImporter(Importer):
    """Reads scores."""

    name = "scores"
    description = "DIR/MODEL_{valid,test}_scores.npy and DIR/{valid,test}_queries.tsv (or .npy)"
    order = 2
    options: Mapping[str, Option] = {
        "data": DATA,
        "models": MODELS,
        "n_relations": RELATIONS,
        "filtered": FILTER,
        "gaps": GAPS,
    }

    def read(self, folder: Path, **options: Any) -> dict[str, Dense]:
        """Return the scores to pack, by split."""
        return read_scores(folder, models=options.pop("models"), options=ArrayOptions(**options))


SCORES = ScoresImporter()
