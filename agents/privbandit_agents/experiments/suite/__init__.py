"""The suite: tasks with a version, a score between agents, and a sheet that tells it.

Three nouns: a *task* (one world, one horizon and one question), a *score* (of a run in a task), a *board* (the agents
of one family that make one promise).
"""

from typing import TYPE_CHECKING

from privbandit_agents.faces import lazily

if TYPE_CHECKING:
    from privbandit_agents.experiments.suite.records import references
    from privbandit_agents.experiments.suite.tasks import load_suite

__all__ = ["load_suite", "references"]

__getattr__, __dir__ = lazily(__name__, {".tasks": "load_suite", ".records": "references"})
