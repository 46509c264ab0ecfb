"""Locally private classifiers on kernel features of public rows."""

__all__: list[str] = []
