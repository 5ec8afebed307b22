"""What killed processes leave is removed, and nothing else."""

from relens.pipeline.leftovers import remove_left_overs


def test_what_never_took_its_place_is_removed(tmp_path):
    for name in (".dsc.json.ab12.part", ".lock", ".again", "mine.part", "notes.old"):
        (tmp_path / name).write_text("x")
    for name in (".ranks.cd34.part/valid", ".transe.old/trained", "models/.inside.part"):
        (tmp_path / name).mkdir(parents=True)
    remove_left_overs(tmp_path, tmp_path / "not there")
    assert {path.name for path in tmp_path.iterdir()} == {".lock", ".again", "mine.part", "notes.old", "models"}
    assert (tmp_path / "models" / ".inside.part").is_dir()
    remove_left_overs(tmp_path, tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []
