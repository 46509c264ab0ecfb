"""Costs of releases: conversions between notions, and the ledger that books them."""

__all__: list[str] = []
