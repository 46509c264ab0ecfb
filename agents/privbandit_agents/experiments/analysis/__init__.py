"""What results show: readings, measures, verdicts and tables."""
