"""Trained models on disk: parameters, resolved settings, labels and the fingerprint of the data, never a pickle."""

from dataclasses import asdict, dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from relens.checksums import file_checksum, verify_file
from relens.data.catalog import origin
from relens.data.dataset import Dataset
from relens.errors import InputError
from relens.files import read_json, whole_folder, write_json
from relens.models import MODELS
from relens.models.base import KGEModel
from relens.records import TRAINED
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
        result: how training ended, the fields of ``TrainingResult``.
        dataset: name of the data set.
        source: how the data set was named: a name of the catalogue, or a folder.
        fingerprint: that of the data set, see ``Dataset.fingerprint``.
        digest: digest of the parameters, which names them.
        checksum: of the file of parameters; empty for models of an older relens.
    """

    folder: Path
    settings: TrainSettings
    result: dict[str, Any]
    dataset: str
    source: str
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
                result=record["result"],
                dataset=record["dataset"],
                source=record["source"],
                fingerprint=record["fingerprint"],
                digest=record["digest"],
                checksum=record.get("tensors", ""),
            )

    def load(self, dataset: Dataset, device: torch.device | str = "cpu") -> KGEModel:
        """Return the model in evaluation mode on a device.

        Other data than that of training, or other ids of the same data, raise an error."""
        labels = read_json(self.folder / LABELS, "labels of a trained model")
        if self.fingerprint != dataset.fingerprint or labels != _labels(dataset):
            raise InputError(
                f"{self.folder} was trained on {self.dataset} (fingerprint {self.fingerprint}), not on this "
                f"{dataset.name} (fingerprint {dataset.fingerprint}): pass the data set of training"
            )
        if self.checksum:
            verify_file(self.folder / TENSORS, self.checksum, TRAINED.remedy)
        entry, triples = MODELS.find(self.settings.model), torch.from_numpy(dataset.train.astype(np.int64))
        model = entry.build(len(dataset.entities), len(dataset.relations), self.settings.options, triples)
        try:
            model.load_state_dict(load_file(self.folder / TENSORS))
        except (SafetensorError, OSError, RuntimeError) as error:
            raise InputError(f"{self.folder / TENSORS} cannot be read: {error}. {TRAINED.remedy}") from error
        return model.eval().to(device)


def save_trained(
    model: KGEModel, settings: TrainSettings, result: TrainingResult, dataset: Dataset, source: str, folder: Path
) -> TrainedModel:
    """Write a trained model; the folder appears when it is complete."""
    record = {
        "result": asdict(result),
        "dataset": dataset.name,
        "source": origin(source),
        "fingerprint": dataset.fingerprint,
    }
    with whole_folder(folder) as aside:
        write_tensors(model.state_dict(), aside / TENSORS)
        with (aside / TENSORS).open("rb") as file:
            record["digest"] = file_digest(file, "sha256").hexdigest()[:16]
        record["tensors"] = file_checksum(aside / TENSORS)
        TRAINED.write(aside / RECORD, {"settings": settings.as_dict(), **record})
        write_json(aside / LABELS, _labels(dataset))
    return TrainedModel.open(folder)


def _labels(dataset: Dataset) -> dict[str, list[str]]:
    return {"entities": list(dataset.entities.labels), "relations": list(dataset.relations.labels)}
