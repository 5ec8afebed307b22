"""Draw negatives for the queries of any graph: the sampled protocol of OGB, made repeatable."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from relens.data.candidate_files import RECORD, with_candidates, write_candidates
from relens.data.candidates import PADDING, Candidates
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.data.queries import EVALUATED, SPLITS
from relens.errors import DatasetError
from relens.files import whole_folder
from relens.progress import SILENT, Progress
from relens.seeding import generator

_BLOCK = 4096


def sample_negatives(
    dataset: Dataset, per_query: int, seed: int = 0, *, progress: Progress = SILENT
) -> dict[str, Candidates]:
    """Draw negatives for every query of valid and test, by split.

    For each query, ``per_query`` entities, all sets of that size being equally likely, without the known answers of
    all splits. A query for which fewer are left gets all of them. Ids ascend in each row.
    """
    if per_query < 1:
        raise DatasetError(f"{per_query} negatives per query were asked for, expected 1 or more")
    source = f"sampled by relens: {per_query} per query, seed {seed}"
    found = {}
    for split in EVALUATED:
        queries = dataset.queries(split)
        negatives = np.full((len(queries), per_query), PADDING, dtype=np.int32)
        with progress.task(f"sampling {split}", len(queries)) as advance:
            for begin in range(0, len(queries), _BLOCK):
                here = queries[begin : begin + _BLOCK]
                offsets, others = dataset.known_answers.other_answers(here)
                rng = generator(seed, "negatives", split, begin)
                for row, answer in enumerate(here.answer.tolist()):
                    taken = np.append(others[offsets[row] : offsets[row + 1]], answer)
                    drawn = _draw(rng, len(dataset.entities), np.sort(taken), per_query)
                    negatives[begin + row, : len(drawn)] = drawn
                advance(len(here))
        negatives.setflags(write=False)
        found[split] = Candidates(negatives, source, SPLITS)
    return found


def write_sampled(
    dataset: Dataset, folder: Path, per_query: int, seed: int = 0, *, force: bool = False, progress: Progress = SILENT
) -> Dataset:
    """Write a data set again, with negatives drawn for its queries, and return what was written.

    The folder appears whole; one that is there is replaced with ``force`` if it was written by this function.
    """
    if folder.exists() and not (force and (folder / RECORD).is_file()):
        remedy = "pass --force to replace it, or choose" if (folder / RECORD).is_file() else "choose"
        raise DatasetError(f"{folder} exists already: {remedy} another folder with -o")
    with whole_folder(folder) as aside:
        write_folder(dataset, aside)
        written = read_folder(aside, dataset.name)  # whose ids follow the sorted labels
        write_candidates(written, sample_negatives(written, per_query, seed, progress=progress), aside)
    return with_candidates(read_folder(folder), folder)


def _draw(
    rng: np.random.Generator, n_entities: int, taken: npt.NDArray[np.int32], wanted: int
) -> npt.NDArray[np.int64]:
    """Draw distinct ids below ``n_entities`` that are not in ``taken`` (sorted, distinct); fewer if not enough."""
    n_left = n_entities - len(taken)
    places = np.arange(n_left) if n_left <= wanted else np.sort(rng.choice(n_left, wanted, replace=False))
    # The entity at a place among those that are left has as many taken ones before it as begin at or before it.
    return places + np.searchsorted(taken - np.arange(len(taken)), places, side="right")
