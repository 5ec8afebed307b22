"""Warnings about data sets, checks for leakage, and the splits that a command requires."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import relens
from relens.data.catalog import load_dataset
from relens.data.checks import ALARM, check_data, check_splits, suspicions
from relens.data.dataset import Dataset
from relens.data.patterns import patterns
from relens.errors import DatasetError
from tests.data.leaky import rows_of, with_counterparts

TRAIN = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "d"), ("d", "s", "a")]
VALID = [("a", "s", "c"), ("b", "r", "d")]
TEST = [("b", "s", "d"), ("d", "r", "b")]


def graph(train=(), valid=(), test=()) -> Dataset:
    return Dataset.from_labels("toy", train=[*TRAIN, *train], valid=[*VALID, *valid], test=[*TEST, *test])


def test_good_data_gives_no_warning():
    assert suspicions(graph()) == []
    assert suspicions(patterns()) == []


@pytest.mark.parametrize(
    ("added", "warnings"),
    [
        (
            {"valid": [("a", "r", "b")]},
            ["train has 1 of the 3 valid triples, too: a model that memorises train will look good on valid"],
        ),
        (
            {"test": [("a", "s", "c")]},
            ["valid has 1 of the 3 test triples, too: weights that are fitted on validation will look good on test"],
        ),
        ({"train": [("a", "r", "b")]}, ["1 triple repeats another triple of the same split"]),
        ({"train": TRAIN[:2]}, ["2 triples repeat another triple of the same split"]),
        (
            {"valid": [("a", "s", "new")]},
            ["train lacks an entity of 1 of the 3 valid triples: models learn nothing about it"],
        ),
        ({"valid": [("b", "t", "d")]}, ["train lacks 1 relation of valid: 't'"]),
        (
            {"test": [("a", "t", "c"), ("a", "u", "c"), ("a", "v", "c"), ("a", "w", "c")]},
            [
                "train lacks 4 relations of test: 't', 'u', 'v', …",
                "valid lacks 4 relations of test, with 4 of the 6 test triples: 't', 'u', 'v', …. Ensembles use "
                "weights "
                "fitted on all relations for them",
            ],
        ),
        (
            {"train": [(" a", "r", "d ")]},
            [
                "2 labels begin or end with a space, and 2 of them occur without spaces, too: ' a', 'd '. `relens data "
                "prepare toy NEW_FOLDER` removes the spaces"
            ],
        ),
        (
            {"train": [("c", "r ", "a"), ("d", "s", "b")]},
            [
                "1 label begins or ends with a space, and 1 of them occurs without spaces, too: 'r '. `relens data "
                "prepare toy NEW_FOLDER` removes the spaces",
                "train links the two entities of 2 of the 2 valid triples the other way round: a model that learns "
                "which entities are linked will look good on valid",
            ],
        ),
    ],
)
def test_each_suspicion_is_one_sentence(added, warnings):
    assert suspicions(graph(**added)) == warnings


def test_reversed_triples_are_suspicious_above_one_half():
    back = [("d", "inverse_s", "b"), ("x", "r", "x")]
    half = graph(train=back, test=[("a", "r", "d"), ("x", "s", "x"), ("a", "r", "c"), ("b", "r", "b")])
    assert not any("the other way round" in text for text in suspicions(half)), (
        "3 of 6 are half, and loops are no pairs"
    )
    most = graph(train=back, test=[("a", "r", "d"), ("b", "r", "a"), ("c", "r", "b"), ("b", "r", "b")])
    found = [text for text in suspicions(most) if "the other way round" in text]
    assert len(found) == 1
    assert found[0].startswith("train links the two entities of 4 of the 6 test triples the other way round")


@pytest.mark.parametrize("inverse", [True, False])
def test_the_alarm_rises_on_the_leak_of_fb15k(inverse):
    dataset = with_counterparts(inverse=inverse)
    known = set(rows_of(dataset, "train"))
    kind = "inverse" if inverse else "duplicate"

    def leaks(h: str, r: str, t: str) -> bool:
        """Say whether train has the twin of a triple, or its inverse by the pair that the graph has anyway."""
        base, twin = r.removesuffix("_again"), r.endswith("_again")
        pair = {"teaches": "taught_by", "taught_by": "teaches", "opponent_of": "opponent_of"}.get(base)
        other = base if twin else f"{base}_again"
        names = {(other, inverse)}
        if pair is not None:
            names |= {(pair + "_again" * twin, True), (pair + "_again" * (not twin), not inverse)}
        names -= {(r, True)}
        return any(((t, name, h) if swaps else (h, name, t)) in known for name, swaps in names)

    check = check_data(dataset)
    for split in ("valid", "test"):
        expected = sum(leaks(*row) for row in rows_of(dataset, split))
        assert expected > 0.8 * 1000
        assert int(check.given[split].by_pairs.sum()) == expected
        (text,) = [text for text in check.warnings if f"of the 1,000 {split} triples" in text and "pairs" in text]
        assert re.fullmatch(
            rf"train has the inverse or a duplicate of {expected} of the 1,000 {split} triples "
            rf"\({expected / 1000:.0%}\), by "
            rf"\d+ pairs of relations such as '\w+' and '\w+' \((inverse|duplicate)\): a model that copies them "
            rf"will look "
            rf"good on {split}, and its figures say little about facts that the graph does not state already. "
            rf"`relens data "
            rf"prepare leaky NEW_FOLDER --drop-leaks` keeps one relation of each pair",
            text,
        )
    pairs = {(pair["relation"], pair["counterpart"], pair["kind"]): pair for pair in check.relations()}
    pair = pairs["kind_of", "kind_of_again", kind]
    assert (pair["share"], pair["facts"]) == (
        1.0,
        sum(r == "kind_of" for s in dataset.splits for _, r, _ in rows_of(dataset, s)),
    )


def test_inverses_of_the_test_triples_alone_are_found():
    """A relation that holds nothing but the inverses of test triples."""
    base = patterns()
    more = [(t, f"inverse_{r}", h) for h, r, t in rows_of(base, "test")]
    dataset = Dataset.from_labels("leaky", train=rows_of(base, "train") + more, valid=rows_of(base, "valid"),
                                  test=rows_of(base, "test"))  # fmt: skip
    assert check_data(dataset).given["test"].by_pairs.all()
    assert suspicions(dataset)[0].startswith(
        "train has the inverse or a duplicate of 1,100 of the 1,100 test triples (100%)"
    )


@pytest.mark.parametrize("column", [1, 2])
def test_a_shuffled_graph_raises_no_alarm(column):
    dataset = with_counterparts(inverse=True)
    every = np.concatenate(list(dataset.splits.values()))
    every[:, column] = np.random.default_rng(1).permutation(every[:, column])
    mixed = Dataset("mixed", dataset.entities, dataset.relations, train=every[2000:], valid=every[:1000],
                    test=every[1000:2000])  # fmt: skip
    check = check_data(mixed)
    assert not any("inverse" in text or "mirror" in text for text in check.warnings)
    assert not (check.given["test"].by_pairs | check.given["test"].symmetric).any()


needs_data = pytest.mark.skipif("RELENS_DATA" not in os.environ, reason="needs RELENS_DATA, see CONTRIBUTING.md")


@needs_data
@pytest.mark.parametrize(
    ("name", "given", "warnings"),
    [
        ("umls", {"inverse": 28, "duplicate": 87, "symmetric": 11, "linked": 421}, ["valid lacks 1 relation of test"]),
        (
            "wn18rr",
            {"inverse": 0, "duplicate": 0, "symmetric": 1052, "linked": 1096},
            [
                "train has the mirror image of 1,046 of the 3,034 valid triples (34%), by 3 symmetric relations "
                "such as "
                "'_derivationally_related_form'",
                "train has the mirror image of 1,052 of the 3,134 test triples (34%), by 3 symmetric relations such as "
                "'_derivationally_related_form'",
                "train lacks an entity of 210 of the 3,034 valid triples",
                "train lacks an entity of 210 of the 3,134 test triples",
            ],
        ),
        (
            "fb15k-237",
            {"inverse": 0, "duplicate": 0, "symmetric": 0, "linked": 0},
            [
                "train lacks an entity of 9 of the 17,535 valid triples",
                "train lacks an entity of 28 of the 20,466 test triples",
                "valid lacks 5 relations of test, with 13 of the 20,466 test triples",
            ],
        ),
        (
            "nell-995",
            {"inverse": 0, "duplicate": 0, "symmetric": 0, "linked": 1155},
            ["train lacks an entity of 102 of the 543 valid triples"],
        ),
    ],
)
def test_what_is_true_of_known_graphs(name, given, warnings):
    dataset = load_dataset(name, offline=True)
    check = check_data(dataset)
    assert check.shares()["test"] == {"repeated": 0, **given}
    assert [text.startswith(beginning) for text, beginning in zip(check.warnings, warnings, strict=True)] == [
        True
    ] * len(warnings)
    train = {frozenset((h, t)) for h, _, t in dataset.train.tolist()}
    assert sum(frozenset((h, t)) in train and h != t for h, _, t in dataset.test.tolist()) == given["linked"]


@needs_data
def test_the_mirror_images_in_wn18rr_are_those_of_a_loop():
    dataset = load_dataset("wn18rr", offline=True)
    symmetric = {"_derivationally_related_form", "_verb_group", "_similar_to"}
    train = set(rows_of(dataset, "train"))
    assert sum(r in symmetric and (t, r, h) in train for h, r, t in rows_of(dataset, "test")) == 1052


def test_a_check_has_plain_values():
    value = relens.check_data("patterns").to_json()
    assert value["given_away"]["test"] == {
        "repeated": 0,
        "inverse": 200,
        "duplicate": 0,
        "symmetric": 100,
        "linked": 300,
    }
    assert ALARM * 1100 > 200, "no alarm"
    assert value["relation_pairs"][0] == {
        "relation": "opponent_of", "counterpart": "opponent_of", "kind": "symmetric", "facts": 648, "share": 1.0
    }  # fmt: skip
    assert value["warnings"] == []
    assert value["counts"]["test"] == 1100


def test_a_folder_is_checked_by_its_path(tmp_path: Path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a\tr\tb\n", encoding="utf-8")
    found = relens.check_data(tmp_path).warnings
    assert found[0].startswith("train, valid and test begin with the same line, 'a r b'")
    assert found[1].startswith("train has 1 of the 1 valid triple, too")


@pytest.mark.parametrize(("split", "kind"), [("valid", "validation"), ("test", "test")])
def test_an_empty_split_that_is_needed_raises_an_error(split, kind):
    dataset = Dataset.from_labels("toy", train=TRAIN)
    check_splits(dataset)
    message = f"'toy' has no {kind} triples, .*: move some triples from train to {split}, or let `relens data prepare"
    with pytest.raises(DatasetError, match=message):
        check_splits(dataset, split)
