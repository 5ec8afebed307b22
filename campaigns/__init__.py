"""Campaigns: attacks on relens that must all be survived; see docs/reliability.md."""
