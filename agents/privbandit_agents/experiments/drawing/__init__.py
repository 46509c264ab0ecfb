"""What figures show."""

__all__: list[str] = []
