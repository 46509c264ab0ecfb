"""Where jobs run: the cores of this machine, or a cluster.

Three nouns: an *engine* (hands out jobs), a *worker* (runs them), an *attempt* (one run of a job).
"""

__all__: list[str] = []
