"""What results show: readings, measures, verdicts and tables."""

__all__: list[str] = []
