"""Agents in the shuffle model: devices, a trusted shuffler, and a server that sees mixed batches.

Three nouns: a *message* (of a device), the *shuffler* (mixes a batch's messages), a *batch*.
"""

__all__: list[str] = []
