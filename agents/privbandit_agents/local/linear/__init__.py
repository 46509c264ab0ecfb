"""Locally private agents that add up noisy moments of a linear regression."""

__all__: list[str] = []
