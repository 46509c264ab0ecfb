"""LPLR: layered regression from locally private reports, as published and in practice."""

__all__: list[str] = []
