"""Sample negatives for the queries of any graph, as OGB does for its own, reproducibly."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from relens.data.candidates import PADDING, RECORD, Candidates, write_candidates
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
    """Sample ``per_query`` negatives for every query of valid and test; return them by split.

    Each query gets a uniform sample of the entities without the known answers of all splits. A query with fewer
    such entities gets all of them. Ids ascend in each row.
    """
    if per_query < 1:
        raise DatasetError(f"`per_query={per_query}` is too small: expected 1 or more negatives per query")
    source = f"sampled by relens: {per_query} per query, seed {seed}"
    found = {}
    for split in EVALUATED:
        queries = dataset.queries(split)
        negatives = np.full((len(queries), per_query), PADDING, dtype=np.int32)
        with progress.task(f"sampling {split}", len(queries)) as advance:
            for begin in range(0, len(queries), _BLOCK):
                block = queries[begin : begin + _BLOCK]
                rng = generator(seed, "negatives", split, begin)
                for row in range(len(block)):
                    # One query at a time: a popular entity may have a million known answers.
                    taken = dataset.known_answers.answers_to(block[row : row + 1])[1]
                    drawn = _draw(rng, len(dataset.entities), taken, per_query)
                    negatives[begin + row, : len(drawn)] = drawn
                advance(len(block))
        negatives.setflags(write=False)
        found[split] = Candidates(negatives, source, SPLITS)
    return found


def write_sampled(
    dataset: Dataset, folder: Path, per_query: int, seed: int = 0, *, force: bool = False, progress: Progress = SILENT
) -> Dataset:
    """Write a copy of a data set with sampled negatives into a folder, and return the copy.

    The folder appears when it is complete. ``force`` replaces a folder that this function wrote before.
    """
    if folder.exists() and not (force and (folder / RECORD).is_file()):
        remedy = "pass `force=True` to replace it, or choose" if (folder / RECORD).is_file() else "choose"
        raise DatasetError(f"{folder} exists already: {remedy} another `folder=…`")
    with whole_folder(folder) as temporary:
        write_folder(dataset, temporary)
        written = read_folder(temporary, dataset.name)  # its ids follow the sorted labels
        candidates = sample_negatives(written, per_query, seed, progress=progress)
        write_candidates(candidates, written.identity, temporary)
    return read_folder(folder).with_candidates(folder)


def _draw(
    rng: np.random.Generator, n_entities: int, taken: npt.NDArray[np.int32], wanted: int
) -> npt.NDArray[np.int64]:
    """Draw ``wanted`` distinct ids below ``n_entities`` that are not in ``taken`` (sorted, distinct), or all such."""
    n_left = n_entities - len(taken)
    places = np.arange(n_left) if n_left <= wanted else np.sort(rng.choice(n_left, wanted, replace=False))
    # Skip the taken ids: the id at place p is p plus the number of taken ids at or before it.
    return places + np.searchsorted(taken - np.arange(len(taken)), places, side="right")
