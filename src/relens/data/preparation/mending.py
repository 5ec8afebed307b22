"""Remove leaks, as FB15k-237 was made from FB15k: redundant relations, and held-out triples that train gives away."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from relens.data.leakage import find_rules, given_away, redundant_relations
from relens.data.preparation.facts import Facts, Graph
from relens.data.preparation.splitting import known_rows
from relens.data.queries import EVALUATED
from relens.errors import DatasetError, counted


def drop_redundant(graph: Graph, notes: list[str]) -> Graph:
    """Keep one of each set of inverse or near-duplicate relations: the one with most facts."""
    every = np.concatenate([part.triples for part in graph.parts.values()])
    rules = find_rules(every, len(graph.relations))
    size = np.bincount(every[:, 1], minlength=len(graph.relations))
    dropped = redundant_relations(rules, size, graph.relations)
    if not dropped:
        return graph
    names = ", ".join(repr(graph.relations[relation]) for relation in dropped)
    notes.append(
        f"dropped {counted(len(dropped), 'relation')} with {counted(int(size[dropped].sum()), 'triple')}, the inverse "
        f"or a near-duplicate of another one: {names}"
    )
    return graph.with_parts({split: part[~np.isin(part.triples[:, 1], dropped)] for split, part in graph.parts.items()})


def drop_given_away(graph: Graph, notes: list[str], *, mirrored: bool, linked: bool, unseen: bool) -> Graph:
    """Remove triples of valid and test that an earlier split gives away.

    Args:
        graph: facts by split.
        notes: receives what was removed.
        mirrored: remove triples that train or, for test, valid has, and those whose counterpart or mirror image train
            has.
        linked: remove all triples whose two entities train links, too, as FB15k-237 does.
        unseen: keep triples with an entity or a relation that train lacks.
    """
    rules = find_rules(np.concatenate([part.triples for part in graph.parts.values()]), len(graph.relations))
    parts = dict(graph.parts)
    train = parts["train"].triples
    for split in [split for split in EVALUATED if split in parts]:
        given = given_away(parts[split].triples, train, rules)
        reasons = {}
        if mirrored:
            reasons["that train has"] = given.repeated
        if mirrored and split == "test" and "valid" in graph.parts:
            valid = given_away(parts[split].triples, graph.parts["valid"].triples, rules)
            reasons["that valid has"] = valid.repeated
        if mirrored:
            reasons["whose inverse, duplicate or mirror image train has"] = given.by_pairs | given.symmetric
        if linked:
            reasons["whose two entities train links"] = given.linked
        if not unseen:
            reasons["with an entity or a relation that train lacks"] = ~known_rows(parts[split].triples, train)
        parts[split] = _without(parts[split], reasons, split, notes)
    return graph.with_parts(parts)


def _without(part: Facts, reasons: Mapping[str, npt.NDArray[np.bool_]], split: str, notes: list[str]) -> Facts:
    """Return the facts to which no reason applies; count each one under its first reason."""
    left = np.ones(len(part), dtype=bool)
    for reason, applies in reasons.items():
        if n := int((left & applies).sum()):
            notes.append(f"removed {n:,} of the {counted(len(part), f'{split} triple')} {reason}")
        left &= ~applies
    if len(part) and not left.any():
        raise DatasetError(
            f"without leaks, {split} has no triple left ({'; '.join(notes[-len(reasons) :])}). Hold out other triples, "
            f"or leave out `drop_leaks=True`."
        )
    return part[left]
