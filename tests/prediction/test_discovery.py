"""Discovery: equal to loops over all pairs, resumable, bounded, and clear about requests that make no sense."""

import math
import re

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import relens
from relens.data.queries import Queries
from relens.data.restriction import Restriction
from relens.ensemble.inputs import INPUTS
from relens.errors import DamagedError, InputError
from relens.files import open_npy
from relens.prediction import Ensemble
from relens.prediction import discovery as discovery_module
from relens.prediction import relation_search as search_module
from relens.prediction.calibration import Regression, Steps
from relens.prediction.confidence import Calibrated, Confidence
from relens.prediction.discovery import Discovery, Wanted, _write, discard_parts
from relens.prediction.evidence import FEATURES, Candidates
from relens.prediction.likely import likely
from relens.prediction.questions import QueryIds
from relens.prediction.relation_search import RelationSearch
from tests.oracles import doubled_ranks
from tests.prediction.test_candidate_ranking import gap_by_loop


class Query:
    """One query, with everything that a loop needs: a score list per model with a weight."""

    def __init__(self, ensemble, anchor, relation, direction):
        self.ensemble, self.anchor, self.relation, self.direction = ensemble, anchor, relation, direction
        self.group = int(ensemble.voting.groups[relation, direction])
        weights = ensemble.weights
        used = np.flatnonzero(weights.table[self.group])
        columns = [[anchor], [relation], [direction], [0], [0]]
        queries = Queries.from_columns(np.array(columns))
        scores = np.stack([ensemble.models.scores(weights.models[model], queries)[0] for model in used])
        triples = np.concatenate(list(ensemble.dataset.splits.values())).tolist()
        ends = ((h, t) if direction == 0 else (t, h) for h, r, t in triples if r == relation)
        self.known = {answer for given, answer in ends if given == anchor}
        scales = None if weights.gap_scales is None else weights.gap_scales[used]
        self.case = scores, self.known, weights.table[self.group, used], weights.input, scales
        self.loops = any(h == t and r == relation for h, r, t in ensemble.dataset.train.tolist())
        self.costs = self._costs()

    def _costs(self):
        scores, known, weights, name, scales = self.case
        if name == "score":
            sums = (-(weights / scales) @ scores.astype(np.float64)).tolist()
            return {e: sums[e] for e in range(len(sums)) if e not in known}
        table = INPUTS[name].cost_table(scores.shape[1]).tolist()
        total = dict.fromkeys((e for e in range(scores.shape[1]) if e not in known), 0)
        for row, weight in zip(scores.tolist(), weights.tolist(), strict=True):
            for entity, rank in doubled_ranks(row, -1, known).items():
                total[entity] += weight * table[rank]
        return total

    def listed(self, allowed, depth):
        """Return the best answers that are considered."""
        rest = [e for e in allowed if e in self.costs and (self.loops or e != self.anchor)]
        return set(sorted(rest, key=lambda e: (self.costs[e], e))[:depth])

    def values(self, entity):
        """Return rank, confidence and margin of an answer."""
        if self.case[3] == "score":
            leads = {e: gap_by_loop(self.case, e, entity) for e in self.costs if e != entity}
        else:
            leads = {e: self.costs[entity] - self.costs[e] for e in self.costs if e != entity}
        rank = 1 + sum((lead > 0) + (lead == 0) / 2 for lead in leads.values())
        return rank, self.confidence(entity), self.margin(entity)

    def confidence(self, entity):
        """Return the probability of an answer as predictions state it, or None; other tests check it against loops."""
        scores, _, weights, *_ = self.case
        everyone = range(scores.shape[1])
        possible = np.array([e in self.costs and (self.loops or e != self.anchor) for e in everyone])
        cost = np.array([self.costs.get(e, math.inf) for e in everyone])
        compared = self.ensemble.voting.compared(QueryIds(self.anchor, self.relation, self.direction))
        asked = Candidates(scores, weights, cost, possible, compared)
        (share,) = self.ensemble.confidence.probability(self.group, asked, np.array([entity])).tolist()
        return None if math.isnan(share) else share

    def margin(self, entity):
        scores, known, weights, *_ = self.case
        total = 0.0
        for row, weight in zip(scores.tolist(), weights.tolist(), strict=True):
            rest = sorted(row[e] for e in range(len(row)) if e not in known)
            lower, middle, upper = (rest[part * (len(rest) - 1) // 4] for part in (1, 2, 3))
            total += weight * ((row[entity] - middle) / (upper - lower) if upper > lower else 0.0)
        return total / weights.sum()


def all_facts(ensemble, relations, allowed, depth, anchors=None):
    """Look at all pairs of some relations, and return the new facts in order: (relation, head, tail) and values."""
    found = []
    for relation in relations:
        tails, heads = allowed(relation, 0), allowed(relation, 1)
        ends = range(len(ensemble.dataset.entities)) if anchors is None else anchors
        by_head = {h: Query(ensemble, h, relation, 0) for h in heads}
        by_tail = {t: Query(ensemble, t, relation, 1) for t in tails}
        lists = {h: query.listed(tails, depth) for h, query in by_head.items() if h in ends}
        reverse = {t: query.listed(heads, depth) for t, query in by_tail.items() if t in ends}
        for h in heads:
            for t in tails:
                if t in lists.get(h, ()) or h in reverse.get(t, ()):
                    (rank, share, margin), (other, share_2, margin_2) = by_head[h].values(t), by_tail[t].values(h)
                    confidence = None if share is None or share_2 is None else math.sqrt(share * share_2)
                    found.append((relation, h, t, confidence, (margin + margin_2) / 2, rank, other))
    found.sort(key=lambda row: (row[3] is None, -(row[3] or 0.0), -row[4], row[:3]))
    return found


def assert_equal(facts, expected, ensemble):
    """Compare facts with rows of loops: exactly but for the last bits of the two real numbers."""
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    rows = [
        (relations.index(f.relation), entities.index(f.head), entities.index(f.tail), f.tail_rank, f.head_rank)
        for f in facts
    ]
    assert rows == [(*row[:3], row[5], row[6]) for row in expected]
    for fact, row in zip(facts, expected, strict=True):
        assert fact.confidence == (None if row[3] is None else pytest.approx(row[3], rel=1e-12))
        assert fact.margin == pytest.approx(row[4], rel=1e-12)


@pytest.fixture(scope="module")
def ensembles(town):
    """Open the run with each input. The town says little about confidence: drawn calibrations take its place."""
    found = {name: Ensemble.open(town, name, "cpu") for name in ("rank", "log", "score")}
    for ensemble in found.values():
        ensemble.voting.confidence = drawn_confidence(ensemble.weights)
    return found


def drawn_confidence(weights):
    """Return a calibration that is made up; two groups have too few questions of a kind."""
    rng, n_groups, n = np.random.default_rng(5), len(weights.grouping), len(FEATURES)
    parts = []
    for scarce in (3, 1):
        steps = Steps(np.sort(rng.normal(size=40)), np.sort(rng.random(40)))
        slopes, intercepts = rng.random(n), rng.normal(size=n_groups)
        regression = Regression(np.full(n, -4.0), np.full(n, 4.0), np.zeros(n), np.ones(n), slopes, intercepts)
        parts.append(Calibrated(regression, steps, np.where(np.arange(n_groups) == scarce, 4, 9), 0.001))
    usual = np.stack([rng.normal(size=n_groups), 1 + rng.random(n_groups)], axis=1)
    return Confidence(weights, 1 + rng.random(len(weights.models)), usual, (parts[0], parts[1]), {})


@pytest.mark.parametrize(("name", "relation"), [("rank", "lives_in"), ("log", "located_in")])
def test_without_pruning_the_facts_are_those_of_loops_over_all_pairs(ensembles, name, relation):
    ensemble = ensembles[name]
    n, number = len(ensemble.dataset.entities), ensemble.dataset.relations.id_of(relation)
    facts = list(ensemble.discover(relations=[relation], top=n * n, candidates="all", depth=n))
    expected = all_facts(ensemble, [number], lambda *_: list(range(n)), n)
    assert_equal(facts, expected, ensemble)
    loops = {(h, t) for h, r, t in ensemble.dataset.train.tolist() if r == number and h == t}
    known = {(h, t) for part in ensemble.dataset.splits.values() for h, r, t in part.tolist() if r == number}
    assert len(facts) == n * n - len(known) - n * (not loops)


@pytest.mark.parametrize("candidates", ["likely", "observed"])
@pytest.mark.parametrize("name", ["rank", "score"])
def test_pruned_discoveries_are_those_of_loops_over_what_is_left(ensembles, name, candidates):
    ensemble = ensembles[name]
    dataset = ensemble.dataset
    restriction = likely(dataset) if candidates == "likely" else Restriction.observed(dataset)
    relations = [dataset.relations.id_of(label) for label in ("lives_in", "located_in")]
    expected = all_facts(ensemble, relations, lambda r, d: restriction.allowed(r, d).tolist(), 3)
    facts = list(ensemble.discover(relations=["lives_in", "located_in"], top=10**6, candidates=candidates, depth=3))
    assert_equal(facts, expected, ensemble)
    assert 10 < len(facts) < 400
    some = [row for row in expected if row[3] is not None]
    limit = some[len(some) // 2][3]
    sure = list(
        ensemble.discover(relations=["lives_in", "located_in"], confidence=limit - 1e-9, candidates=candidates, depth=3)
    )
    assert_equal(sure, [row for row in some if row[3] > limit - 1e-9], ensemble)


def test_close_scores_are_decided_as_loops_decide_them(ensembles):
    ensemble = ensembles["score"]
    n, number = len(ensemble.dataset.entities), ensemble.dataset.relations.id_of("lives_in")
    ids = [ensemble.dataset.entities.id_of(label) for label in ("person_3", "city_2")]
    asked = {"relations": ["lives_in"], "entities": ["person_3", "city_2"], "top": n * n}
    facts = list(ensemble.discover(**asked, candidates="all", depth=n))
    assert_equal(facts, all_facts(ensemble, [number], lambda *_: list(range(n)), n, ids), ensemble)


def test_the_facts_of_an_entity_are_the_best_answers_to_its_own_queries(ensembles):
    ensemble = ensembles["rank"]
    dataset = ensemble.dataset
    person, oslo = "person_3", dataset.entities.id_of("city_0")
    ids = [dataset.entities.id_of(person), oslo]
    restriction = likely(dataset)
    expected = all_facts(
        ensemble, range(len(dataset.relations)), lambda r, d: restriction.allowed(r, d).tolist(), 4, ids
    )
    facts = list(ensemble.discover(entities=[person, "oslo"], top=10**6, depth=4))
    assert_equal(facts, expected, ensemble)
    assert {ends for fact in facts for ends in (fact.head, fact.tail)} > {person, "city_0"}
    assert all(person in (fact.head, fact.tail) or "city_0" in (fact.head, fact.tail) for fact in facts)
    assert {fact.head_name for fact in facts if fact.head == "city_0"} <= {"Oslo"}


def test_the_best_of_all_and_of_each_relation(ensembles):
    ensemble = ensembles["log"]
    everything = list(ensemble.discover(top=10**6, depth=3))
    assert list(ensemble.discover(top=7, depth=3)) == everything[:7]
    each = list(ensemble.discover(top=2, each=True, depth=3))
    labels = ensemble.dataset.relations.labels
    assert each == [f for label in labels for f in [g for g in everything if g.relation == label][:2]]
    assert len(list(ensemble.discover(depth=3))) == min(100, len(everything))


def test_ranks_are_those_of_predictions(ensembles):
    for ensemble in ensembles.values():
        for fact in ensemble.discover(relations=["lives_in"], top=5):
            assert fact.tail_rank == ensemble.rank_of(fact.tail, head=fact.head, relation=fact.relation)
            assert fact.head_rank == ensemble.rank_of(fact.head, tail=fact.tail, relation=fact.relation)


def test_batches_and_budgets_change_nothing(ensembles, monkeypatch):
    expected = list(ensembles["score"].discover(top=50, depth=3))
    monkeypatch.setattr(discovery_module, "READ", 7)
    monkeypatch.setattr(search_module, "MEMORY", 1)  # one query at a time
    assert list(ensembles["score"].discover(top=50, depth=3)) == expected
    monkeypatch.setattr(search_module, "PAIRS", 1)
    assert list(ensembles["score"].discover(top=50, depth=3)) == list(ensembles["score"].discover(top=50, depth=1))


class StoppedError(Exception):
    pass


class Impatient:
    """A display that interrupts the work after some units, and keeps notes."""

    def __init__(self, patience):
        self.patience, self.notes = patience, []

    def task(self, description, total):
        from contextlib import contextmanager

        @contextmanager
        def shown():
            yield self.advance

        return shown()

    def advance(self, amount):
        self.patience -= amount
        if self.patience <= 0:
            raise StoppedError

    def note(self, message):
        self.notes.append(message)


def test_an_interrupted_discovery_resumes_with_the_same_call(ensembles, tmp_path, monkeypatch):
    ensemble, parts = ensembles["rank"], tmp_path / "found.tsv.parts"
    expected = list(ensemble.discover(top=20, depth=3))
    of_first = sum(len(side.anchors) for side in Discovery(ensemble, Wanted()).sides(0))
    with pytest.raises(StoppedError):
        list(ensemble.discover(top=20, depth=3, parts=parts, progress=Impatient(of_first + 1)))
    assert [file.name.partition("-")[0] for file in parts.glob("*.npy")] == ["000000"]
    searched = []
    original = RelationSearch.both_sides

    def counted(self, tail_side, head_side):
        searched.append(tail_side.relation)
        return original(self, tail_side, head_side)

    monkeypatch.setattr(RelationSearch, "both_sides", counted)
    display = Impatient(np.inf)
    assert list(ensemble.discover(top=20, depth=3, parts=parts, progress=display)) == expected
    assert searched == [1, 2], "the first relation is not searched again"
    assert display.notes == [f"{parts}: resuming, 1 of 3 relations are done"]
    assert open_npy(part_of(parts, 2)).shape[0] <= 20, "a part holds no more than is asked for"
    with pytest.raises(InputError, match=re.escape(f"{parts} holds parts of another discovery: depth 3 there, 4 here")):
        ensemble.discover(top=20, depth=4, parts=parts)
    with pytest.raises(InputError, match=r"holds parts of another discovery: weights .* there, .* here.*`force=True`"):
        ensembles["log"].discover(top=20, depth=3, parts=parts)
    part_of(parts, 1).unlink()
    _write(parts, 1, np.zeros((2, 2)))
    with pytest.raises(DamagedError, match=r"000001-\w+\.npy has the shape \(2, 2\) of float64, expected \(facts, 7\)"):
        list(ensemble.discover(top=20, depth=3, parts=parts))
    for wrong in (-1, len(ensemble.dataset.entities), np.nan):
        part_of(parts, 1).unlink()
        _write(parts, 1, np.array([[0, -0.5, -1, wrong, 0, 1, 1.0]]))
        with pytest.raises(DamagedError, match=r"000001-\w+\.npy does not hold facts of the graph\. Remove"):
            list(ensemble.discover(top=20, depth=3, parts=parts))
    discard_parts(parts)
    discard_parts(parts)
    assert not parts.exists()


@pytest.mark.parametrize("place", ["first", "header", "middle", "last"])
def test_a_flipped_bit_of_a_part_is_no_fact(place, ensembles, tmp_path):
    ensemble, parts = ensembles["rank"], tmp_path / "parts"
    next(ensemble.discover(top=20, depth=3, parts=parts))
    part = part_of(parts, 1)
    content = bytearray(part.read_bytes())
    content[{"first": 0, "header": 20, "middle": len(content) // 2, "last": -1}[place]] ^= 4
    part.write_bytes(content)
    with pytest.raises(DamagedError, match=rf"{part.name} is damaged: its checksum is .*Remove the folder to begin"):
        list(ensemble.discover(top=20, depth=3, parts=parts))


def part_of(folder, relation):
    (part,) = folder.glob(f"{relation:06d}-*.npy")
    return part


def test_folders_of_others_are_left_alone(ensembles, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("dear")
    for place in ("mine", "file"):
        with pytest.raises(InputError, match=f"{place} holds no parts of a discovery, and would be their folder"):
            ensembles["rank"].discover(parts=tmp_path / place)
        with pytest.raises(InputError, match=f"{place} holds no parts of a discovery, and is not removed"):
            discard_parts(tmp_path / place)
    assert (tmp_path / "mine" / "letter.txt").read_text() == (tmp_path / "file").read_text() == "dear"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"top": 0}, "`top=0` asks for no facts: expected at least 1"),
        ({"confidence": 1.5}, "`confidence=1.5` is no share: expected more than 0, and 1 at most"),
        ({"depth": 0}, "`depth=0` considers no answers"),
        ({"relations": "lives_in"}, "`relations='lives_in'` is one text: expected a list of names"),
        ({"relations": ["lifes_in"]}, "unknown relation 'lifes_in'; did you mean 'lives_in'"),
        ({"entities": ["person_999"]}, "unknown entity 'person_999'"),
        ({"candidates": "lucky"}, "or one of the words likely and all"),
        ({"candidates": "types"}, "expected the file types.tsv"),
        ({"relations": ["works_at"], "entities": ["city_1"], "candidates": "observed"},
         "`candidates=observed` leaves nobody: none of the given entities can be a head or tail of 'works_at'"),
        ({"candidates": []}, "leaves nobody: it names no entity"),
    ],
)  # fmt: skip
def test_requests_that_make_no_sense_are_refused_at_once(ensembles, asked, message):
    with pytest.raises(InputError, match=re.escape(message)):
        ensembles["rank"].discover(**asked)


def test_scores_that_are_no_numbers_are_refused(ensembles, monkeypatch):
    ensemble = ensembles["rank"]
    original = ensemble.models.scores_on_device
    monkeypatch.setattr(ensemble.models, "scores_on_device", lambda *asked: original(*asked) * float("nan"))
    with pytest.raises(relens.RelensError, match="gives scores that are no finite numbers"):
        list(ensemble.discover(top=3))


def test_given_facts_are_refused(town):
    ensemble = Ensemble.open(town, "rank", "cpu", facts=[("person_1", "works_at", "firm_new")])
    with pytest.raises(InputError, match="reads the graph of training alone: open the ensemble without `facts=…`"):
        ensemble.discover()


def test_the_function_opens_the_run(town):
    expected = list(Ensemble.open(town, "rank", "cpu").discover(top=3))
    assert list(relens.discover(town, weights="rank", top=3)) == expected
