import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from relens.errors import InputError
from relens.models import MODELS
from relens.training.checkpoint import newest_settings
from relens.training.log import LOG, LogRecord, read_log, readable_duration, rising, training_seconds
from relens.training.loop import TrainingObserver, Validation, new_model, optimise
from tests.training.graphs import (
    N_ENTITIES,
    N_RELATIONS,
    TrainMRR,
    random_triples,
    shifted_triples,
    small_settings,
)

TRIPLES = random_triples()


def model_of(settings, triples=TRIPLES):
    return new_model(settings, triples, N_ENTITIES, N_RELATIONS)


class Scripted:
    """A validation that returns given values and remembers the parameters it saw."""

    def __init__(self, *mrrs: float) -> None:
        self.mrrs, self.seen = list(mrrs), []

    def __call__(self, model) -> float:
        self.seen.append(next(model.parameters()).detach().clone())
        return self.mrrs[len(self.seen) - 1]


@pytest.mark.parametrize("model", [name for name, entry in MODELS.items() if entry.has_tables])
def test_every_model_with_tables_learns_a_tiny_graph_by_heart(model) -> None:
    triples = shifted_triples()
    settings = small_settings(model, "steps=400", "validate_every=50", "stop_after=3")
    trained = model_of(settings, triples)
    validate = TrainMRR(triples)
    assert validate(trained) < 0.8
    result = optimise(trained, triples, settings, validate=validate)
    assert result.best_mrr == validate(trained)
    assert result.best_mrr > 0.95


def test_the_best_parameters_are_kept() -> None:
    settings = small_settings("complex", "steps=80")
    trained, validate = model_of(settings), Scripted(0.1, 0.4, 0.3, 0.2)
    result = optimise(trained, TRIPLES, settings, validate=validate)
    assert (result.best_step, result.best_mrr, result.step, result.ending) == (40, 0.4, 80, "steps")
    assert torch.equal(trained.entity, validate.seen[1])


def test_stalled_validation_ends_the_run() -> None:
    settings = small_settings("complex", "steps=1000", "stop_after=3")
    validate = Scripted(0.1, 0.4, 0.4, 0.39, 0.4, 0.9)
    result = optimise(model_of(settings), TRIPLES, settings, validate=validate)
    assert (result.ending, result.step, result.best_step) == ("stopped early", 100, 40)


def test_the_last_step_is_validated() -> None:
    settings = small_settings("complex", "steps=25")
    result = optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1, 0.2))
    assert (result.step, result.best_step) == (25, 25)


def test_divergence_keeps_the_best_and_says_so(caplog) -> None:
    settings = small_settings("complex", "steps=100", "log_every=5")
    trained, validate = model_of(settings), Scripted(0.3)
    seen: list[LogRecord] = []

    def poison(record: LogRecord) -> None:
        seen.append(record)
        if record.step == 25:
            with torch.no_grad():
                trained.entity.fill_(torch.nan)

    with caplog.at_level(logging.WARNING):
        result = optimise(trained, TRIPLES, settings, validate=validate, observer=TrainingObserver(record=poison))
    assert (result.ending, result.step, result.best_step) == ("diverged", 30, 20)
    assert torch.equal(trained.entity, validate.seen[0])
    assert seen[-1].loss is None
    assert "loss became non-finite by step 30; the model keeps its parameters of step 20" in caplog.text


def test_divergence_before_any_validation_keeps_the_beginning() -> None:
    settings = small_settings("complex", "steps=100", "log_every=5")
    trained = model_of(settings)
    beginning = trained.entity.detach().clone()

    def poison(record: LogRecord) -> None:
        with torch.no_grad():
            trained.entity.fill_(torch.nan)

    result = optimise(trained, TRIPLES, settings, validate=Scripted(), observer=TrainingObserver(record=poison))
    assert (result.ending, result.best_step, result.best_mrr) == ("diverged", 0, None)
    assert torch.equal(trained.entity, beginning)


def test_records_are_handed_over_and_written(tmp_path) -> None:
    settings = small_settings("transe", "steps=40", "log_every=10", "schedule=linear", "hold=0.5")
    seen: list[LogRecord] = []
    optimise(
        model_of(settings),
        TRIPLES,
        settings,
        validate=Scripted(0.1, 0.2),
        observer=TrainingObserver(record=seen.append),
        folder=tmp_path,
    )
    assert [record.step for record in seen] == [10, 20, 30, 40]
    assert [record.mrr for record in seen] == [None, 0.1, None, 0.2]
    assert [record.lr for record in seen] == pytest.approx([0.02, 0.02, 0.011, 0.001])
    assert all(record.loss > 0 and record.examples_per_second > 0 for record in seen)
    assert seen[0].seconds < seen[-1].seconds
    written = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert all(len(line.pop("checksum")) == 16 for line in written)
    assert written == read_log(tmp_path / LOG) == [record.__dict__ for record in seen]


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_gives_the_same_parameters_and_another_seed_others(model) -> None:
    def parameters(*changes: str) -> dict[str, torch.Tensor]:
        settings = small_settings(model, "steps=20", "dropout=0.1", *changes)
        trained = model_of(settings)
        optimise(trained, TRIPLES, settings, validate=Scripted(0.1))
        return trained.state_dict()

    first, again, other = parameters(), parameters(), parameters("seed=1")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_the_same_parameters_on_two_threads() -> None:
    def parameters() -> torch.Tensor:
        settings = small_settings("transe", "steps=20", "dim=512", "batch=64", "negatives=64", "pool_rows=1")
        trained = model_of(settings)
        optimise(trained, TRIPLES, settings, validate=Scripted(0.1))
        return trained.entity

    torch.set_num_threads(2)
    try:
        assert torch.equal(parameters(), parameters())
    finally:
        torch.set_num_threads(1)


def test_training_leaves_the_process_as_it_was() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    settings = small_settings("conve", "steps=20")
    optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_optimiser_forgets_at_milestones() -> None:
    def parameters(*changes: str) -> torch.Tensor:
        settings = small_settings("transe", "steps=20", "schedule=steps", "factor=1.0", *changes)
        trained = model_of(settings)
        optimise(trained, TRIPLES, settings, validate=Scripted(0.1))
        return trained.entity

    assert not torch.equal(parameters("milestones=[10]"), parameters("milestones=[100]"))


@pytest.mark.parametrize("optimiser", ["adam", "adagrad"])
def test_features_are_read_and_never_trained(tmp_path, optimiser) -> None:
    path = tmp_path / "features.npy"
    given = np.random.default_rng(0).normal(size=(N_ENTITIES, 6)).astype(np.float32)
    np.save(path, given)
    settings = small_settings("stargraph", f"features={path}", "steps=200", "lr=0.02", f"optimiser={optimiser}")
    triples = shifted_triples()
    trained = model_of(settings, triples)
    before, validate = trained.linear.weight.detach().clone(), TrainMRR(triples)
    assert optimise(trained, triples, settings, validate=validate).best_mrr > 0.6
    assert torch.equal(trained.entity, torch.from_numpy(given))
    assert not torch.equal(trained.linear.weight, before)


def test_inputs_are_not_changed() -> None:
    triples = TRIPLES.copy()
    triples.setflags(write=False)
    settings = small_settings("compgcn", "steps=20")
    optimise(model_of(settings, triples), triples, settings, validate=Scripted(0.1))
    assert np.array_equal(triples, TRIPLES)


def test_records_say_how_far_training_is_and_what_is_left() -> None:
    settings = small_settings("transe", "steps=40", "log_every=10")
    seen: list[LogRecord] = []
    observer = TrainingObserver(record=seen.append)
    optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1, 0.2), observer=observer)
    assert [record.steps for record in seen] == [40] * 4
    assert seen[0].seconds < seen[0].seconds_left < 30 * seen[0].seconds
    assert seen[-1].seconds_left == 0
    record = LogRecord(200, 0.94844, 0.5472, 5e-4, 53_785.2, 2.4, 1_000, 9.6)
    assert record.describe() == (
        "step 200 of 1,000, loss 0.9484, validation MRR 0.5472, 53,785 examples/s, lr 0.0005, 2 s, about 10 s left"
    )


def test_the_log_says_how_long_training_took(tmp_path) -> None:
    settings = small_settings("transe", "steps=20", "log_every=10")
    seen: list[LogRecord] = []
    observer = TrainingObserver(record=seen.append)
    assert training_seconds(tmp_path) is None
    optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1, 0.2), folder=tmp_path, observer=observer)
    assert training_seconds(tmp_path) == seen[-1].seconds > seen[0].seconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(4.6, "5 s"), (600, "10 min"), (3 * 3600, "3.0 h"), (50_000, "14 h"), (9 * 86_400, "9 days")],
)
def test_durations_have_the_unit_that_suits_them(seconds, expected) -> None:
    assert readable_duration(seconds) == expected


def test_long_training_on_a_cpu_is_announced_once(monkeypatch, caplog) -> None:
    monkeypatch.setattr("relens.training.loop.ESTIMATE_SECONDS", 0.0)
    monkeypatch.setattr("relens.training.loop.LONG_SECONDS", 0.0)
    settings, told = small_settings("complex", "steps=20"), []
    optimise(
        model_of(settings), TRIPLES, settings, validate=Scripted(0.1), observer=TrainingObserver(takes_long=told.append)
    )
    assert len(told) == 1
    with caplog.at_level(logging.WARNING):
        optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1))
    assert re.search(r"training: about \d+ s left at this pace; the preset demo", caplog.text)


def test_validated_and_kept_parameters_are_the_averaged_ones() -> None:
    def parameters(*changes: str) -> tuple[Scripted, torch.Tensor]:
        settings = small_settings("complex", "steps=60", "validate_every=1", *changes)
        trained, validate = model_of(settings), Scripted(*(i / 100 for i in range(60)))
        optimise(trained, TRIPLES, settings, validate=validate)
        return validate, trained.entity

    plain, averaged = parameters(), parameters("averaging=0.9")
    weights = 0.1 * 0.9 ** torch.arange(59, -1, -1)
    expected = torch.einsum("s,sij->ij", weights / weights.sum(), torch.stack(plain[0].seen))
    torch.testing.assert_close(averaged[0].seen[-1], expected, rtol=1e-4, atol=1e-6)
    assert torch.equal(averaged[1], averaged[0].seen[-1])
    assert not torch.allclose(averaged[1], plain[1], rtol=1e-3)


def test_gradients_are_clipped_together() -> None:
    def first_step(*changes: str) -> torch.Tensor:
        settings = small_settings("complex", "steps=1", "validate_every=1", "optimiser=adagrad", *changes)
        trained = model_of(settings)
        optimise(trained, TRIPLES, settings, validate=Scripted(0.1))
        return sum(parameter.grad.square().sum() for parameter in trained.parameters()).sqrt()

    free = float(first_step())
    assert free > 1e-6
    assert float(first_step(f"clip={free / 4}")) == pytest.approx(free / 4, rel=0.02)  # PyTorch adds 1e-6 to the norm
    assert float(first_step(f"clip={free * 4}")) == pytest.approx(free)


def test_a_focus_draws_from_the_relations_of_validation() -> None:
    asked = np.array([2])
    settings = small_settings("complex", "steps=20", "focus=1.0", "regulariser=none", "optimiser=adagrad")
    trained = model_of(settings)
    before = trained.relation.detach().clone()
    optimise(trained, TRIPLES, settings, validate=Validation(Scripted(0.1), asked))
    changed = (trained.relation != before).any(dim=1)
    assert changed.nonzero().squeeze(1).tolist() == [2, 2 + N_RELATIONS]
    with pytest.raises(InputError, match=r"`focus=1.0` needs the relations of the validation split: pass `validate="):
        optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1))


class Full:
    """An objective for which memory suffices up to so many examples, as it fails on a GPU."""

    def __init__(self, objective, most: int) -> None:
        self.objective, self.most, self.taken = objective, most, []

    def __call__(self, examples):
        if len(examples) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.taken.append(len(examples))
        return self.objective(examples)


@pytest.mark.parametrize(("model", "most", "part"), [("complex", 13, 8), ("nbfnet", 31, 16), ("rotate", 15, 8)])
def test_batches_are_taken_in_parts_where_memory_runs_out(model, most, part, monkeypatch, caplog) -> None:
    from relens.training import state

    made, build = [], state.build_objective

    def limited(*arguments):
        objective, relation = build(*arguments)
        made.append(Full(objective, most))
        return made[-1], relation

    monkeypatch.setattr(state, "build_objective", limited)
    settings = small_settings(model, "steps=4", "validate_every=4", "batch=32", "dropout=0")
    with caplog.at_level(logging.WARNING):
        result = optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1))
    assert result.step == 4
    assert made[0].taken == [part] * (4 * 32 // part)
    assert f"Batches of 32 are trained in parts of {part} from here on" in caplog.text


def test_gradients_of_parts_are_those_of_the_batch(monkeypatch) -> None:
    from relens.training import state

    build, found = state.build_objective, []
    for most in (32, 8):
        monkeypatch.setattr(state, "build_objective", lambda *a, most=most: (Full(build(*a)[0], most), build(*a)[1]))
        settings = small_settings("complex", "steps=1", "validate_every=1", "batch=32", "regulariser=none")
        trained = model_of(settings)
        optimise(trained, TRIPLES, settings, validate=Scripted(0.1))
        found.append([parameter.grad for parameter in trained.parameters()])
    torch.testing.assert_close(*found)


def test_on_a_cpu_a_batch_is_split_before_scores_of_all_entities_take_too_much(monkeypatch) -> None:
    from relens.training import state, step

    found, build = [], state.build_objective
    for bytes_of_scores, part in ((2**32, 32), (16 * 8 * N_ENTITIES, 8), (1, 1)):
        made = []

        def counted(*arguments, made=made):
            objective, relation = build(*arguments)
            made.append(Full(objective, 32))
            return made[-1], relation

        monkeypatch.setattr(state, "build_objective", counted)
        monkeypatch.setattr(step, "MOST_SCORES", bytes_of_scores)
        settings = small_settings("complex", "steps=3", "validate_every=3", "batch=32", "regulariser=none")
        trained = model_of(settings)
        optimise(trained, TRIPLES, settings, validate=Scripted(0.1))
        assert made[0].taken == [part] * (3 * 32 // part)
        found.append([parameter.detach() for parameter in trained.parameters()])
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_examples_that_are_scored_together_are_whole_pools() -> None:
    from relens.training.step import BYTES_PER_SCORE, MOST_SCORES, examples_at_once

    many = MOST_SCORES // BYTES_PER_SCORE // 20  # entities: 20 examples fit
    pooled = ("loss=bce_adv", "batch=64", "pool_rows=8")
    assert examples_at_once(small_settings("transe", *pooled), many) == 64
    assert examples_at_once(small_settings("transe", *pooled, "score_all=true"), many) == 16
    assert examples_at_once(small_settings("transe", *pooled, "score_all=true"), 20 * many) == 8
    assert examples_at_once(small_settings("complex", "loss=1vsall", "batch=64"), many) == 20
    assert examples_at_once(small_settings("complex", "loss=1vsall", "batch=16"), many) == 16


def test_too_little_memory_for_one_part_is_an_error(monkeypatch) -> None:
    from relens.training import state

    build = state.build_objective
    monkeypatch.setattr(
        state, "build_objective", lambda *arguments: (Full(build(*arguments)[0], 0), build(*arguments)[1])
    )
    settings = small_settings("rotate", "steps=4", "batch=32")  # pools of 8 rows
    message = r"memory ran out in a training step of rotate with 8 examples at a time, and fewer are not possible"
    with pytest.raises(InputError, match=message):
        optimise(model_of(settings), TRIPLES, settings, validate=Scripted(0.1))


@pytest.mark.parametrize("averaging", [0.0, 0.9])
def test_running_statistics_belong_to_the_validated_parameters(averaging) -> None:
    """Those of training lag behind: moved far from the truth, they are right again at the next validation."""
    settings = small_settings("compgcn", "steps=20", "validate_every=20", "log_every=5", f"averaging={averaging}")
    trained = model_of(settings)
    norms = [module for module in trained.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert norms

    def spoil(record: LogRecord) -> None:
        for norm in norms:
            norm.running_mean.fill_(1e6)

    seen = []

    def validate(model) -> float:
        seen.append([norm.running_mean.clone() for norm in norms])
        assert all(norm.momentum == 0.1 for norm in norms)
        return 0.1

    for observer in (TrainingObserver(record=spoil), TrainingObserver()):
        trained = model_of(settings)
        norms = [module for module in trained.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        optimise(trained, TRIPLES, settings, validate=validate, observer=observer)
    torch.testing.assert_close(*seen)
    assert max(float(mean.abs().max()) for mean in seen[0]) < 100


def log_of(folder, model, settings, **options) -> list[dict]:
    """Train with a log and return its records without their times."""
    optimise(model, TRIPLES, settings, validate=TrainMRR(TRIPLES), folder=folder, **options)
    return [{key: record[key] for key in ("step", "loss", "mrr", "lr")} for record in read_log(folder / LOG)]


@pytest.mark.parametrize(
    ("steps", "others"), [(40, ["schedule=linear"]), (90, ["schedule=linear"]), (30, []), (100, [])]
)
def test_a_changed_length_gives_what_it_gives_from_the_first_step(tmp_path, steps, others) -> None:
    """Rates of ``linear`` with a hold of one half are the same for 60 and 40 steps in the first 20 of them."""
    asked = small_settings("complex", "steps=60", "validate_every=10", "log_every=10", *others)
    final = replace(asked, steps=steps)

    def revise(settings, step, seconds):
        return final if step == 20 else settings

    revised, plain = model_of(asked), model_of(final)
    found = log_of(tmp_path / "a", revised, asked, observer=TrainingObserver(revise=revise))
    assert found[2:] == log_of(tmp_path / "b", plain, final)[2:]
    assert torch.equal(revised.entity, plain.entity)


def test_a_length_that_would_have_had_other_rates_is_refused() -> None:
    asked = small_settings("complex", "steps=60", "schedule=cosine")
    longer = TrainingObserver(revise=lambda settings, step, seconds: replace(asked, steps=61))
    with pytest.raises(AssertionError):
        optimise(model_of(asked), TRIPLES, asked, validate=TrainMRR(TRIPLES), observer=longer)


def test_a_checkpoint_after_a_change_is_of_the_new_length(tmp_path) -> None:
    asked = small_settings("complex", "steps=60", "validate_every=10", "log_every=10")
    final, taken = replace(asked, steps=50), []

    def stop() -> bool:
        taken.append(1)
        return len(taken) == 35

    observer = TrainingObserver(revise=lambda settings, step, seconds: final, stop=stop)
    with pytest.raises(KeyboardInterrupt):
        log_of(tmp_path / "a", model_of(asked), asked, observer=observer)
    begun = newest_settings(tmp_path / "a")
    assert begun == final
    resumed, plain = model_of(asked), model_of(final)
    log_of(tmp_path / "a", resumed, begun)
    log_of(tmp_path / "b", plain, final)
    assert torch.equal(resumed.entity, plain.entity)


def test_an_observer_hears_of_every_step_and_validation() -> None:
    settings, heard = small_settings("complex", "steps=4", "validate_every=2"), []
    observer = TrainingObserver(doing=lambda step, steps, what: heard.append((step, steps, what)))
    optimise(model_of(settings), TRIPLES, settings, validate=TrainMRR(TRIPLES), observer=observer)
    assert heard == [
        (0, 4, "step"), (1, 4, "step"), (2, 4, "validation"), (2, 4, "step"), (3, 4, "step"), (4, 4, "validation")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mrrs", "says"), [([0.1, 0.2, 0.25], True), ([0.1, 0.25, 0.2], False), ([0.2, 0.2019], False), ([0.3], False)]
)
def test_a_model_whose_last_validation_is_clearly_the_best_is_still_rising(mrrs, says) -> None:
    records = [{"mrr": mrr} for value in mrrs for mrr in (None, value)]
    assert bool(rising("a", records)) == says
    if says:
        assert "a was still rising at its last step: validation MRR 0.2500, after 0.2000" in rising("a", records)
