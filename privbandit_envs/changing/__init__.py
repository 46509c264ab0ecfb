"""Time: worlds that change, and feedback that comes late."""

__all__: list[str] = []
