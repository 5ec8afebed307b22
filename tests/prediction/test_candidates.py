"""The option ``candidates=…``: words, files, folders and names, and each way to get it wrong."""

import gzip
from pathlib import Path

import pytest

from relens.data.dataset import read_folder
from relens.data.negatives import sample_negatives, write_sampled
from relens.errors import InputError
from relens.prediction.candidates import LISTED, restriction_for, with_candidates

CITIES = ("Q90\tParis\n", "Q64\tBerlin\n", "Q1\tSpringfield\n", "Q2\tSpringfield\n")


@pytest.fixture
def dataset(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "train.txt").write_text("Q90\tin\tQ142\nQ64\tin\tQ183\nQ1\ttwin\tQ2\n")
    (folder / "valid.txt").write_text("Q64\ttwin\tQ90\n")
    (folder / "test.txt").write_text("Q2\tin\tQ183\n")
    (folder / "labels.tsv").write_text("".join(CITIES))
    (folder / "types.tsv").write_text("Q142\tland\nQ183\tland\nQ90\tcity\n")
    return read_folder(folder)


def allowed(dataset, found, relation="in", direction=0) -> list[str]:
    ids = found.allowed(dataset.relations.id_of(relation), direction)
    return [dataset.entities.labels[entity] for entity in ids.tolist()]


def test_a_word_or_a_file_or_names_restrict_the_candidates(dataset, tmp_path, monkeypatch):
    assert allowed(dataset, restriction_for(dataset, "observed")) == ["Q142", "Q183"]
    assert allowed(dataset, restriction_for(dataset, "types"), direction=1) == ["Q90"]
    names = "Q64\n\nparis\nQ64\n"
    (tmp_path / "mine.txt").write_text(names)
    (tmp_path / "mine.gz").write_bytes(gzip.compress(names.encode()))
    for option in (str(tmp_path / "mine.txt"), tmp_path / "mine.txt", tmp_path / "mine.gz", ["Q64", "Paris"]):
        found = restriction_for(dataset, option)
        assert allowed(dataset, found) == allowed(dataset, found, "twin", 1) == ["Q64", "Q90"]
    assert restriction_for(dataset, tmp_path / "mine.txt").name.startswith("list mine.txt ")
    assert restriction_for(dataset, ["Q64", "Paris"]).name.startswith("list of 2 entities ")
    monkeypatch.chdir(tmp_path)
    Path("observed").write_text("Q1\n")
    for option in ("./observed", Path("observed")):
        assert allowed(dataset, restriction_for(dataset, option)) == ["Q1"], "a path, not the word"
    assert restriction_for(dataset, "observed").name == "observed"


def test_a_data_set_gets_the_candidates_of_an_option(dataset, tmp_path):
    assert with_candidates(dataset, None) is dataset
    assert with_candidates(dataset, "observed").restriction.name == "observed"
    write_sampled(dataset, tmp_path / "few", 2)
    sampled = with_candidates(with_candidates(dataset, "observed"), tmp_path / "few")
    assert sampled.restriction is None
    expected = sample_negatives(dataset, 2)["test"].negatives.tolist()
    assert sampled.candidates["test"].negatives.tolist() == expected
    assert with_candidates(sampled, "types").candidates == {}, "a restriction replaces sampled negatives"


def test_a_folder_is_no_restriction_of_a_question(dataset, tmp_path):
    write_sampled(dataset, tmp_path / "few", 2)
    (tmp_path / "empty").mkdir()
    message = r"few is a folder with sampled negatives: the candidates of a question are observed or types, or a file"
    with pytest.raises(InputError, match=message):
        restriction_for(dataset, tmp_path / "few")
    with pytest.raises(InputError, match="empty is a folder with no list"):
        restriction_for(dataset, tmp_path / "empty")
    with pytest.raises(InputError, match=r"candidates\.json does not exist. Make them again with"):
        with_candidates(dataset, tmp_path / "empty")


def test_all_unknown_names_are_listed_with_suggestions(dataset, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("Pariss\nQ64\nspringfield\nQ1833\n")
    with pytest.raises(InputError) as error:
        restriction_for(dataset, file)
    assert str(error.value).splitlines() == [
        f"{file}: 3 of 4 names cannot be used:",
        f"{file}, line 1: unknown entity 'Pariss'; did you mean 'Paris'?",
        f"{file}, line 3: 2 entities are called 'springfield': 'Q1', 'Q2'. Give the label of one of them.",
        f"{file}, line 4: unknown entity 'Q1833'; did you mean 'Q183'?",
        "Correct the names, or remove them.",
    ]
    with pytest.raises(InputError, match=r"`candidates=…`, number 2: unknown entity 'Pariss'"):
        restriction_for(dataset, ["Q64", "Pariss"])
    file.write_text("".join(f"nobody{i}\n" for i in range(LISTED + 5)))
    with pytest.raises(InputError, match=r"… and 5 more\nCorrect the names"):
        restriction_for(dataset, file)


def test_a_list_without_names_leaves_nobody(dataset, tmp_path):
    (tmp_path / "mine.txt").write_text("\n\n")
    with pytest.raises(InputError, match=r"mine\.txt leaves nobody: it names no entity"):
        restriction_for(dataset, tmp_path / "mine.txt")
    with pytest.raises(InputError, match="leaves nobody"):
        restriction_for(dataset, [])


def test_what_is_neither_a_word_nor_a_path_gets_a_suggestion(dataset):
    message = r"`candidates=observd` is neither a word .*; did you mean 'observed'\? \(expected observed, types, a file"
    with pytest.raises(InputError, match=message):
        restriction_for(dataset, "observd")
    with pytest.raises(InputError, match="available: 'observed', 'types'"):
        with_candidates(dataset, "everything")
    for missing in ("nowhere/mine", "mine.txt", Path("mine")):
        with pytest.raises(InputError, match="there is no such file or folder; expected observed, types, a file"):
            restriction_for(dataset, missing)
