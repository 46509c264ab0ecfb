"""What results show: one frame, and the queries on it.

Three nouns: the *frame* (a row for each trial and checkpoint), a *cell* (jobs that differ in the seed alone), a *query*
(from a frame or a cell to numbers: readings, measures, ranks, verdicts, a summary).
"""

__all__: list[str] = []
