"""The content of an experiment file."""

__all__: list[str] = []
