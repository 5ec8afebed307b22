"""Packs: packed ranks, their kernels, stores, reduced files, simulations, and packing of models."""
