"""Locally private agents: the server never sees raw data.

Three nouns: a *device* (one user's, which reports), a *report* (one a user, private by itself), a *sum* (of reports,
which is all that most servers keep).
"""

from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.local.sums import SummedReports

__all__ = ["SummedReports"]

__getattr__, __dir__ = lazily(__name__, {".sums": "SummedReports"})
