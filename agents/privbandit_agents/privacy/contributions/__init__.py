"""What one user may contribute: records clipped, packed, and how sensitive a sum of them is."""

__all__: list[str] = []
