"""Agents in the shuffle model: devices, a trusted shuffler, and a server that sees mixed batches."""

__all__: list[str] = []
