"""Games with agents: the pairs of records that are tried, and the readings that an adversary sees."""

__all__: list[str] = []
