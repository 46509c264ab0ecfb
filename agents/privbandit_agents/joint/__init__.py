"""Jointly private agents: a trusted curator, whose releases are private."""

__all__: list[str] = []
