"""The report page: one file that a browser opens, with everything in it.

Three nouns: a *page*, a *section* (of one experiment), a *glance* (a verdict as a bar).
"""

__all__: list[str] = []
