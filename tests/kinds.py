"""Which agents `make test` looks at where a test is made of every agent; `make test-wide` looks at all."""

from privbandit_agents import AGENTS

MECHANISMS = {
    "linucb": "ridge regression with a bonus",
    "regcb": "bounds of regressions",
    "kernel-ucb": "features that become more",
    "neural-linear": "a network that is trained now and then",
    "ldp-greedy": "one direction a report",
    "ldp-sgd": "gradients as reports",
    "input-perturbation": "noisy features",
    "prec-ts": "two arms a report, drawn ahead",
    "phist": "Laplace noise",
    "jdp-glm": "Gaussian noise on the sum of each batch",
    "adap-klucb": "runs that double",
    "newton-mnl": "Gaussian noise on gradients and Hessians",
}
"""Agents that do what the first of their kind does not, and what it is."""

FEW = {"linucb", "ucb1", "ucb-mnl", "jdp-linucb", "reward-dp-linucb", "jdp-glm", "dp-se", "fliphat", "newton-mnl"} | {
    *("ldp-greedy", "ldp-ucb", "ldp-clicks", "phist", "shuffle-linucb")
}
"""Agents of every base class, and of every kind of context and release, where a case takes long."""


def left_out() -> set[str]:
    """Return all agents but the first of each kind, of one notion, one room and one choice of families; and others."""
    first: dict[tuple[object, ...], str] = {}
    for name, entry in AGENTS.items():
        first.setdefault((entry.notion, entry.agent.partition(":")[0].rpartition(".")[0], entry.families), name)
    return AGENTS.keys() - first.values() - MECHANISMS.keys()
