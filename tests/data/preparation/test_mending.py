"""Leaks are removed as FB15k-237 was made from FB15k; what is left has none."""

import numpy as np
import pytest

from relens.data.leakage import find_rules
from relens.data.patterns import patterns
from relens.data.preparation.facts import Graph
from relens.data.preparation.mending import drop_given_away, drop_redundant
from relens.errors import DatasetError
from tests.data.leaky import rows_of, with_counterparts


def labelled(graph: Graph, split: str) -> list[tuple[str, str, str]]:
    triples = graph.parts[split].triples.tolist()
    return [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in triples]


@pytest.mark.parametrize("inverse", [True, False])
def test_one_relation_of_each_pair_is_kept(inverse):
    leaky, notes = with_counterparts(inverse=inverse), []
    graph = drop_redundant(Graph.of_dataset(leaky), notes)
    assert len(graph.relations) == 10, "eleven relations, of which two are inverses"
    assert {name.removesuffix("_again") for name in graph.relations} >= set(patterns().relations.labels) - {
        "teaches", "taught_by"
    }  # fmt: skip
    every = np.concatenate([part.triples for part in graph.parts.values()])
    assert find_rules(every, len(graph.relations)).symmetric.all()
    kept = set(graph.relations)
    for split in leaky.splits:
        assert labelled(graph, split) == [row for row in rows_of(leaky, split) if row[1] in kept]
    dropped = sum(row[1] not in kept for split in leaky.splits for row in rows_of(leaky, split))
    (note,) = notes
    assert note.startswith(
        f"dropped 12 relations with {dropped:,} triples, the inverse or a near-duplicate of another one: "
    )


def test_a_graph_without_redundant_relations_stays_as_it_is():
    notes = []
    graph = drop_redundant(Graph.of_dataset(patterns()), notes)
    assert len(graph.relations) == 10
    assert drop_redundant(graph, notes) is graph
    assert len(notes) == 1


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("unseen", [False, True])
def test_held_out_triples_that_train_gives_away_are_removed(linked, unseen):
    base, notes = patterns(), []
    train = [row for row in rows_of(base, "train") if "scholar_0_" not in row[0]]
    valid = rows_of(base, "valid") + train[:7]
    test = rows_of(base, "test") + train[7:12] + valid[:3]
    dataset = type(base).from_labels("mixed", train=train, valid=valid, test=test)
    graph = drop_given_away(Graph.of_dataset(dataset), notes, mirrored=True, linked=linked, unseen=unseen)
    known, pairs = set(train), {frozenset((h, t)) for h, _, t in train}
    labels = {label for h, r, t in train for label in (h, r, t)}
    other = {"teaches": "taught_by", "taught_by": "teaches", "opponent_of": "opponent_of"}

    def stays(row: tuple[str, str, str], earlier: set[tuple[str, str, str]]) -> bool:
        h, r, t = row
        given = row in earlier or (t, other.get(r), h) in known or (linked and frozenset((h, t)) in pairs)
        return not given and (unseen or {h, r, t} <= labels)

    assert labelled(graph, "train") == train
    assert labelled(graph, "valid") == [row for row in valid if stays(row, known)]
    assert labelled(graph, "test") == [row for row in test if stays(row, known | set(valid))]
    removed = [int(note.split()[1].replace(",", "")) for note in notes if " of the 1,107 valid" in note]
    assert sum(removed) == 1107 - len(labelled(graph, "valid"))
    assert notes[0] == "removed 7 of the 1,107 valid triples that train has"


def test_only_linked_triples_are_removed_on_request():
    base, notes = patterns(), []
    graph = drop_given_away(Graph.of_dataset(base), notes, mirrored=False, linked=True, unseen=True)
    pairs = {frozenset((h, t)) for h, _, t in rows_of(base, "train")}
    assert labelled(graph, "test") == [row for row in rows_of(base, "test") if frozenset((row[0], row[2])) not in pairs]
    assert notes == [
        f"removed 300 of the 1,100 {split} triples whose two entities train links" for split in ("valid", "test")
    ]


def test_a_split_without_any_other_triple_is_an_error():
    base = patterns()
    dataset = type(base).from_labels("copy", train=rows_of(base, "train"), valid=rows_of(base, "train")[:5])
    message = (
        r"without leaks, valid has no triple left \(removed 5 of the 5 valid triples that train has\). Hold out other "
        r"triples, or leave out `drop_leaks=True`"
    )
    with pytest.raises(DatasetError, match=message):
        drop_given_away(Graph.of_dataset(dataset), [], mirrored=True, linked=False, unseen=False)
