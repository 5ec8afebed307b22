"""Trained models on disk: parameters, resolved settings, labels and the fingerprint of the data, never a pickle."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from relens.checksums import file_checksum, verify_file
from relens.data.dataset import Dataset
from relens.errors import DamagedError, InputError
from relens.files import read_json, verifying, whole_folder, write_json
from relens.models import MODELS
from relens.models.base import KGEModel
from relens.records import TRAINED, mapping, text
from relens.training.checkpoint import write_tensors
from relens.training.loop import TrainingResult
from relens.training.settings import TrainSettings

TENSORS, RECORD, LABELS = "model.safetensors", "model.json", "labels.json"


@dataclass(frozen=True)
class TrainedModel:
    """A model on disk; its parameters are read by ``load``.

    Attributes:
        folder: its place on disk.
        settings: how it was trained.
        result: how training ended, the fields of ``TrainingResult``; an older relens kept ``seconds``, too.
        dataset: name of the data set.
        fingerprint: that of the data set, see ``Dataset.fingerprint``.
        digest: digest of the parameters, which names them.
        checksum: of the file of parameters; empty for models of an older relens.
    """

    folder: Path
    settings: TrainSettings
    result: dict[str, Any]
    dataset: str
    fingerprint: str
    digest: str
    checksum: str

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read the result of ``save_trained``, without the parameters."""
        record = TRAINED.read(folder / RECORD)
        with TRAINED.parsing(str(folder / RECORD)):
            return cls(
                folder=folder,
                settings=TrainSettings.from_dict(record["settings"]),
                result=mapping(record["result"]),
                dataset=text(record["dataset"]),
                fingerprint=text(record["fingerprint"]),
                digest=text(record["digest"]),
                checksum=text(record.get("tensors", "")),
            )

    def load(self, dataset: Dataset, device: torch.device | str = "cpu") -> KGEModel:
        """Return the model in evaluation mode on a device.

        Other data than that of training, or other ids of the same data, raise an error."""
        labels = self._stored_labels()
        if self.fingerprint != dataset.fingerprint or labels != _labels(dataset):
            raise InputError(
                f"{self.folder} was trained on {self.dataset} (fingerprint {self.fingerprint}), not on this "
                f"{dataset.name} (fingerprint {dataset.fingerprint}): pass the data set of training"
            )
        self._verify_parameters()
        entry, triples = MODELS.find(self.settings.model), torch.from_numpy(dataset.train.astype(np.int64))
        build = partial(entry.build, len(dataset.entities), len(dataset.relations), self.settings.options, triples)
        try:
            tensors = load_file(self.folder / TENSORS)
            if (expected := _shapes_of(build)) is not None:
                _check_shapes({name: tuple(tensor.shape) for name, tensor in tensors.items()}, expected)
            model = build()
            model.load_state_dict(tensors)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise InputError(f"{self.folder / TENSORS} cannot be read: {error}. {TRAINED.remedy}") from error
        return model.eval().to(device)

    def verify(self) -> None:
        """Raise a ``DamagedError`` if labels or parameters are missing, or are not what was written."""
        self._stored_labels()
        self._verify_parameters()

    def _stored_labels(self) -> dict[str, Any]:
        return read_json(self.folder / LABELS, "labels of a trained model", TRAINED.remedy)

    def _verify_parameters(self) -> None:
        """Compare the parameters with their checksum; those of an older relens, which has none, with their digest."""
        file = self.folder / TENSORS
        if self.checksum or not file.is_file():
            verify_file(file, self.checksum, TRAINED.remedy)
        elif verifying() and _digest(file) != self.digest:
            raise DamagedError(f"{file} is damaged: it does not have the digest {self.digest}. {TRAINED.remedy}")


Shapes = dict[str, tuple[int, ...]]


def _shapes_of(build: Callable[[], KGEModel]) -> Shapes | None:
    """Return the shapes of a model's parameters without memory for them; None if the model cannot be made that way."""
    try:
        with torch.device("meta"):
            return {name: tuple(tensor.shape) for name, tensor in build().state_dict().items()}
    except InputError:
        raise
    except Exception:  # the constructor of an extension may look at values
        return None


def _check_shapes(found: Shapes, expected: Shapes) -> None:
    """Raise an error unless a file has the parameters of a model: the record may ask for any amount of memory."""
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise RuntimeError(
                f"{name} has the shape {found.get(name)}, but the settings of the model ask for {expected.get(name)}"
            )


def save_trained(
    model: KGEModel, settings: TrainSettings, result: TrainingResult, dataset: Dataset, folder: Path
) -> TrainedModel:
    """Write a trained model; the folder appears when it is complete."""
    record = {
        "result": asdict(result),
        "dataset": dataset.name,
        "fingerprint": dataset.fingerprint,
    }
    with whole_folder(folder) as aside:
        write_tensors(model.state_dict(), aside / TENSORS)
        record["digest"] = _digest(aside / TENSORS)
        record["tensors"] = file_checksum(aside / TENSORS)
        TRAINED.write(aside / RECORD, {"settings": settings.as_dict(), **record})
        write_json(aside / LABELS, _labels(dataset))
    return TrainedModel.open(folder)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()[:16]


def _labels(dataset: Dataset) -> dict[str, list[str]]:
    return {"entities": list(dataset.entities.labels), "relations": list(dataset.relations.labels)}
