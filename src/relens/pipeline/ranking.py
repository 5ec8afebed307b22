"""The ranks of a run: made by its members, or imported from the files of other tools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.errors import InputError, RanksError
from relens.files import passing_folder
from relens.importers.dense import Dense, check_shapes, pack_dense
from relens.importers.importer import IMPORTERS, read_ranks
from relens.importers.members import MEMBER_FILE, Member, NewMember, check_trust, keep_member
from relens.packs.pack import PackedRanks
from relens.progress import SILENT, Progress
from relens.ranking.memory import MEMORY_BUDGET
from relens.records import RANKED_BY
from relens.runs import MADE_BY, RECORD, Run, is_name

if TYPE_CHECKING:
    from relens.packs.export import Ranker
    from relens.training.trained import TrainedModel


def rank_models(
    run: Run,
    dataset: Dataset,
    *,
    models: "Mapping[str, TrainedModel | Member]",
    device: Any,
    gaps: bool = True,
    force: bool = False,
    trust: bool = False,
    progress: Progress = SILENT,
) -> None:
    """Rank the validation and test queries with all models at once; keep packed ranks and a record of the models.

    The caller holds the run. Existing ranks are replaced only with ``force``. Members of others are loaded only with
    ``trust``.
    """
    check_trust((model for model in models.values() if isinstance(model, Member)), trust=trust)
    with run.replace_ranks(dataset.name, force=force) as folder:
        ranker = load_ranker(models, dataset, device, trust=trust)
        scales = ranker.fit_scales() if gaps else None
        for split in EVALUATED:
            ranker.pack(split, folder / split, scales, progress=progress)
        RANKED_BY.write(folder / MADE_BY, made_by(models, device.type))


@contextmanager
def ranked_among(
    run: Run,
    ranker: "Ranker",
    scales: npt.NDArray[np.float64] | None,
    splits: Sequence[str],
    progress: Progress = SILENT,
) -> Iterator[dict[str, PackedRanks]]:
    """Rank queries among other candidates than a run did; yield packed ranks that are removed afterwards.

    Args:
        run: the run, whose own ranks stay as they are.
        ranker: its models, and its data set with the candidates.
        scales: scales of the score gaps to keep, (N,); None for no gaps.
        splits: the splits to rank.
        progress: shows how many queries are ranked.
    """
    with passing_folder(run.path / "candidates") as folder:
        yield {split: ranker.pack(split, folder / split, scales, progress=progress) for split in splits}


def load_ranker(
    models: "Mapping[str, TrainedModel | Member]", dataset: Dataset, device: Any, *, trust: bool = False
) -> "Ranker":
    """Load models to rank queries with. Members of others, which run code, are loaded only with ``trust``."""
    from relens.packs.export import Ranker

    check_trust((model for model in models.values() if isinstance(model, Member)), trust=trust)
    loaded = {
        name: model.load(dataset, device, trust=trust) if isinstance(model, Member) else model.load(dataset, device)
        for name, model in models.items()
    }
    return Ranker(loaded, dataset)


def made_by(models: "Mapping[str, TrainedModel | Member]", device: str) -> dict[str, Any]:
    """Return the record of the models and the kind of device that made some ranks."""
    return {"device": device, "models": {name: model.digest for name, model in models.items()}}


def import_ranks(
    layout: str,
    folder: Path | str,
    *,
    run: Path | str,
    memory_budget: int = MEMORY_BUDGET,
    jobs: int = 2,
    force: bool = False,
    progress: Progress = SILENT,
    **options: Any,
) -> Run:
    """Import the ranks or scores in a folder into a run.

    Args:
        layout: the layout of the folder, a name in ``relens.importers.importer.IMPORTERS``.
        folder: the folder to read.
        run: the run to fill; created if necessary.
        memory_budget: bytes for packing; arrays may be larger.
        jobs: threads.
        force: replace ranks that the run has already.
        progress: shows how many queries are packed.
        options: the options of the layout, such as ``data``, ``models`` or ``filtered``.
    """
    importer = IMPORTERS.find(layout)
    values = importer.resolve(options, progress)
    splits = read_ranks(layout, folder, progress=progress, **values)
    dataset = next((value for value in values.values() if isinstance(value, Dataset)), None)
    members = importer.members(Path(folder), **values)
    return fill_run(
        run, splits, dataset=dataset, members=members, device=str(values.get("device", "")), layout=layout,
        memory_budget=memory_budget, jobs=jobs, force=force, progress=progress,
    )  # fmt: skip


def fill_run(
    path: Path | str,
    splits: Mapping[str, Dense],
    *,
    dataset: Dataset | None = None,
    members: Mapping[str, NewMember] | None = None,
    device: str = "",
    layout: str = "arrays",
    memory_budget: int = MEMORY_BUDGET,
    jobs: int = 2,
    force: bool = False,
    progress: Progress = SILENT,
) -> Run:
    """Pack the ranks or scores of both splits, or of one, into a run; see ``import_ranks``.

    Args:
        path: the run to fill; created if necessary.
        splits: the ranks or scores by split.
        dataset: the data set, whose graph the run keeps; None if it is not known.
        members: what loads the models again, if anything does; the run keeps it.
        device: where these members scored.
        layout: how the files were laid out, for models without a member.
        memory_budget: bytes for packing.
        jobs: threads.
        force: replace ranks that the run has already.
        progress: shows how many queries are packed.
    """
    for dense in splits.values():
        check_shapes(dense)
    members = members or {}
    first, *others = splits
    header = splits[first].header
    name = header.provenance.dataset
    check_free(Path(path), members)
    with Run.receive_ranks(path, dataset or name, None if others else first, force=force) as stores:
        for split, dense in splits.items():
            pack_dense(dense, stores / split, memory_budget=memory_budget, jobs=jobs, progress=progress)
        run = Run(stores.parent, "", name)  # where the run is, or where it is written before it appears
        kept = (
            {}
            if dataset is None
            else {name: keep_member(run.model_path(name), new, dataset) for name, new in members.items()}
        )
        origin = made_by(kept, device.partition(":")[0]) if kept else {"models": {}}
        imported = dict.fromkeys((model for model in header.models if model not in members), layout)
        RANKED_BY.write(stores / MADE_BY, {**origin, "imported": imported})
    return Run.open(path)


def check_free(path: Path, names: Iterable[str]) -> None:
    """Raise an error if new members cannot have these names in the run at ``path``, which may be missing."""
    names = list(names)
    check_member_names(names)
    run = Run(path, "", "")
    for name in names:
        folder = run.model_path(name)
        if (path / RECORD).is_file() and folder.is_dir() and not (folder / MEMBER_FILE).is_file():
            raise InputError(
                f"{run.path} has a model {name!r}, trained or in training: choose other names with `names=…`, or "
                f"another run"
            )


def check_member_names(names: Iterable[str]) -> None:
    """Raise an error for names that cannot be those of folders."""
    for name in names:
        if not is_name(name):
            raise RanksError(
                f"{name!r} cannot name a member: expected 1 to 100 letters, digits and . _ + -, beginning with a "
                f"letter or digit. Choose other names with `names=…`."
            )
