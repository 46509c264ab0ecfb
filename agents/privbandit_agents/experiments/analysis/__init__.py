"""What results show: readings, measures, verdicts and tables.

Three nouns: a *cell* (jobs that differ in the seed alone), a *reading* (one measure of one job), a *verdict* (on a
statement).
"""

__all__: list[str] = []
