"""The report page: one file that a browser opens, with everything in it."""

__all__: list[str] = []
