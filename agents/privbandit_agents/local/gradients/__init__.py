"""Locally private classifiers that descend on noisy gradients."""

__all__: list[str] = []
