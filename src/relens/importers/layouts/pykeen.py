"""Models that PyKEEN trained and saved."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from relens.data.dataset import Dataset
from relens.errors import RanksError, nearest
from relens.importers.arrays import check_models
from relens.importers.dense import Dense
from relens.importers.importer import GAPS, MODELS, Importer
from relens.importers.pykeen import MODEL_FILE, Missing, PykeenFolder
from relens.importers.scorers import scorer_splits
from relens.options import Option
from relens.ranking.memory import MEMORY_BUDGET

if TYPE_CHECKING:
    import torch

MISSING = Option(
    "Entities that a model was not trained with: refuse the model, or rank them last.",
    "refuse",
    words=get_args(Missing),
)


def find_folders(folder: Path, chosen: Sequence[str] = ()) -> dict[str, Path]:
    """Return the folder of each model below ``folder``, in alphabetical order, or in the order of ``chosen``."""
    found = {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{MODEL_FILE}"))}
    if not found:
        raise RanksError(
            f"{folder} has no folders with a {MODEL_FILE}: expected a folder for each model, written by "
            f"pipeline_result.save_to_directory(…) of PyKEEN."
        )
    for name in chosen:
        if name not in found:
            raise RanksError(f"{folder} has no model {name!r}; {nearest(name, found)}")
    return {name: found[name] for name in check_models(chosen or list(found))}


def read_pykeen(
    folders: Mapping[str, Path],
    data: Dataset,
    *,
    trust: bool,
    missing: Missing = "refuse",
    gaps: bool = True,
    device: "torch.device | str" = "cpu",
    memory_budget: int = MEMORY_BUDGET,
) -> dict[str, Dense]:
    """Return the scores of saved models, by split; they are computed when they are packed.

    Args:
        folders: by name, as in tables and weights.
        data: the data set that the models were trained on.
        trust: load the pickles, which can run any code.
        missing: what happens to entities that a model was not trained with.
        gaps: keep score gaps beside the ranks.
        device: where the models run.
        memory_budget: bytes that the scores of a block may take.
    """
    found = {name: PykeenFolder.open(folder, data, missing=missing) for name, folder in folders.items()}
    scorers = {name: model.load(device, trust=trust) for name, model in found.items()}
    return scorer_splits(scorers, data, gaps=gaps, memory_budget=memory_budget)


class PykeenImporter(Importer):
    """Reads saved models."""

    name = "pykeen"
    description = f"DIR/MODEL/{MODEL_FILE} and the files beside it, as PyKEEN's save_to_directory writes them"
    order = 3
    options: Mapping[str, Option] = {
        "models": MODELS,
        "missing": MISSING,
        "device": Option("Where models run: cpu, cuda or cuda:N.", "cpu"),
        "gaps": GAPS,
    }
    needs_data = True
    needs_trust = True

    def read(self, folder: Path, **options: Any) -> dict[str, Dense]:
        """Return the scores to pack, by split."""
        folders = find_folders(folder, options.pop("models"))
        return read_pykeen(folders, **{**options, "gaps": options["gaps"] is not False})


PYKEEN = PykeenImporter()
