"""Files of a job: its result, its events, its lock, and its provenance."""

__all__: list[str] = []
