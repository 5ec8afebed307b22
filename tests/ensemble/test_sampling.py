"""Sampling: the paper's TPE and random search, their starts, their seeds, and the sweep beside them."""

import sys
from fractions import Fraction

import numpy as np
import pytest

from relens.ensemble import sampling
from relens.ensemble.grid import WEIGHT_LIMIT, to_grid
from relens.ensemble.inputs import INPUTS
from relens.ensemble.objective import answer_ranks
from relens.ensemble.searchers import SEARCHERS
from relens.ensemble.searchers.tpe import startup_trials
from relens.ensemble.sweep import sweep
from relens.errors import MissingExtraError
from relens.packs.simulation import Simulation
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, Recorder, context_of, group_of, groups_of, random_case

SAMPLERS = ("tpe", "random")


def bowl(point):
    """A smooth function with its one maximum, 1, inside the cube."""
    centre = np.linspace(0.2, 0.8, len(point))
    return 1.0 - float(((point - centre) ** 2).sum())


def maximise(sampler, trials, seed, dimension=4, value=bowl):
    """Return the points tried, their values, the best point and the trace."""
    points, values = [], []

    def record(point):
        points.append(point.copy())
        values.append(value(point))
        return values[-1]

    best, trace = SEARCHERS[sampler].maximise(record, dimension, trials, np.random.default_rng(seed), 0.0)
    return np.array(points), values, best, trace


def sample_groups(packed, members, name, *, sampler, **fields):
    """Search groups with a sampler by name."""
    return SEARCHERS[sampler].search(context_of(packed, name, sampler, **fields), members)


def sample_jointly(packed, group, name, *, sampler, **fields):
    """Search all groups as one vector with a sampler by name."""
    return SEARCHERS[sampler].search_jointly(context_of(packed, name, sampler, group=group, **fields))


def assert_same_search(one, other):
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left.weights, right.weights)
        assert left.value == right.value
        assert np.array_equal(left.trace[:, 1:], right.trace[:, 1:])


# --- one search -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("trials", [1, 2, 25])
def test_the_first_trial_is_equal_weights_and_no_trial_is_lost(sampler, trials):
    points, values, best, trace = maximise(sampler, trials, 3)
    assert points.shape == (trials, 4)
    assert points[0].tolist() == [0.25] * 4
    assert ((points >= 0) & (points <= 1)).all()
    assert len({tuple(point) for point in points}) == trials
    assert np.array_equal(best, points[int(np.argmax(values))])
    assert trace[0, 1:].tolist() == [1.0, values[0]]
    assert trace[-1, 1:].tolist() == [trials, max(values)]
    assert (np.diff(trace, axis=0) >= 0).all()
    for _, evaluations, value in trace:
        assert value == max(values[: int(evaluations)])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_search_follows_from_its_seed(sampler):
    first, again, other = (maximise(sampler, 30, seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first[1:], other[1:])


@pytest.mark.parametrize(("trials", "startup"), [(1, 20), (100, 20), (299, 20), (300, 64), (1000, 64)])
def test_startup_trials_are_the_papers(trials, startup):
    assert startup_trials(trials) == startup


@pytest.mark.parametrize(("trials", "startup"), [(3, 20), (300, 64)])
def test_tpe_runs_in_paper_mode(monkeypatch, trials, startup):
    optuna = pytest.importorskip("optuna")
    seen = {}

    def spy(**settings):
        seen.update(settings)
        raise InterruptedError

    monkeypatch.setattr(optuna.samplers, "TPESampler", spy)
    with pytest.raises(InterruptedError):
        maximise("tpe", trials, 0)
    assert seen.pop("seed") >= 0
    assert seen == {"n_startup_trials": startup, "multivariate": False, "constant_liar": False}


def test_tpe_leaves_optunas_verbosity_as_it_was():
    optuna = pytest.importorskip("optuna")
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        maximise("tpe", 2, 0)
        assert optuna.logging.get_verbosity() == optuna.logging.ERROR
    finally:
        optuna.logging.set_verbosity(before)


def test_tpe_learns():
    """After its random start-up, TPE samples nearer to the optimum than chance does."""
    late = {sampler: [np.mean(maximise(sampler, 80, seed)[1][30:]) for seed in range(3)] for sampler in SAMPLERS}
    assert np.mean(late["tpe"]) > np.mean(late["random"]) + 0.1


def test_tpe_is_as_good_as_hyperopts():
    hyperopt = pytest.importorskip("hyperopt", reason="the oracle of the authors' TPE is not installed")

    def theirs(seed):
        space = [hyperopt.hp.uniform(f"w{i}", 0.0, 1.0) for i in range(4)]
        trials = hyperopt.Trials()
        hyperopt.fmin(
            lambda point: -bowl(np.array(point)), space, algo=hyperopt.tpe.suggest, max_evals=60, trials=trials,
            rstate=np.random.default_rng(seed), show_progressbar=False,
        )  # fmt: skip
        return -min(trials.losses())

    ours = np.mean([max(maximise("tpe", 60, seed)[1]) for seed in range(4)])
    assert ours == pytest.approx(np.mean([theirs(seed) for seed in range(4)]), abs=0.03)
    assert ours > np.mean([max(maximise("random", 60, seed)[1]) for seed in range(4)]) - 0.01


def test_tpe_without_optuna_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"searcher 'tpe' needs .*: pip install -c constraints.txt '.\[tpe\]'"):
        maximise("tpe", 3, 0)


# --- groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", NAMES)
def test_what_a_group_finds_is_worth_its_value_in_the_whole_pack(sampler, name):
    case = random_case(4, n_queries=12, n_candidates=12)
    groups = groups_of(case)
    found = sample_groups(case.packed, groups, name, sampler=sampler, trials=6, seed=0)
    for members, result in zip(groups, found, strict=True):
        exact = oracles.reciprocal_sum(case, members, result.weights.tolist(), name)
        assert result.value == pytest.approx(float(exact), rel=1e-12)
        assert exact >= oracles.reciprocal_sum(case, members, [1, 1, 1], name)
        assert result.weights.max() == WEIGHT_LIMIT
        assert result.trace[-1, 1:].tolist() == [6, result.value]
        assert result.trace[0, 1] == 1


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_groups_are_sampled_alike_by_one_or_two_processes(sampler):
    case = random_case(2, n_queries=10, n_candidates=15)
    groups = groups_of(case)
    progress = Recorder()
    one, two = (
        sample_groups(case.packed, groups, "log", sampler=sampler, trials=25, seed=7, jobs=jobs, progress=progress)
        for jobs in (1, 2)
    )
    assert_same_search(one, two)
    assert [(d, t, sum(done)) for d, t, done in progress.tasks] == [
        (f"{sampler}, 25 trials a group", 25.0 * len(groups), 25.0 * len(groups))
    ] * 2


@pytest.mark.parametrize("name", ["rank", "score"])
def test_ranks_are_copied_for_other_processes_only_and_gaps_where_they_are_looked_at(monkeypatch, name):
    case = random_case(4, n_queries=30, n_candidates=12)
    packed, members = case.packed, groups_of(case)
    task = sampling._Task(packed, np.arange(10, 20), 0, sampling._Settings(name, "random", 3, 0), 0.0)
    sent = sampling._with_its_queries(task)
    assert (sent.packed.n_queries, sent.packed.gaps is None) == (10, name == "rank")
    assert_same_search([sampling._sample_group(task)], [sampling._sample_group(sent)])
    monkeypatch.setattr(type(packed), "select_queries", None)
    assert len(sample_groups(packed, members, name, sampler="random", trials=3, seed=0)) == len(members)


def test_groups_seeds_and_samplers_have_randomness_of_their_own(monkeypatch):
    draws = []

    def propose(self, record, dimension, trials, rng):
        del trials
        draws.append(rng.random())
        record(np.ones(dimension))

    for sampler in SAMPLERS:
        monkeypatch.setattr(type(SEARCHERS[sampler]), "propose", propose)
    case = random_case(2, n_queries=1)
    for _ in range(2):
        for sampler in SAMPLERS:
            for seed in (0, 1):
                sample_groups(case.packed, [np.array([0])] * 2, "rank", sampler=sampler, trials=1, seed=seed)
    assert draws[:8] == draws[8:]
    assert len(set(draws)) == 8


# --- all groups at once ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["rank", "score"])
def test_joint_sampling_is_worth_its_value_and_reproducible(sampler, name):
    case = random_case(4, n_queries=12, n_candidates=12)
    group = group_of(case.packed)
    progress = Recorder()
    table, trace = sample_jointly(case.packed, group, name, sampler=sampler, trials=25, seed=3, progress=progress)
    assert table.shape == (4, 3)
    assert (table.max(axis=1) == WEIGHT_LIMIT).all()
    exact = sum(1 / oracles.realistic_rank(case, q, table[group[q]].tolist(), name) for q in range(12))
    assert trace[-1, 1:].tolist() == [25, pytest.approx(float(exact), rel=1e-12)]
    start = oracles.reciprocal_sum(case, range(12), [1, 1, 1], name)
    assert trace[0, 1:].tolist() == [1, pytest.approx(float(start), rel=1e-12)]
    assert [(d, t, sum(done)) for d, t, done in progress.tasks] == [(f"{sampler}, 25 trials of 4×3 parameters", 25, 25)]
    again, _ = sample_jointly(case.packed, group, name, sampler=sampler, trials=25, seed=3, jobs=3)
    other, _ = sample_jointly(case.packed, group, name, sampler=sampler, trials=25, seed=4)
    assert np.array_equal(table, again)
    assert not np.array_equal(table, other)


def test_proposals_of_zeros_are_worthless_not_fatal(monkeypatch):
    """A sampler may propose the corner of the cube, or zeros for one group of many: nothing can be ranked by them."""

    def propose(self, record, dimension, trials, rng):
        del trials, rng
        record(np.full(dimension, 1.0 / dimension))
        record(np.zeros(dimension))
        half = np.ones(dimension)
        half[:3] = 0.0
        record(half)

    monkeypatch.setattr(type(SEARCHERS["tpe"]), "propose", propose)
    case = random_case(4)
    group = case.packed.queries.direction
    table, trace = sample_jointly(case.packed, group, "rank", sampler="tpe", trials=3, seed=0)
    assert table.tolist() == to_grid(np.ones((2, 3))).tolist()
    assert trace[-1, 1] == 3
    (found,) = sample_groups(case.packed, [case.everything], "rank", sampler="tpe", trials=3, seed=0)
    assert found.weights.tolist() == [WEIGHT_LIMIT] * 3
    assert found.trace[-1, 1] == 3


# --- the sweep beside them ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated():
    return Simulation(("a", "b", "c", "d"), (14, 8, 5, 2), 50, level=(2.0, 1.2), skill=0.8, seed=5).packed("valid")


@pytest.fixture(scope="module")
def group(simulated):
    return group_of(simulated)


@pytest.mark.parametrize("name", ["rank", "score"])
def test_summed_over_groups_the_sweep_is_no_worse_than_sampling(simulated, group, name):
    members = [np.flatnonzero(group == g) for g in np.unique(group)]
    swept = sum(found.value for found in sweep(context_of(simulated, name), members))
    for sampler, trials in (("tpe", 40), ("random", 200)):
        sampled = sample_groups(simulated, members, name, sampler=sampler, trials=trials, seed=1)
        assert swept >= sum(found.value for found in sampled)


@pytest.mark.parametrize("name", NAMES)
def test_the_sum_of_the_groups_optima_is_the_joint_objective(simulated, group, name):
    """Proposition 1: evaluating the combined table gives exactly the sum of what the groups reached."""
    members = [np.flatnonzero(group == g) for g in range(group.max() + 1)]
    found = sweep(context_of(simulated, name), members)
    jointly = answer_ranks(simulated, np.array([result.weights for result in found]), group, input=INPUTS[name])
    reciprocal = [Fraction(2, 2 * (1 + int(a)) + int(t)) for a, t in zip(jointly.ahead, jointly.tied, strict=True)]
    by_group = []
    for index, result in zip(members, found, strict=True):
        alone = answer_ranks(simulated, result.weights, input=INPUTS[name], queries=index)
        assert np.array_equal(alone.realistic, jointly.realistic[index])
        by_group.append(sum(reciprocal[q] for q in index))
        assert result.value == pytest.approx(float(by_group[-1]), rel=1e-13)
    assert sum(by_group) == sum(reciprocal)
    assert sum(result.value for result in found) == pytest.approx(float(sum(reciprocal)), rel=1e-13)
