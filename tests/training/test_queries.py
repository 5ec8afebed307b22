import numpy as np
import pytest
import torch

from relens.errors import InputError
from relens.training.queries import Batches, TrainingQueries, focused_epoch
from tests.training.graphs import N_ENTITIES, N_RELATIONS, random_triples

CPU = torch.device("cpu")


@pytest.fixture
def triples() -> np.ndarray:
    return random_triples(3, 40)


@pytest.fixture
def queries(triples) -> TrainingQueries:
    return TrainingQueries.from_triples(torch.from_numpy(triples), N_ENTITIES, N_RELATIONS)


def known_answers(triples: np.ndarray) -> dict[tuple[int, int], set[int]]:
    answers: dict[tuple[int, int], set[int]] = {}
    for h, r, t in triples.tolist():
        answers.setdefault((h, r), set()).add(t)
        answers.setdefault((t, r + N_RELATIONS), set()).add(h)
    return answers


def test_each_triple_is_asked_in_both_directions(triples, queries) -> None:
    asked = set(zip(queries.anchor.tolist(), queries.relation.tolist(), queries.answer.tolist(), strict=True))
    rows = triples.tolist()
    assert asked == {(h, r, t) for h, r, t in rows} | {(t, r + N_RELATIONS, h) for h, r, t in rows}
    assert len(queries) == 2 * len(rows)


def test_row_weights_are_those_of_the_counts(triples, queries) -> None:
    answers = known_answers(triples)
    for a, r, t, w in zip(queries.anchor, queries.relation, queries.answer, queries.weight, strict=True):
        inverse = (int(r) + N_RELATIONS) % (2 * N_RELATIONS)
        count = 6 + len(answers[int(a), int(r)]) + len(answers[int(t), inverse])
        assert float(w) == pytest.approx(count**-0.5)


def test_row_weights_lie_below_the_rarest(queries) -> None:
    assert float(queries.weight.max()) <= 8**-0.5 + 1e-7
    assert float(queries.weight.min()) > 0


@pytest.mark.parametrize("chunks", [1, 4, 20])
def test_known_is_brute_force(triples, queries, chunks) -> None:
    answers = known_answers(triples)
    examples = torch.randint(len(queries), (20,))
    candidates = torch.randint(N_ENTITIES, (chunks, 9))
    found = queries.known(queries.anchor[examples], queries.relation[examples], candidates)
    assert found.shape == (20, 9)
    for b, example in enumerate(examples.tolist()):
        pair = int(queries.anchor[example]), int(queries.relation[example])
        row = candidates[b // (20 // chunks)].tolist()
        assert found[b].tolist() == [c in answers[pair] for c in row]


def test_all_answers_is_brute_force(triples, queries) -> None:
    answers = known_answers(triples)
    pairs = torch.arange(len(queries.pair))
    labels = queries.all_answers(pairs)
    asked = {}
    for place, row in zip(queries.pair.tolist(), labels, strict=True):
        asked[int(queries.anchor[place]), int(queries.relation[place])] = set(row.nonzero().flatten().tolist())
        assert set(row.tolist()) <= {0.0, 1.0}
    assert asked == answers


def test_repeated_triples_count_as_known_once(triples) -> None:
    twice = TrainingQueries.from_triples(torch.from_numpy(np.concatenate([triples, triples])), N_ENTITIES, N_RELATIONS)
    assert len(twice) == 4 * len(triples)
    assert len(twice.keys) == 2 * len(triples)


def test_negatives_are_uniform(queries) -> None:
    torch.manual_seed(0)
    drawn = queries.negatives(40, 3_000)
    assert drawn.shape == (40, 3_000)
    counts = torch.bincount(drawn.flatten(), minlength=N_ENTITIES).double()
    expected = drawn.numel() / N_ENTITIES
    # Chi-square with 11 degrees of freedom: 35 is beyond the 0.9997 quantile.
    assert float(((counts - expected) ** 2 / expected).sum()) < 35


@pytest.mark.parametrize(("size", "batch"), [(10, 3), (12, 4), (3, 8), (5, 5), (7, 1)])
def test_batches_are_epochs_without_replacement(size, batch) -> None:
    torch.manual_seed(0)
    batches = Batches(torch.arange(size), batch)
    stream = []
    for _ in range(6 * size):
        batches.prepare()
        stream += batches.take().tolist()
    epochs = [stream[i : i + size] for i in range(0, len(stream) - size + 1, size)]
    assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
    assert size == 1 or len({tuple(epoch) for epoch in epochs}) > 1


@pytest.mark.parametrize("taken", range(8))
def test_restored_batches_go_on_with_the_same_examples(taken) -> None:
    torch.manual_seed(0)
    batches = Batches(torch.arange(10), 3)
    for _ in range(taken):
        batches.prepare()
        batches.take()
    pending, random = batches.pending(), torch.get_rng_state()

    def next_ones(batches: Batches) -> list[list[int]]:
        torch.set_rng_state(random)
        found = []
        for _ in range(9):
            batches.prepare()
            found.append(batches.take().tolist())
        return found

    again = Batches(torch.arange(10), 3)
    again.restore(pending)
    assert next_ones(again) == next_ones(batches)


def test_a_focused_epoch_has_all_examples_and_a_share_of_those_asked_for() -> None:
    relation, asked = torch.tensor([0, 1, 2, 0, 1, 2, 0, 3]), torch.tensor([1, 9])
    counts = torch.bincount(focused_epoch(relation, asked, 0.5), minlength=8)
    assert counts.tolist() == [1, 5, 1, 1, 5, 1, 1, 1]  # eight more, of examples 1 and 4
    assert focused_epoch(relation, asked, 1.0).tolist() == [1, 4]
    assert len(focused_epoch(relation, torch.tensor([3]), 0.2)) == 10
    with pytest.raises(InputError, match=r"`focus=0.5`, but no relation of the validation split occurs in training"):
        focused_epoch(relation, torch.tensor([9]), 0.5)
