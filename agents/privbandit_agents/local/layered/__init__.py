"""LPLR: layered regression from locally private reports, and its confidence oracles."""
