"""Locally private agents for arms with many features, of which few matter."""

__all__: list[str] = []
