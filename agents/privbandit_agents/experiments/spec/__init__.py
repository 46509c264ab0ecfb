"""What an experiment file says."""

__all__: list[str] = []
