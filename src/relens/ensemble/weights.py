"""Ensemble weights: the result of a search, keyed by labels, so that it can be kept, read and applied elsewhere."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.grouping import Grouping
from relens.data.queries import DIRECTIONS
from relens.ensemble.grid import WEIGHT_LIMIT, Weights, check_weights
from relens.ensemble.inputs import INPUTS, check_input
from relens.ensemble.inputs.rank import RANK
from relens.ensemble.objective import answer_ranks
from relens.errors import WeightsError, nearest
from relens.files import read_json, write_json, write_text
from relens.packs.pack import PackedRanks
from relens.ranking.answer_ranks import AnswerRanks
from relens.records import REDUCED_TO, WEIGHTS, mapping, text, texts, whole
from relens.records import number as number_of


@dataclass(frozen=True)
class EnsembleWeights:
    """Grid weights of N models for G groups.

    Attributes:
        models: the N model names; the order of every N axis.
        relations: the R relation labels of the data set.
        grouping: the partition of (relation, direction) pairs into G groups.
        table: (G, N) int64; rows of groups without weights of their own equal ``fallback``.
        own: which groups have weights of their own, (G,) bool.
        fallback: weights of all other groups, (N,) int64.
        support: validation queries of each group, (G,) int64.
        input: name of the input that the weights are applied to.
        settings: how the weights were found, with all choices resolved.
        dataset: name and fingerprint of the data set they were fitted on.
        gap_scales: scale of each model's score gaps that the weights were fitted on, (N,), if there were any.
        trace: best validation MRR so far, (steps, 3): seconds, evaluations, MRR; files of weights leave it out.
        notes: remarks for the reader.
        fitted_on: digest of the validation ranks that the weights were fitted on; empty if unknown.
        candidates: the candidates of these ranks, as their provenance names them; empty if unknown.
    """

    models: tuple[str, ...]
    relations: tuple[str, ...]
    grouping: Grouping
    table: npt.NDArray[np.int64]
    own: npt.NDArray[np.bool_]
    fallback: Weights
    support: npt.NDArray[np.int64]
    input: str = RANK.name
    settings: dict[str, Any] = field(default_factory=dict)
    dataset: tuple[str, str] = ("", "")
    gap_scales: npt.NDArray[np.float64] | None = None
    trace: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 3)))
    notes: tuple[str, ...] = ()
    fitted_on: str = ""
    candidates: str = ""

    def __post_init__(self) -> None:
        n_models, n_groups, rows = len(self.models), len(self.grouping), self.grouping.table
        shapes = {"table": (n_groups, n_models), "own": (n_groups,), "fallback": (n_models,), "support": (n_groups,)}
        for name, shape in shapes.items():
            found = getattr(self, name)
            if found.shape != shape or found.dtype.kind not in "iub":
                raise WeightsError(
                    f"the {name} of weights has the shape {found.shape} of {found.dtype}, expected {shape}"
                )
        if rows.shape != (len(self.relations), len(DIRECTIONS)) or ((rows < 0) | (rows >= n_groups)).any():
            raise WeightsError(f"the grouping of weights has other groups than its {n_groups}, or other relations")
        for vectors in (self.table, self.fallback):
            if (vectors < 0).any() or (vectors > WEIGHT_LIMIT).any() or not vectors.any(axis=-1).all():
                raise WeightsError(
                    f"weights must be whole numbers from 0 to {WEIGHT_LIMIT}, with a positive one in each vector: "
                    f"round them with `relens.ensemble.grid.to_grid`"
                )

    def aligned_to(self, packed: PackedRanks) -> "EnsembleWeights":
        """Return these weights in ``packed``'s order of models and relations; raise an error if it has other data."""
        input = INPUTS[self.input]
        check_input(input, packed)
        missing = [model for model in self.models if model not in packed.models]
        unweighted = [model for model in packed.models if model not in self.models]
        if missing or unweighted:
            raise WeightsError(
                f"the weights are for models {list(self.models)}, the ranks have {list(packed.models)}: "
                f"{(missing + unweighted)[0]!r} is in one of them only. Fit again, or select the same models."
            )
        strange = sorted(set(self.relations) ^ set(packed.relations))[:3]
        if strange:
            raise WeightsError(f"weights and ranks have different relations, for instance {strange}: fit again")
        if self.dataset[1] != packed.provenance.fingerprint:
            raise WeightsError(
                f"the weights were fitted on {self.dataset[0]!r} ({self.dataset[1]}), the ranks are of "
                f"{packed.provenance.dataset!r} ({packed.provenance.fingerprint}). Use the ranks of the same data set."
            )
        order = [self.models.index(model) for model in packed.models]
        scales = None if self.gap_scales is None else self.gap_scales[order]
        if input.needs_gaps and not (
            scales is not None and packed.gap_scales is not None and np.array_equal(scales, packed.gap_scales)
        ):
            raise WeightsError("score gaps of weights and ranks have different scales: pack both with those of valid")
        place = {label: r for r, label in enumerate(self.relations)}
        rows = self.grouping.table[[place[label] for label in packed.relations]]
        return replace(
            self,
            models=packed.models,
            relations=packed.relations,
            grouping=replace(self.grouping, table=rows),
            table=self.table[:, order],
            fallback=self.fallback[order],
            gap_scales=scales,
        )

    def answer_ranks(self, packed: PackedRanks, *, jobs: int = 1) -> AnswerRanks:
        """Rank the answers of ``packed`` under these weights."""
        mine = self.aligned_to(packed)
        groups = mine.grouping.groups_of(packed.queries)
        return answer_ranks(packed, mine.table, groups, input=INPUTS[self.input], jobs=jobs)

    def fitted_among_others(self, candidates: str) -> bool:
        """Say whether the weights were fitted on ranks among other candidates than these, as far as is known.

        Ranks that were reduced are of the same candidates.
        """
        return bool(self.candidates) and _unreduced(self.candidates) != _unreduced(candidates)

    def normalised(self) -> npt.NDArray[np.float64]:
        """Return the weights of each group scaled to sum 1, (G, N), for display."""
        table: npt.NDArray[np.float64] = self.table / self.table.sum(axis=1, keepdims=True)
        return table

    def to_json(self) -> dict[str, Any]:
        """Return a plain JSON object, keyed by labels, without the trace: equal searches give equal files."""
        values = {
            "dataset": {"name": self.dataset[0], "fingerprint": self.dataset[1]},
            "models": list(self.models),
            "input": self.input,
            "settings": self.settings,
            "notes": list(self.notes),
            "fitted_on": self.fitted_on,
            "candidates": self.candidates,
            "gap_scales": None if self.gap_scales is None else self.gap_scales.tolist(),
            "grouping": self.grouping.scheme,
            "relations": [
                {"relation": label, **dict(zip(DIRECTIONS, (self.grouping.labels[g] for g in row), strict=True))}
                for label, row in zip(self.relations, self.grouping.table, strict=True)
            ],
            "fallback": dict(zip(self.models, self.fallback.tolist(), strict=True)),
            "groups": {
                self.grouping.labels[g]: {
                    "queries": int(self.support[g]),
                    "weights": dict(zip(self.models, self.table[g].tolist(), strict=True)),
                }
                for g in np.flatnonzero(self.own)
            },
        }
        return WEIGHTS.stamp(values)

    @classmethod
    def from_json(cls, value: dict[str, Any], where: str) -> "EnsembleWeights":
        """Rebuild from ``to_json``'s object; ``where`` names it in errors."""
        WEIGHTS.check(value, where)
        with WEIGHTS.parsing(where):
            return cls._parsed(value, where)

    @classmethod
    def _parsed(cls, value: dict[str, Any], where: str) -> "EnsembleWeights":
        models = texts(value["models"])
        if len(set(models)) != len(models):
            raise WeightsError(f"{where}: a model is named twice among {', '.join(models)}")
        rows = [[text(entry[direction]) for direction in DIRECTIONS] for entry in value["relations"]]
        labels = tuple(dict.fromkeys(label for row in rows for label in row))
        number = {label: g for g, label in enumerate(labels)}
        grouping = Grouping(
            text(value["grouping"]),  # type: ignore[arg-type]
            labels,
            np.array([[number[label] for label in row] for row in rows], dtype=np.int32).reshape(-1, len(DIRECTIONS)),
        )
        fallback = _vector(value["fallback"], models, f"{where}, fallback")
        table = np.tile(fallback, (len(labels), 1))
        own, support = np.zeros(len(labels), dtype=bool), np.zeros(len(labels), dtype=np.int64)
        for label, group in value["groups"].items():
            if label not in number:
                raise WeightsError(f"{where}: unknown group {label!r}; {nearest(label, labels)}")
            g = number[label]
            own[g], support[g] = True, whole(group["queries"])
            table[g] = _vector(group["weights"], models, f"{where}, group {label!r}")
        if value["input"] not in INPUTS:
            raise WeightsError(f"{where}: found the input {value['input']!r}, expected one of {', '.join(INPUTS)}")
        scales = value["gap_scales"]
        return cls(
            models=models,
            relations=tuple(text(entry["relation"]) for entry in value["relations"]),
            grouping=grouping,
            table=table,
            own=own,
            fallback=fallback,
            support=support,
            input=value["input"],
            settings=mapping(value["settings"]),
            dataset=(text(value["dataset"]["name"]), text(value["dataset"]["fingerprint"])),
            gap_scales=None
            if scales is None
            else np.array([number_of(scale) for scale in scales]).reshape(len(models)),
            notes=texts(value["notes"]),
            fitted_on=str(value.get("fitted_on", "")),
            candidates=str(value.get("candidates", "")),
        )

    def save(self, path: Path) -> None:
        """Write a JSON file that says its name, whole or not at all."""
        write_json(path, {**self.to_json(), "name": path.stem})

    def save_log(self, path: Path) -> None:
        """Write the trace as a file of a JSON object per line; without a trace, remove an earlier one."""
        steps = [{"seconds": at, "evaluations": int(n), "mrr": mrr} for at, n, mrr in self.trace.tolist()]
        if steps:
            write_text(path, "".join(json.dumps(step) + "\n" for step in steps))
        else:
            path.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "EnsembleWeights":
        """Read the JSON file that ``save`` wrote; a file that was put in the place of another one raises an error."""
        value = read_json(path, "weights", WEIGHTS.remedy)
        found = value.get("name", path.stem)  # weights of an older relens do not say their name
        if found != path.stem:
            raise WeightsError(
                f"{path} holds the weights {found!r}, which were put in the place of others. {WEIGHTS.remedy} To give "
                f"weights another name, use `relens weights import RUN FILE --name NAME`."
            )
        return cls.from_json(value, str(path))


def _unreduced(candidates: str) -> str:
    return candidates.partition(REDUCED_TO)[0]


def _vector(by_model: dict[str, Any], models: tuple[str, ...], where: str) -> Weights:
    if set(by_model) != set(models):
        raise WeightsError(f"{where}: found weights of {sorted(by_model)}, expected those of {sorted(models)}")
    values = [by_model[model] for model in models]
    if not all(type(value) is int and value <= WEIGHT_LIMIT for value in values):
        raise WeightsError(f"{where}: found {values}, expected whole numbers from 0 to {WEIGHT_LIMIT}")
    check_weights(np.array(values, dtype=np.float64), where)
    return np.array(values, dtype=np.int64)
