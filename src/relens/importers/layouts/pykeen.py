"""Models that PyKEEN trained. Ids are matched by label, and pickles are loaded only with the user's trust."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import HEAD, Queries, triple_key
from relens.data.tsv import read_lines
from relens.data.vocabulary import Vocabulary
from relens.errors import InputError, MissingExtraError, RanksError, nearest
from relens.importers.arrays import check_models
from relens.importers.dense import Dense
from relens.importers.importer import GAPS, MODELS, Importer, require_trust
from relens.importers.scorers import scorer_splits
from relens.options import Option
from relens.ranking.memory import MEMORY_BUDGET, ROWS, Batches

if TYPE_CHECKING:
    import torch

    from relens.importers.members import NewMember

MODEL_FILE, TRIPLES_FOLDER = "trained_model.pkl", "training_triples"
MEMORY = 2**28
"""Bytes that a batch of queries may take where PyKEEN compares it with all entities, coordinate by coordinate."""

Missing = Literal["refuse", "last"]
"""The treatment of entities that a model was not trained with: an error, or the last rank, shared by all of them."""

_NONE = -1
LONGEST_NUMBER = 18
"""Most digits of an id."""


@dataclass(frozen=True)
class PykeenIds:
    """PyKEEN's ids of the entities, (E,) int64, and relations, (R,) int64, of a data set; -1 for unknown ones."""

    entity: npt.NDArray[np.int64]
    relation: npt.NDArray[np.int64]

    @classmethod
    def match(
        cls,
        dataset: Dataset,
        entity_to_id: Mapping[str, int],
        relation_to_id: Mapping[str, int],
        *,
        place: str,
        missing: Missing = "refuse",
    ) -> Self:
        """Match labels. Labels that only one side knows raise an error, except entities that are ranked last.

        ``place`` names the model in messages.
        """
        return cls(
            _matched(dataset.entities, entity_to_id, f"{place}: the model", dataset.name, missing),
            _matched(dataset.relations, relation_to_id, f"{place}: the model", dataset.name, "refuse"),
        )


def _matched(
    ours: Vocabulary, theirs: Mapping[str, int], model: str, dataset: str, missing: Missing
) -> npt.NDArray[np.int64]:
    """Return the id in ``theirs`` of each of our labels."""
    kind = "entities" if ours.kind == "entity" else "relations"
    unknown = [label for label in theirs if label not in ours]
    if unknown:
        raise RanksError(
            f"{model} has {len(unknown):,} {kind} that {dataset} lacks, such as {unknown[0]!r} "
            f"({nearest(unknown[0], ours.labels)}). Pass the data set that the model was trained on."
        )
    absent = [label for label in ours.labels if label not in theirs]
    if absent and missing == "refuse":
        way_out = ", or rank them last: `missing=last`" if ours.kind == "entity" else ""
        raise RanksError(
            f"{model} lacks {len(absent):,} of the {len(ours):,} {kind} of {dataset}, such as {absent[0]!r}. Train it "
            f"with a triples factory that knows all of them ({ours.kind}_to_id=…){way_out}."
        )
    return np.array([theirs.get(label, _NONE) for label in ours.labels], dtype=np.int64)


@dataclass(frozen=True)
class PykeenFolder:
    """A folder written by PyKEEN's ``save_to_directory``, checked against a data set; the model is not loaded yet.

    Attributes:
        path: the folder.
        ids: its ids of our entities and relations.
        missing: the treatment of entities that the model was not trained with.
    """

    path: Path
    ids: PykeenIds
    missing: Missing = "refuse"

    @classmethod
    def open(cls, path: Path, dataset: Dataset, *, missing: Missing = "refuse") -> Self:
        """Read and check the labels and the training triples, which are plain text."""
        if not (path / MODEL_FILE).is_file():
            found = "is not a folder" if not path.is_dir() else f"has no {MODEL_FILE}"
            raise InputError(
                f"{path} {found}: expected a folder written by pipeline_result.save_to_directory(…) of PyKEEN, with "
                f"{MODEL_FILE} and {TRIPLES_FOLDER}/."
            )
        tables = [_read_ids(path / TRIPLES_FOLDER / f"{kind}_to_id.tsv.gz") for kind in ("entity", "relation")]
        ids = PykeenIds.match(dataset, *tables, place=str(path), missing=missing)
        _check_held_out(path / TRIPLES_FOLDER / "numeric_triples.tsv.gz", ids, dataset)
        return cls(path, ids, missing)

    @property
    def files(self) -> list[str]:
        """The files that are needed to open and load the model, by their names in the folder."""
        tables = [f"{TRIPLES_FOLDER}/{name}.tsv.gz" for name in ("entity_to_id", "relation_to_id", "numeric_triples")]
        return [file for file in (MODEL_FILE, *tables) if (self.path / file).is_file()]

    def load(self, device: "torch.device | str" = "cpu", *, trust: bool) -> "PykeenScorer":
        """Unpickle the model, which can run any code; raise an error without ``trust``."""
        file = self.path / MODEL_FILE
        require_trust(file, trust=trust)
        try:
            import torch
            from pykeen.version import get_version
        except ImportError as error:
            raise MissingExtraError("loading PyKEEN models", "pykeen") from error
        try:
            model = torch.load(file, map_location=device, weights_only=False)
        except Exception as error:  # a pickle can fail in any way
            raise RanksError(
                f"{file} cannot be loaded by PyKEEN {get_version()} here: {type(error).__name__}: {error}. "
                f"Use the PyKEEN and torch that saved it, or save it again."
            ) from error
        if not hasattr(model, "predict_t"):
            raise RanksError(f"{file} holds {type(model).__name__}, expected a PyKEEN model with predict_t.")
        n_labels = int(self.ids.entity.max()) + 1
        if model.num_entities < n_labels:
            raise RanksError(
                f"{file} has {model.num_entities:,} entities, but there are labels of {n_labels:,} beside it: expected "
                f"the files of one model. Save it again."
            )
        return PykeenScorer(model, self.ids)


class PykeenScorer:
    """A PyKEEN model as a ``relens.importers.scorers.Scorer``, on its own device.

    Heads are predicted as in PyKEEN's evaluation: models trained with inverse triples predict the tails of the inverse
    relation. Scores are taken before any sigmoid, which would make ties. An entity that the model does not know comes
    last. If the model does not know the anchor, all entities tie.

    Attributes:
        rows: the number of queries of a call. Half of them ask for tails when a split is ranked, so both directions
            fill a batch of PyKEEN's.
    """

    def __init__(self, model: Any, ids: PykeenIds, *, memory: int = MEMORY) -> None:
        self._model, self._ids = model.eval(), ids
        self._model.predict_with_sigmoid = False
        width = max((int(np.prod(table.shape)) for table in getattr(model, "entity_representations", ())), default=1)
        self._batches = Batches(min(ROWS, memory // (4 * width * model.num_entities)))
        self.rows = 2 * self._batches.rows

    @classmethod
    def from_model(cls, model: Any, training: Any, dataset: Dataset) -> Self:
        """Take a model in memory, and the triples factory that it was trained on."""
        place = f"PyKEEN's {type(model).__name__}"
        return cls(model, PykeenIds.match(dataset, training.entity_to_id, training.relation_to_id, place=place))

    def score(self, queries: Queries) -> npt.NDArray[np.float32]:
        """Return the scores of all candidates, (B, E)."""
        anchor, relation = self._ids.entity[queries.anchor], self._ids.relation[queries.relation]
        scores = np.zeros((len(queries), len(self._ids.entity)), dtype=np.float32)
        heads = queries.direction == HEAD
        for asked, predict, pairs in (
            (~heads, self._model.predict_t, np.stack([anchor, relation], axis=1)),
            (heads, self._model.predict_h, np.stack([relation, anchor], axis=1)),
        ):
            rows = np.flatnonzero(asked & (anchor != _NONE))
            if len(rows):
                scores[rows] = self._ordered(self._predict(predict, pairs[rows]))
        return scores

    def _predict(self, predict: Callable[..., Any], pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the scores of PyKEEN's entities for pairs (b, 2), each distinct one scored once."""
        import torch

        from relens.models.base import current

        distinct, row = np.unique(pairs, axis=0, return_inverse=True)

        def score(part: slice) -> npt.NDArray[np.float32]:
            # All batches have one shape, see ``relens.ranking.memory.ROWS``.
            at = np.arange(part.start, part.start + self._batches.rows).clip(max=part.stop - 1)
            with current(self._model.device), torch.inference_mode():
                scores: npt.NDArray[np.float32] = predict(torch.from_numpy(distinct[at])).float().cpu().numpy()
            return scores[: part.stop - part.start]

        return np.concatenate(list(self._batches.over(len(distinct), score)))[row]

    def _ordered(self, scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Bring the scores of PyKEEN's entities into our order; unknown entities come last."""
        absent = self._ids.entity == _NONE
        ordered = scores[:, self._ids.entity]
        if absent.any():
            # A margin that survives rounding, and is small beside the gaps between the others.
            lowest, highest = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
            margin = np.maximum(highest - lowest, np.maximum(1, np.abs(lowest))) * np.float32(0.01)
            ordered[:, absent] = lowest - margin
        return ordered


def _read_ids(file: Path) -> dict[str, int]:
    """Read one of PyKEEN's tables, with the columns id and label."""
    if not file.is_file():
        raise InputError(
            f"{file} does not exist: expected the labels of the model's ids. Save the model with "
            f"save_to_directory(…), and train it from labelled triples."
        )
    rows = _read_table(file, ["id", "label"])
    ids = {label: int(number) for number, label in rows if number.isdecimal() and len(number) <= LONGEST_NUMBER}
    if sorted(ids.values()) != list(range(len(rows))):
        raise InputError(
            f"{file} is not as PyKEEN writes it: expected the ids 0 to {len(rows) - 1}, each with its label."
        )
    return ids


def _check_held_out(file: Path, ids: PykeenIds, dataset: Dataset) -> None:
    """Raise an error for a model that was trained on triples of valid or test that train lacks."""
    if not file.is_file():
        return
    trained = _read_triples(file, len(ids.entity), len(ids.relation))
    held_out = np.setdiff1d(
        _keys_of_ours(np.concatenate([dataset.valid, dataset.test]), ids), _keys_of_ours(dataset.train, ids)
    )
    seen = int(np.isin(held_out, _keys(trained, ids)).sum())
    if seen:
        raise RanksError(
            f"{file}: the model was trained on {seen:,} of the {len(held_out):,} triples that {dataset.name} holds out "
            f"for valid and test, so its ranks would be too good. Train it on the train split of {dataset.name}."
        )


def _read_triples(file: Path, n_entities: int, n_relations: int) -> npt.NDArray[np.int64]:
    """Return the triples of PyKEEN's ids in a file, (n, 3)."""
    sizes = (n_entities, n_relations, n_entities)
    rows = _read_table(file, ["head", "relation", "tail"])
    for line, row in enumerate(rows, start=2):
        if not all(text.isdecimal() and len(text) <= LONGEST_NUMBER for text in row):
            raise InputError(f"{file}, row {line}: found {row}, expected three ids. Save the model again.")
        if any(int(text) >= size for text, size in zip(row, sizes, strict=True)):
            raise InputError(
                f"{file}, row {line}: found {row}, expected entities below {n_entities} and relations below "
                f"{n_relations}, as in the tables beside it. Save the model again."
            )
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _keys_of_ours(triples: npt.NDArray[np.int32], ids: PykeenIds) -> npt.NDArray[np.int64]:
    """Number the triples (n, 3) of our ids, without those that PyKEEN cannot know; see ``_keys``."""
    heads, relations, tails = triples.T
    theirs = np.stack([ids.entity[heads], ids.relation[relations], ids.entity[tails]], axis=1)
    return _keys(theirs[(theirs != _NONE).all(axis=1)], ids)


def _keys(triples: npt.NDArray[np.int64], ids: PykeenIds) -> npt.NDArray[np.int64]:
    """Number triples (n, 3) of PyKEEN's ids, (n,)."""
    heads, relations, tails = triples.T
    keys: npt.NDArray[np.int64] = triple_key(heads, relations, tails, len(ids.entity), len(ids.relation))
    return keys


def _read_table(file: Path, columns: list[str]) -> list[list[str]]:
    """Read a gzipped table written by pandas, with quoted labels where necessary."""
    try:
        rows = list(csv.reader(io.StringIO("\n".join(read_lines(file)), newline=""), delimiter="\t"))
    except csv.Error as error:
        raise InputError(f"{file} is not as PyKEEN writes it ({error}). Save the model again.") from error
    if not rows or rows[0] != columns or any(len(row) != len(columns) for row in rows):
        raise InputError(f"{file} is not as PyKEEN writes it: expected the columns {', '.join(columns)}.")
    return rows[1:]


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


def open_folders(folders: Mapping[str, Path], data: Dataset, *, missing: Missing = "refuse") -> dict[str, PykeenFolder]:
    """Read and check the labels of saved models by name, as in tables and weights; nothing is unpickled."""
    return {name: PykeenFolder.open(folder, data, missing=missing) for name, folder in folders.items()}


def read_pykeen(
    folders: Mapping[str, PykeenFolder],
    data: Dataset,
    *,
    trust: bool,
    gaps: bool = True,
    device: "torch.device | str" = "cpu",
    memory_budget: int = MEMORY_BUDGET,
) -> dict[str, Dense]:
    """Return the scores of saved models, by split; they are computed when they are packed.

    Args:
        folders: by name, as in tables and weights.
        data: the data set that the models were trained on.
        trust: load the pickles, which can run any code.
        gaps: keep score gaps beside the ranks.
        device: where the models run.
        memory_budget: bytes that the scores of a block may take.
    """
    scorers = {name: model.load(device, trust=trust) for name, model in folders.items()}
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
        named = find_folders(folder, options.pop("models"))
        folders = open_folders(named, options["data"], missing=options.pop("missing"))
        return read_pykeen(folders, **{**options, "gaps": options["gaps"] is not False})

    def members(self, folder: Path, **options: Any) -> dict[str, "NewMember"]:
        """Return the checked folders by name."""
        return dict(open_folders(find_folders(folder, options["models"]), options["data"], missing=options["missing"]))


PYKEEN = PykeenImporter()
