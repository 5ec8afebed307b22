"""The calibration against its score equations, brute force, and data whose probabilities are known."""

import numpy as np
import pytest

from relens.prediction.calibration import FOLDS, PRIOR, RIDGE, SPREAD, Judged, Regression, Steps, cross_fitted


def drawn(seed, n=4000, n_groups=8, slope=1.5):
    """Draw candidates of a logistic model with an intercept per group; the second feature means nothing."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    features = rng.standard_normal((n, 2))
    probability = 1 / (1 + np.exp(-(slope * features[:, 0] - 2 + (group - n_groups / 2) / 4)))
    return Judged(features, group, rng.integers(0, FOLDS, n), np.ones(n), rng.random(n) < probability), probability


def test_the_regression_has_the_greatest_penalised_likelihood():
    judged, _ = drawn(0, n=300, n_groups=3)
    found = Regression.fit(judged, 3)
    standard = (np.clip(judged.features, found.low, found.high) - found.mean) / found.scale
    used = found.coefficients > 0
    common = found.intercepts.mean()  # the own parts of the intercepts add up to 0 where the penalty is least

    def likelihood(coefficients, intercepts):
        total = 0.0
        for row, group, true in zip(standard, judged.group, judged.true, strict=True):
            odds = sum(c * x for c, x in zip(coefficients, row, strict=True)) + intercepts[group]
            total -= np.log1p(np.exp(-odds if true else odds))
        own = intercepts - np.mean(intercepts)
        return total - RIDGE / 2 * np.sum(coefficients**2) - np.sum(own**2) / (2 * SPREAD**2)

    best = likelihood(found.coefficients, found.intercepts)
    for step in (-0.02, 0.02):
        for i in np.flatnonzero(used):
            moved = found.coefficients.copy()
            moved[i] += step
            assert likelihood(moved, found.intercepts) < best
        for g in range(3):
            moved = found.intercepts.copy()
            moved[g] += step
            assert likelihood(found.coefficients, moved) < best
    assert abs(common) < 10


def test_no_coefficient_is_negative():
    judged, _ = drawn(1, slope=-2.0)
    found = Regression.fit(judged, 8)
    assert found.coefficients[0] == 0
    assert (found.coefficients >= 0).all()


def test_a_group_is_drawn_to_all_groups():
    judged, _ = drawn(2, n=2000, n_groups=4)
    few = judged._replace(group=np.where(np.arange(2000) < 3, 3, judged.group % 3), true=judged.true.copy())
    few.true[:3] = True
    found = Regression.fit(few, 5)
    assert found.intercepts[4] == pytest.approx(found.intercepts.mean(), abs=0.6)  # nothing is known about it
    assert found.intercepts[:3].max() < found.intercepts[3] < found.intercepts[:3].max() + 3


def steps_by_loop(log_odds, true, weight):
    """Join neighbours of falling share until there are none; return the start and the raw share of each block."""
    order = sorted(range(len(log_odds)), key=lambda i: log_odds[i])
    blocks = []
    for i in order:
        if blocks and log_odds[blocks[-1][-1]] == log_odds[i]:
            blocks[-1].append(i)
        else:
            blocks.append([i])

    def share(block):
        return sum(weight[i] * true[i] for i in block) / sum(weight[i] for i in block)

    joined = True
    while joined:
        joined = False
        for at in range(len(blocks) - 1):
            if share(blocks[at]) >= share(blocks[at + 1]):
                blocks[at : at + 2] = [blocks[at] + blocks[at + 1]]
                joined = True
                break
    values = []
    for block in blocks:
        total = sum(weight[i] for i in block)
        prior = PRIOR * total / len(block)
        expected = sum(weight[i] / (1 + np.exp(-log_odds[i])) for i in block) / total
        value = (share(block) * total + prior * expected) / (total + prior)
        values.append(max([value, *values[-1:]]))
    return [min(log_odds[i] for i in block) for block in blocks], values


@pytest.mark.parametrize("seed", range(10))
def test_steps_are_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    log_odds = rng.integers(-4, 5, 40) / 2
    true = rng.random(40) < 1 / (1 + np.exp(-log_odds))
    weight = rng.integers(1, 4, 40).astype(np.float64)
    found = Steps.fit(log_odds, true, weight)
    bounds, values = steps_by_loop(log_odds.tolist(), true.tolist(), weight.tolist())
    np.testing.assert_allclose(found.bounds, bounds)
    np.testing.assert_allclose(found.values, values)
    assert np.all(np.diff(found.values) >= 0)
    assert found.at(np.array([-100.0]))[0] == found.values[0]
    assert found.at(np.array([found.bounds[-1], 100.0])).tolist() == [found.values[-1]] * 2


def test_it_holds_on_new_candidates():
    judged, _ = drawn(3, n=20_000)
    regression, log_odds = cross_fitted(judged, 8)
    steps = Steps.fit(log_odds, judged.true, judged.weight)
    new, probability = drawn(4, n=20_000)
    stated = steps.at(regression.log_odds(new.features, new.group))
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 1)):
        chosen = (stated >= low) & (stated < high)
        assert chosen.sum() > 500
        assert stated[chosen].mean() == pytest.approx(probability[chosen].mean(), abs=0.03)


def test_each_fold_is_judged_by_a_regression_without_it():
    judged, _ = drawn(5, n=1000)
    whole, log_odds = cross_fitted(judged, 8)
    inside = judged.fold == 2
    turned = judged._replace(true=np.where(inside, ~judged.true, judged.true))  # its own labels do not matter to it
    without = Regression.fit(turned.part(~inside), 8, whole)
    np.testing.assert_allclose(log_odds[inside], without.log_odds(judged.features[inside], judged.group[inside]))
