"""Judge sampled questions: the evidence on their best candidates, and which of these are hidden facts."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from relens.data.dataset import Dataset
from relens.data.queries import Queries
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.prediction.candidate_ranking import CandidateRanking
from relens.prediction.evidence import Candidates, evidence_of, mean_score, self_related
from relens.prediction.members import LoadedModels
from relens.prediction.population import Population
from relens.progress import SILENT, Progress

PLACES = 100
"""Places whose candidates are judged one by one; all candidates behind them are judged together."""

NEAR, THIN = 10, 8
"""Behind the first ``NEAR`` places, one candidate in ``THIN`` is judged for all of them; hidden facts always are."""

USUAL = 5.0
"""Known answers that the scores of all groups count for in the usual scores of a group."""


class Panel(NamedTuple):
    """Models and weights that judge the questions of a graph.

    Attributes:
        models: the models of the run.
        dataset: the graph.
        groups: the group of each relation and direction, (R, 2).
        scales: the unit of each model's scores, (N,).
        sets: one or several sets of weights for the same models and groups.
    """

    models: LoadedModels
    dataset: Dataset
    groups: npt.NDArray[np.int32]
    scales: npt.NDArray[np.float64]
    sets: Sequence[EnsembleWeights]


class Hidden(NamedTuple):
    """The splits whose answers are known, and the one whose answers are hidden; those of others are left out."""

    known: tuple[str, ...]
    hidden: str


class Judgement(NamedTuple):
    """The n judged candidates of q questions, and how usual scores of known answers are.

    Attributes:
        features: see ``evidence_of``, of raw mean scores, (n, F) float64.
        places: the place of each, (n,) float64.
        share: how many candidates of its question each stands for, (n,) float64.
        question: the number of its question in the population, (n,) int64.
        entity: its id, (n,) int64.
        true: whether it is a hidden fact, (n,) bool.
        group: the group of each question, (q,) int64.
        answered: whether the question has known answers, (q,) bool.
        behind: candidates of each question that were not judged, and the hidden facts among them, (2, q) int64.
        sums: number, sum and sum of squares of the mean scores of known answers, by set of weights and group,
            (s, 3, G) float64.
    """

    features: npt.NDArray[np.float64]
    places: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    question: npt.NDArray[np.int64]
    entity: npt.NDArray[np.int64]
    true: npt.NDArray[np.bool_]
    group: npt.NDArray[np.int64]
    answered: npt.NDArray[np.bool_]
    behind: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]


class _OfQuestion(NamedTuple):
    """The judged candidates of one question, (k, …) each, and what is counted of it."""

    features: npt.NDArray[np.float64]
    places: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    entity: npt.NDArray[np.int64]
    true: npt.NDArray[np.bool_]
    behind: tuple[int, int]
    answered: bool

    @classmethod
    def judge(
        cls, asked: Candidates, missing: npt.NDArray[np.int64], scales: npt.NDArray[np.float64], number: int
    ) -> Self:
        """Judge the best ``PLACES`` candidates of question ``number``, with the hidden answers ``missing`` (m,)."""
        possible = np.flatnonzero(asked.possible)
        best = possible[np.argsort(asked.cost[possible], kind="stable")[:PLACES]]
        true = np.isin(best, missing)
        at = np.arange(len(best))
        far = (at >= NEAR) & ~true
        kept = np.flatnonzero(~far | ((at + number) % THIN == 0))
        found = evidence_of(asked, best[kept], scales)
        behind = len(possible) - len(best), len(missing) - int(true.sum())
        share = np.where(far[kept], float(THIN), 1.0)
        return cls(found.features, found.places, share, best[kept], true[kept], behind, len(asked.known) > 0)


def judge(
    panel: Panel,
    population: Population,
    splits: Hidden,
    chosen: npt.NDArray[np.int64] | None = None,
    progress: Progress = SILENT,
) -> Judgement:
    """Judge the best candidates of all q questions of a population.

    Args:
        panel: who judges.
        population: the questions.
        splits: which answers are known, and which are hidden.
        chosen: the set of weights that orders the candidates of each question, (q,); None for the first.
        progress: where progress is shown.
    """
    sets = np.zeros(len(population), dtype=np.int64) if chosen is None else chosen
    group = panel.groups[population.relation, population.direction].astype(np.int64)
    loops = self_related(panel.dataset)
    sums = np.zeros((len(panel.sets), 3, int(panel.groups.max()) + 1))
    found: list[_OfQuestion] = []
    with progress.task("judging candidates", len(population)) as advance:
        for begin in range(0, len(population), panel.models.rows):
            rows = slice(begin, min(begin + panel.models.rows, len(population)))
            scores = _scores(panel, population, rows)
            for q in range(rows.start, rows.stop):
                asked = int(population.anchor[q]), int(population.relation[q]), int(population.direction[q])
                split_of = panel.dataset.stated_answers.answers_to(*asked)
                known, missing, others = _by_split(split_of, splits)
                compared = compared_with(split_of, splits.known)
                weights = panel.sets[sets[q]]
                anchor = None if loops[asked[1]] else asked[0]
                of_query = [row[q - begin] for row in scores]
                candidates, scales = _candidates(
                    panel, weights, group[q], of_query, (compared, np.append(known, others), anchor)
                )
                found.append(_OfQuestion.judge(candidates, missing, scales, q))
                for s, each in enumerate(panel.sets):
                    _count_known(sums[s, :, group[q]], panel, each.table[group[q]], of_query, candidates.known)
            advance(rows.stop - rows.start)
    return _joined(found, group, sums)


def _scores(panel: Panel, population: Population, rows: slice) -> list[npt.NDArray[np.float32]]:
    """Return the scores of all entities by each of N models, (b, E); of those without any weight, nothing."""
    zeros = np.zeros(rows.stop - rows.start, dtype=np.int64)
    columns = [population.anchor[rows], population.relation[rows], population.direction[rows], zeros, zeros]
    queries = Queries.from_columns(np.stack(columns))
    used = np.any([each.table.any(axis=0) for each in panel.sets], axis=0)
    models = panel.sets[0].models
    return [
        panel.models.scores(model, queries) if voting else np.empty((len(zeros), 0), dtype=np.float32)
        for model, voting in zip(models, used.tolist(), strict=True)
    ]


def _by_split(split_of: dict[int, str], splits: Hidden) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the ids of the answers that are known, hidden, and neither."""
    kinds: tuple[list[int], list[int], list[int]] = [], [], []
    for entity, split in split_of.items():
        kinds[0 if split in splits.known else 1 if split == splits.hidden else 2].append(entity)
    return tuple(np.array(kind, dtype=np.int64) for kind in kinds)


def compared_with(split_of: dict[int, str], known: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Return the answers that candidates are compared with: those in the first known split that has any, (m,)."""
    for split in known:
        found = [entity for entity, of in split_of.items() if of == split]
        if found:
            return np.array(found, dtype=np.int64)
    return np.empty(0, dtype=np.int64)


def _candidates(
    panel: Panel,
    weights: EnsembleWeights,
    group: int,
    scores: Sequence[npt.NDArray[np.float32]],
    left_out: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int | None],
) -> tuple[Candidates, npt.NDArray[np.float64]]:
    """Return the candidates of a question, and the units of the scores of its voters, (n,).

    Args:
        panel: who judges.
        weights: the set of weights that orders the candidates.
        group: the group of the question.
        scores: the scores of all entities by each of N models, (E,).
        left_out: known answers to compare with, all answers that are left out, and the anchor if it takes no place.
    """
    compared, answers, anchor = left_out
    row = weights.table[group]
    used = np.flatnonzero(row)
    gap_scales = None if weights.gap_scales is None else weights.gap_scales[used]
    ranking = CandidateRanking(
        np.stack([scores[i] for i in used.tolist()]), answers, row[used], INPUTS[weights.input], gap_scales
    )
    return Candidates.of(ranking, anchor, compared), panel.scales[used]


def _count_known(
    sums: npt.NDArray[np.float64],
    panel: Panel,
    row: npt.NDArray[np.int64],
    scores: Sequence[npt.NDArray[np.float32]],
    known: npt.NDArray[np.int64],
) -> None:
    """Add number, sum and sum of squares of the mean scores of m known answers to ``sums`` (3,), in place."""
    used = np.flatnonzero(row)
    if len(known):
        mean = mean_score(np.stack([scores[i][known] for i in used.tolist()]), row[used], panel.scales[used])
        sums += [len(mean), mean.sum(), (mean**2).sum()]


def _joined(found: Sequence[_OfQuestion], group: npt.NDArray[np.int64], sums: npt.NDArray[np.float64]) -> Judgement:
    return Judgement(
        features=np.concatenate([each.features for each in found]),
        places=np.concatenate([each.places for each in found]),
        share=np.concatenate([each.share for each in found]),
        question=np.repeat(np.arange(len(found)), [len(each.entity) for each in found]),
        entity=np.concatenate([each.entity for each in found]),
        true=np.concatenate([each.true for each in found]),
        group=group,
        answered=np.array([each.answered for each in found]),
        behind=np.array([each.behind for each in found], dtype=np.int64).T,
        sums=sums,
    )


def usual_scores(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return mean and standard deviation of the mean scores of known answers, (s, G, 2), from ``Judgement.sums``.

    Those of a group are drawn to those of all groups, which count like ``USUAL`` answers.
    """
    overall = sums.sum(axis=2, keepdims=True)
    n, total, squares = np.moveaxis(sums + USUAL * overall / np.maximum(1, overall[:, :1]), 1, 0)
    mean = total / np.maximum(n, 1)
    deviation = np.sqrt(np.maximum(squares / np.maximum(n, 1) - mean**2, 0))
    return np.stack([mean, np.where(deviation > 0, deviation, 1.0)], axis=-1)
