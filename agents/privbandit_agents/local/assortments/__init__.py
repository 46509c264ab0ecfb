"""Locally private assortments."""

__all__: list[str] = []
