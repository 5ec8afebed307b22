"""Adding members to a run: PyKEEN's models, Python scorers and trained models are ranked beside those that it has."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import EVALUATED
from relens.errors import InputError, RanksError, counted
from relens.importers.arrays import check_models
from relens.importers.members import NewMember, is_kept, keep_member
from relens.packs.pack import PackHeader
from relens.pipeline.ranking import check_member_names, rank_models
from relens.progress import Progress
from relens.runs import Run


def add_to_run(
    run: Run,
    new: Mapping[str, NewMember],
    models: Sequence[str],
    dataset: Dataset,
    *,
    device: Any,
    trust: bool,
    progress: Progress,
) -> None:
    """Add members to a run that the caller holds, and rank them and those of the present ranks.

    Packed ranks hold contested candidates only, so another member needs the scores of all. The ranks of the others stay
    the same. If anything fails, the run is left as it was. A call that was killed can be repeated.

    Args:
        run: the run, which keeps its graph.
        new: what the new members are made from, by name.
        models: members of the run that are not ranked yet, by name.
        dataset: the graph, with the candidates of the present ranks.
        device: where models run.
        trust: load members of others, which runs their code.
        progress: receives progress and notes.
    """
    present = {split: run.ranks(split) for split in EVALUATED if run.has_ranks(split)}
    ranked = next(iter(present.values())).models if present else ()
    check_member_names(new)
    # A call that was killed may have left members, ranked or not.
    left = [name for name, made_from in new.items() if is_kept(run.model_path(name), made_from, dataset)]
    added = [name for name in (*new, *models) if name not in left or name not in ranked]
    if left and not added:
        progress.note(f"{', '.join(left)}: ranked already")
        return
    new = {name: made_from for name, made_from in new.items() if name not in left}
    _check_names(run, ranked, new, [name for name in added if name not in new])
    for split, packed in present.items():
        found = PackHeader.from_dataset(dataset, packed.models, split).provenance
        if found != packed.provenance:
            raise RanksError(
                f"{run.path} was ranked otherwise than new members would be: {packed.provenance}, now {found}. If the "
                f"answers competed with candidates of a folder, pass `candidates=…`."
            )
    before = {split: np.array(packed.answer) for split, packed in present.items()}
    gaps = all(packed.gap_scales is not None for packed in present.values())
    kept: list[Path] = []
    try:
        for name, made_from in new.items():
            kept.append(keep_member(run.model_path(name), made_from, dataset).folder)
        members = {name: run.member(name) for name in (*ranked, *added)}
        rank_models(run, dataset, models=members, device=device, gaps=gaps, force=True, trust=trust, progress=progress)
    except BaseException:
        for folder in kept:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    _note_changes(run, before, progress)


def _check_names(run: Run, ranked: Sequence[str], new: Mapping[str, NewMember], models: Sequence[str]) -> None:
    """Raise an error unless all members can be scored together under these names."""
    if not new and not models:
        raise InputError("there is nothing to add: name a folder of PyKEEN, a scorer, or a model of the run")
    check_models([*ranked, *new, *models])
    for name in new:
        if run.model_path(name).exists():
            raise InputError(
                f"{run.path} has a member {name!r} already: choose another name, or rank it as it is with "
                f"`models={name}`"
            )
    for name in models:
        run.member(name)
    imported = [name for name in ranked if name not in run.member_names]
    if imported:
        raise RanksError(
            f"{run.path} has only the ranks of {', '.join(imported)}, from files or of folders that are missing. New "
            f"members need the scores of all for the same candidates, so nothing can be added here. Import all "
            f"together into a new run with `relens ranks import`, or add members to a run of models that can be loaded."
        )
    record = (run.made_by() or {}).get("models", {})
    changed = [name for name in ranked if record.get(name, run.member(name).digest) != run.member(name).digest]
    if changed:
        raise RanksError(
            f"{run.path}: {', '.join(changed)} changed after the run was ranked, and adding members must not "
            f"change the ranks of others: rank first, with `relens rank {run.path} --force`"
        )


def _note_changes(run: Run, before: Mapping[str, npt.NDArray[Any]], progress: Progress) -> None:
    """Warn if members have other ranks than before, as after a change of the machine or of a scorer's code."""
    for split, answer in before.items():
        packed = run.ranks(split)
        for name, old, now in zip(packed.models, answer, packed.answer, strict=False):
            n_changed = int(np.sum(old != now))
            if n_changed:
                progress.note(
                    f"warning: {name} ranks {counted(n_changed, 'answer')} of {packed.n_queries:,} in {split} "
                    f"otherwise than before: its code, the packages or the machine changed"
                )
