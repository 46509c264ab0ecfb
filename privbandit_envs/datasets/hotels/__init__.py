"""Hotel searches: reading them, fitting a choice model, and a small generated sample."""

__all__: list[str] = []
