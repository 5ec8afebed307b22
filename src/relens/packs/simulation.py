"""Simulated models with relation-dependent skill: for `relens simulate`, the tests and the benchmarks.

Every candidate has a plausibility, which each model sees with its own noise. The answer stands out by a level that
depends on the query (easy or hard) and on the model's skill for the relation. Scores are drawn block by block, so a
graph of any size streams into a pack.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relens.data.queries import Queries
from relens.packs.pack import PackedBlock, PackedRanks, PackHeader
from relens.packs.packing import fit_gap_scales, pack_scores
from relens.packs.store import assemble
from relens.progress import SILENT, Progress
from relens.records import Provenance
from relens.seeding import generator

BLOCK = 64
"""Queries simulated at a time."""


@dataclass(frozen=True)
class Simulation:
    """A simulated graph and simulated models.

    Attributes:
        models: N names.
        triples_per_relation: triples of each relation in a split, (R,).
        n_entities: candidates per query.
        level: mean and standard deviation, over queries, of the answer's lead, in units of the spread of candidates.
        skill: standard deviation of a model's advantage for a relation and direction.
        noise: standard deviation of a model's luck in one query; one number, or one per model.
        agreement: share of a candidate's plausibility that all models see in common.
        seed: seed of all random numbers.
        handicap: constant disadvantage of each model, (N,); empty for equal models.
        families: number of each model's family, (N,), such as the seeds of one model; empty for none.
        kinship: share of a model's own view of candidates, skill and luck that its family has in common.
    """

    models: tuple[str, ...]
    triples_per_relation: tuple[int, ...]
    n_entities: int
    level: tuple[float, float] = (3.3, 1.4)
    skill: float = 0.35
    noise: float | tuple[float, ...] = 0.35
    agreement: float = 0.9
    seed: int = 0
    handicap: tuple[float, ...] = ()
    families: tuple[int, ...] = ()
    kinship: float = 0.0

    def queries(self, split: str) -> Queries:
        """Return the queries of ``valid`` or ``test``: random triples, both directions."""
        rng = generator(self.seed, "triples", split)
        relation = np.repeat(np.arange(len(self.triples_per_relation)), self.triples_per_relation)
        head, tail = rng.integers(0, self.n_entities, size=(2, len(relation)))
        return Queries.from_triples(np.stack([head, relation, tail], axis=1))

    def skills(self) -> npt.NDArray[np.float64]:
        """Return the advantage of each model for each relation and direction, (R, 2, N)."""
        shape = (len(self.triples_per_relation), 2, len(self.models))
        rng = generator(self.seed, "skill")
        skills = self.skill * self._related(rng, rng.standard_normal(shape))
        return skills - np.array(self.handicap) if self.handicap else skills

    def scores(self, queries: Queries, split: str, block: int) -> npt.NDArray[np.float32]:
        """Return the scores of one block of queries, (N, b, C) float32."""
        here = queries[block * BLOCK : (block + 1) * BLOCK]
        rng = generator(self.seed, "scores", split, block)
        n, rows = len(self.models), np.arange(len(here))
        shared = rng.standard_normal((len(here), self.n_entities), dtype=np.float32)
        scores = rng.standard_normal((n, len(here), self.n_entities), dtype=np.float32)
        self._related(rng, np.moveaxis(scores, 0, -1))
        scores *= np.float32(np.sqrt(1 - self.agreement))
        scores += np.float32(np.sqrt(self.agreement)) * shared
        level = rng.normal(*self.level, size=len(here))[:, None]
        luck = np.array(self.noise) * self._related(rng, rng.standard_normal((len(here), n)))
        scores[:, rows, here.answer] = (level + luck + self.skills()[here.relation, here.direction]).T
        return scores

    def _related(self, rng: np.random.Generator, own: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Mix the family's common part into the numbers drawn for each model, ``own`` (…, N), in place."""
        if self.families:
            common = rng.standard_normal((max(self.families) + 1, *own.shape[:-1]), dtype=own.dtype)
            common *= own.dtype.type(np.sqrt(self.kinship))
            own *= own.dtype.type(np.sqrt(1 - self.kinship))
            for model, family in enumerate(self.families):
                own[..., model] += common[family]
        return own

    def packed(self, split: str, *, gaps: bool = True, jobs: int = 1, progress: Progress = SILENT) -> PackedRanks:
        """Simulate and pack a whole split, block by block."""
        queries = self.queries(split)
        scales = self._gap_scales() if gaps else None

        def pack(block: int) -> PackedBlock:
            answers = queries.answer[block * BLOCK : (block + 1) * BLOCK]
            return pack_scores(list(self.scores(queries, split, block)), answers, gap_scales=scales)

        def blocks() -> Iterator[PackedBlock]:
            n_blocks = -(-len(queries) // BLOCK)
            with ThreadPoolExecutor(jobs) as pool, progress.task(f"simulating {split}", n_blocks) as advance:
                for packed in pool.map(pack, range(n_blocks)):
                    advance(1)
                    yield packed

        relations = tuple(f"relation {r}" for r in range(len(self.triples_per_relation)))
        provenance = Provenance("simulated", f"seed {self.seed}", split)
        header = PackHeader(self.models, relations, queries, provenance, scales)
        return assemble(header, blocks())

    def _gap_scales(self) -> npt.NDArray[np.float64]:
        queries = self.queries("valid")
        return fit_gap_scales(list(self.scores(queries, "valid", 0)), queries.answer[:BLOCK])
