"""Mechanisms of a trusted curator: noise on sums, selections, running sums and minimisers."""

__all__: list[str] = []
