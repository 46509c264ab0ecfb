"""What is seen of an agent, as numbers.

Three nouns: a *look* (release, publications and actions after some users), a *transcript* (all looks of a run), a
*statistic* (a number by which two worlds differ).
"""

__all__: list[str] = []
