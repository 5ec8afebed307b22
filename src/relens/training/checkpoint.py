"""Checkpoints: everything that a killed run needs to resume to the same result. Nothing is ever unpickled."""

import logging
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from relens.checksums import file_checksum, verify_file
from relens.errors import InputError
from relens.files import whole_folder
from relens.records import CHECKPOINT, mapping, text, whole
from relens.training.settings import DEFAULTS, FIELDS, TrainSettings

TENSORS, RECORD = "tensors.safetensors", "state.json"
NAME = re.compile(r"step-(\d{9})")
LEFT_OVER = re.compile(r"\.step-\d{9}\..*\.(part|old)")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run after some steps.

    Attributes:
        step: steps taken.
        identity: settings and data of the run; a run with another identity cannot resume from here.
        state: other JSON values: schedule, best validation, seconds.
        tensors: by name: parameters, best parameters, optimiser state, random states, examples pending.
    """

    step: int
    identity: dict[str, Any]
    state: dict[str, Any]
    tensors: dict[str, Tensor]


def write_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """Write tensors as safetensors. A full disk raises OSError, as with any other file."""
    try:
        save_file({name: value.cpu().contiguous() for name, value in tensors.items()}, file)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint below ``folder``, then remove older ones and temporary folders of killed runs.

    Each checkpoint has a folder of its own, so that one exists at every moment.
    """
    name = _name(checkpoint.step)
    if not (folder / name).exists():
        with whole_folder(folder / name) as aside:
            write_tensors(checkpoint.tensors, aside / TENSORS)
            record = {
                "step": checkpoint.step,
                "identity": checkpoint.identity,
                "state": checkpoint.state,
                "tensors": file_checksum(aside / TENSORS),
            }
            CHECKPOINT.write(aside / RECORD, record)
    remove_checkpoints(folder, but=name)


def remove_checkpoints(folder: Path, *, but: str | None = None) -> None:
    """Remove the checkpoints below a folder, and temporary folders of killed runs, except the one named ``but``."""
    for path in list(folder.iterdir()):
        if path.name != but and (NAME.fullmatch(path.name) or LEFT_OVER.fullmatch(path.name)):
            shutil.rmtree(path, ignore_errors=True)


def newest_step(folder: Path) -> int:
    """Return the step of the newest checkpoint below a folder; 0 if there is none."""
    names = (NAME.fullmatch(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    return max((int(name[1]) for name in names if name), default=0)


def newest_settings(folder: Path) -> TrainSettings | None:
    """Return the settings of the newest checkpoint below a folder; None if there is none."""
    step = newest_step(folder)
    if not step:
        return None
    path = folder / _name(step) / RECORD
    record = CHECKPOINT.read(path)
    with CHECKPOINT.parsing(str(path)):
        identity = {**DEFAULTS, **mapping(record["identity"])}
        return TrainSettings.from_dict({key: identity[key] for key in FIELDS})


def newest_checkpoint(folder: Path, identity: dict[str, Any], device: torch.device) -> Checkpoint | None:
    """Return the newest checkpoint below a folder, or None; a checkpoint of another run raises an error."""
    step = newest_step(folder)
    if not step:
        return None
    path = folder / _name(step)
    record = CHECKPOINT.read(path / RECORD)
    with CHECKPOINT.parsing(str(path / RECORD)):
        found, state = mapping(record["identity"]), mapping(record["state"])
        if whole(record["step"]) != step:
            raise ValueError(f"found the step {record['step']}, expected {step}")
        checksum = text(record["tensors"]) if "tensors" in record else None  # not in checkpoints of an older relens
    _check_identity(folder, found, identity)
    if checksum is not None:
        verify_file(path / TENSORS, checksum, f"Remove {path} to start without it.")
    try:
        tensors = load_file(path / TENSORS, device=str(device))
    except (SafetensorError, OSError, RuntimeError) as error:
        raise InputError(f"{path / TENSORS} cannot be read: {error}. Remove {path} to start without it.") from error
    _log.info("resuming from step %d in %s", step, path)
    return Checkpoint(step, found, state, tensors)


def _name(step: int) -> str:
    return f"step-{step:09d}"


def _check_identity(folder: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise an error that names the differences if a checkpoint belongs to another run."""
    # A setting that is younger than the checkpoint had what is now its default.
    found = {**{key: DEFAULTS[key] for key in expected if key in DEFAULTS}, **found}
    differing = [
        f"{key} {found.get(key)!r} instead of {expected.get(key)!r}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    ]
    if differing:
        raise InputError(
            f"{folder} holds a run with {', '.join(differing)}: remove it to start again, or repeat the settings of "
            f"that run to resume it"
        )
