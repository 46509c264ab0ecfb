"""Bounds on regret and error as functions of the horizon, to draw over a figure.

Three nouns: a *statement* (what holds, for which agents, in which worlds), its *notion* of privacy, its *constant* (a
number, or 1 where the source hides it: then scale the curve through a point).

`arms`, `linear` and `smooth` have lower bounds that every agent of a notion meets; `sparse`, `labels`, `layered` and
`assortments` those of the papers. A curve belongs in figures of the worlds that its statement is about, and in no
other.
"""

from privbandit_agents.bounds.arms import arms_lower_bound, arms_worst_case
from privbandit_agents.bounds.linear import linear_lower_bound
from privbandit_agents.bounds.smooth import smooth_worst_case

__all__ = ["arms_lower_bound", "arms_worst_case", "linear_lower_bound", "smooth_worst_case"]
