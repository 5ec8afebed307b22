"""Campaigns: attacks on relens that must all be survived; see docs/reliability.md.

Each module has a function ``campaign(amount, seed, folder)``. ``amount`` is the share of the full campaign: 1 for
``make campaign``, much less for tests. It returns a ``Tally`` for each kind of attack by name.
"""
