"""What is kept of a job: its result, its events, its lock, and where it comes from."""

__all__: list[str] = []
