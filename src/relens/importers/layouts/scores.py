"""Score matrices of a folder, with query files.

A folder holds ``{model}_{valid,test}_scores.npy``, (queries, entities), and ``{valid,test}_queries.tsv`` or ``.npy``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relens.data.queries import EVALUATED
from relens.errors import RanksError
from relens.importers.arrays import ArrayOptions, check_entities, dense_split, digest_of, find_models
from relens.importers.dense import Dense, Matrix, check_columns, fit_scales, with_scales
from relens.importers.importer import DATA, FILTER, GAPS, MODELS, RELATIONS, Importer
from relens.importers.numbering import Numbering
from relens.importers.query_files import find_query_file, relation_vocabulary
from relens.records import Provenance


def read_scores(folder: Path, *, models: Sequence[str] = (), options: ArrayOptions | None = None) -> dict[str, Dense]:
    """Read the scores of valid and test, of all models in alphabetical order, or of ``models`` in their order."""
    options = options or ArrayOptions()
    files = find_models(folder, "scores", models)
    matrices = {split: {name: Matrix.open(paths[split]) for name, paths in files.items()} for split in EVALUATED}
    every_matrix = [matrix for by_name in matrices.values() for matrix in by_name.values()]
    check_entities(every_matrix, options.data)
    check_columns(every_matrix)
    tables = {split: find_query_file(folder, split) for split in EVALUATED}
    if len({type(table) for table in tables.values()}) > 1:
        raise RanksError(f"{folder} has query files of labels and of ids: expected the same kind for both splits.")
    labels = set[str]().union(*(table.relation_labels() for table in tables.values()))
    relations = relation_vocabulary(labels, options.n_relations)
    numbering = Numbering.read(folder, every_matrix[0].file_columns, relations, options.data)
    digest = digest_of([table.queries(numbering).fingerprint() for table in tables.values()])
    dense = {
        split: dense_split("scores", matrices[split], table, numbering, Provenance(folder.name, digest, split), options)
        for split, table in tables.items()
    }
    if options.gaps is not False:
        scales = fit_scales(dense["valid"])
        dense = {split: with_scales(scores, scales) for split, scores in dense.items()}
    return dense


class ScoresImporter(Importer):
    """Reads scores."""

    name = "scores"
    description = "DIR/MODEL_{valid,test}_scores.npy and DIR/{valid,test}_queries.tsv (or .npy)"
    order = 2
    options = (DATA, MODELS, RELATIONS, FILTER, GAPS)

    def read(self, folder: Path, **options: Any) -> dict[str, Dense]:
        """Return the scores to pack, by split."""
        return read_scores(folder, models=options.pop("models"), options=ArrayOptions(**options))


SCORES = ScoresImporter()
