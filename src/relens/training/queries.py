"""The training queries on the device: known answers, negatives, and shuffled batches, without loops over triples."""

from dataclasses import dataclass

import torch
from torch import Tensor

from relens.data.queries import directed_key, pair_key
from relens.errors import InputError

FIRST_COUNT = 3
"""The start value of the counts behind row weights (KGTuner and HousE)."""


@dataclass(frozen=True, eq=False)
class TrainingQueries:
    """Both directions of n training triples, Q = 2n queries, on one device; P of the (anchor, relation) differ.

    Attributes:
        anchor: ids, (Q,) int64.
        relation: directed ids, (Q,) int64: r asks for tails, r + R for heads.
        answer: ids, (Q,) int64.
        weight: of each query in the loss, (Q,): (c(anchor, relation) + c(answer, inverse))^(−1/2), where c is 3 plus
            the number of training answers (subsampling weights).
        keys: sorted keys of all known (anchor, relation, answer), (K,) int64, for membership tests.
        pair: for each distinct (anchor, relation), the place of one example among the Q queries, (P,) int64.
        offsets: the keys of pair p are ``offsets[p]:offsets[p + 1]``, (P + 1,) int64.
        most_answers: the largest number of answers of a pair.
    """

    anchor: Tensor
    relation: Tensor
    answer: Tensor
    weight: Tensor
    keys: Tensor
    pair: Tensor
    offsets: Tensor
    most_answers: int
    n_entities: int
    n_relations: int

    @classmethod
    def from_triples(cls, triples: Tensor, n_entities: int, n_relations: int) -> "TrainingQueries":
        """Ask for both ends of the triples (n, 3); all tensors stay on their device."""
        head, relation, tail = triples.long().T
        n = len(head)
        anchor, answer = torch.cat([head, tail]), torch.cat([tail, head])
        directed = torch.cat([relation, relation + n_relations])
        pair = directed_key(anchor, directed, n_relations)
        distinct, index, counts = torch.unique(pair, return_inverse=True, return_counts=True)
        count = counts[index] + FIRST_COUNT
        weight = (count + torch.cat([count[n:], count[:n]])).float().rsqrt()
        keys = torch.unique(pair_key(pair, answer, n_entities))
        offsets = torch.searchsorted(keys, torch.cat([distinct, distinct[-1:] + 1]) * n_entities)
        example = torch.empty_like(distinct)
        example[index] = torch.arange(2 * n, device=pair.device)
        most = int((offsets[1:] - offsets[:-1]).max())
        return cls(anchor, directed, answer, weight, keys, example, offsets, most, n_entities, n_relations)

    def __len__(self) -> int:
        return len(self.anchor)

    def known(self, anchor: Tensor, relation: Tensor, candidates: Tensor) -> Tensor:
        """Say which candidates are known answers of B queries in the training triples, (B, P) bool.

        ``candidates`` is (C, P): each row serves B/C consecutive queries.
        """
        pair = directed_key(anchor, relation, self.n_relations).view(len(candidates), -1, 1)
        wanted = pair_key(pair, candidates.unsqueeze(1), self.n_entities).flatten(0, 1)
        at = torch.searchsorted(self.keys, wanted).clamp_(max=len(self.keys) - 1)
        found: Tensor = self.keys[at] == wanted
        return found

    def all_answers(self, pairs: Tensor) -> Tensor:
        """Return 1 at the known answers of some pairs (B,) and 0 elsewhere, (B, E) float32."""
        # Every row reads as many answers as the longest list has and repeats its own last one: a fixed shape.
        steps = torch.arange(self.most_answers, device=pairs.device)
        at = torch.minimum(self.offsets[pairs].unsqueeze(1) + steps, self.offsets[pairs + 1].unsqueeze(1) - 1)
        labels = torch.zeros(len(pairs), self.n_entities, device=pairs.device)
        return labels.scatter_(1, self.keys[at] % self.n_entities, 1.0)

    def negatives(self, chunks: int, n: int) -> Tensor:
        """Draw ``n`` entities for each chunk of a batch, uniformly and with replacement, (chunks, n) int64."""
        return torch.randint(self.n_entities, (chunks, n), device=self.anchor.device)


def focused_epoch(relation: Tensor, asked: Tensor, focus: float) -> Tensor:
    """Return the examples of one epoch, (n,): all, and so many of those of ``asked`` relations that they are a share.

    ``relation`` (m,) is that of each example; ``asked`` (k,) has the same ids. A share ``focus`` of the epoch is drawn
    from examples of those relations, again and again if need be, the others from all.
    """
    examples = torch.arange(len(relation), device=relation.device)
    chosen = torch.isin(relation, asked).nonzero().squeeze(1)
    if not len(chosen):
        raise InputError(f"`focus={focus}`, but no relation of the validation split occurs in training: set `focus=0`")
    if focus == 1:
        return chosen
    n_more = round(len(examples) * focus / (1 - focus))
    return torch.cat([examples, chosen.repeat(-(-n_more // len(chosen)))[:n_more]])


class Batches:
    """An endless stream of batches over examples (n,): shuffled epochs, one after the other, without replacement.

    A batch may span two epochs, so that all batches have the same shape. ``prepare`` runs on the host and makes sure
    that there is a next batch; ``take`` runs on the device alone and can be part of a CUDA graph.
    """

    def __init__(self, examples: Tensor, batch: int) -> None:
        self.batch, self._examples, device = batch, examples, examples.device
        self._rows = torch.zeros(len(examples) // batch + 2, batch, dtype=torch.int64, device=device)
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._taken, self._ready = 0, 0
        self._rest = torch.zeros(0, dtype=torch.int64, device=device)

    def prepare(self) -> None:
        """Shuffle the next epoch if no whole batch is left; call this before each ``take``."""
        if self._taken == self._ready:
            stream = self._rest
            while len(stream) < self.batch:
                order = torch.randperm(len(self._examples), device=stream.device)
                stream = torch.cat([stream, self._examples[order]])
            self._fill(stream)
        self._taken += 1

    def take(self) -> Tensor:
        """Return the next examples, (batch,) int64."""
        rows = self._rows.index_select(0, self._at).squeeze(0)
        self._at += 1
        return rows

    def untake(self) -> None:
        """Undo the last ``prepare`` and ``take``: the next ones return the same examples."""
        self._taken -= 1
        self._at.fill_(self._taken)

    def pending(self) -> Tensor:
        """Return the shuffled examples not yet taken, (m,) int64: a resumed run continues with them."""
        return torch.cat([self._rows[self._taken : self._ready].flatten(), self._rest])

    def restore(self, pending: Tensor) -> None:
        """Continue with the result of ``pending``; anything else raises a ``ValueError``."""
        if pending.numel() > self._rows.numel() or not torch.isin(pending, self._examples.to(pending.device)).all():
            raise ValueError(f"{len(pending):,} pending examples, expected up to {self._rows.numel():,} of this run's")
        self._fill(pending.to(self._rows.device))

    def _fill(self, stream: Tensor) -> None:
        self._ready, self._taken = len(stream) // self.batch, 0
        whole = self._ready * self.batch
        self._rows[: self._ready] = stream[:whole].view(-1, self.batch)
        self._rest = stream[whole:].clone()
        self._at.zero_()
