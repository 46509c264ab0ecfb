"""LPLR: layered regression from locally private reports, and its confidence oracles."""

__all__: list[str] = []
