"""What every agent is made of, and what those of one family share."""

__all__: list[str] = []
