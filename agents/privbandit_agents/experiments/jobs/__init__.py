"""Jobs: trials that play and fits that are scored."""

__all__: list[str] = []
