"""The zoo: the name of every agent, and where its class is."""

import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from privbandit_agents.base.agent import AnyAgent


FAMILIES = {
    "linear": "privbandit/Linear-v0",
    "sparse": "privbandit/SparseLinear-v0",
    "assortments": "privbandit/Assortment-v0",
    "labels": "privbandit/Classification-v0",
    "clicks": "privbandit/Clicks-v0",
    "arms": "privbandit/Bandit-v0",
    "smooth": "privbandit/Smooth-v0",
}
"""The families of worlds by the names that entries give them, and the environment of each."""


CHECKS = "checks"
"""In place of a game of an entry: see ``Entry.audit``."""


@dataclass(frozen=True)
class Entry:
    """An agent of the zoo.

    Attributes:
        agent: ``"module:Class"``, imported when first built.
        summary: one line for ``privbandit list``.
        families: of worlds that it plays; none: a list makes the agent to know.
        notion: its promise, as in a ``Guarantee``; "": whoever asks has to import the agent.
        arithmetic: ``"exact"`` or ``"real"``, as in a ``Guarantee``; "" where nothing is promised.
        defaults: settings that differ from the class's Config.
        audit: ``"module:Game"``, the game that ``privbandit audit`` plays; "": the one for agents of this shape;
            ``CHECKS``: none has power, and the conformance suite looks at the same noise.
        runs: how often an audit plays each world; None: the game's own number.
        secure: whether it takes ``noise="secure"``, with which it may be deployed.
        successor: the agent to take in its place; "": it is not retired.
        audited: settings with which it is audited, such as that of batches short enough for a run to see many.
    """

    agent: str
    summary: str
    families: tuple[str, ...] = ()
    notion: str = ""
    arithmetic: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    audit: str = ""
    runs: int | None = None
    secure: bool = False
    successor: str = ""
    audited: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> "type[AnyAgent]":
        loaded: type[AnyAgent] = pkgutil.resolve_name(self.agent)
        return loaded


LINEAR, LABELS, ARMS, SETS = ("linear", "sparse"), ("labels",), ("arms",), ("assortments",)
CONTEXTS = ("linear", "sparse", "labels", "clicks", "smooth")
ONE_ARM = ("linear", "sparse", "labels", "clicks", "arms", "smooth")
ALL = ("linear", "sparse", "assortments", "labels", "clicks", "arms", "smooth")


class Promised(NamedTuple):
    """The part of an entry about its promise: see ``Entry``."""

    notion: str = "none"
    arithmetic: str = ""
    secure: bool = False


def ours(
    agent: str,
    summary: str,
    families: tuple[str, ...],
    promised: Promised | None = None,
    audit: str = "",
    runs: int | None = None,
    successor: str = "",
    audited: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Entry:
    """Return the entry of an agent of this package, within which its class and its game are named."""
    game = audit if audit in ("", CHECKS) else f"privbandit_agents.audits.{audit}"
    home = f"privbandit_agents.{agent}"
    notion, arithmetic, secure = promised or Promised()
    return Entry(home, summary, families, notion, arithmetic, defaults, game, runs, secure, successor, audited or {})


AGENTS: dict[str, Entry] = {
    "auto-local": ours(
        "zoo.auto:AutoLocal",
        "the default agent with local privacy: start here",
        ALL,
        Promised("local", "exact", secure=True),
    ),
    "auto-joint": ours(
        "zoo.auto:AutoJoint",
        "the default agent with joint privacy: start here",
        ALL,
        Promised("joint", "exact", secure=True),
    ),
    "uniform": ours("baselines.uniform:Uniform", "an action at random, always", ALL),
    "greedy": ours("baselines.greedy:EpsilonGreedy", "ridge regression, best estimate", ONE_ARM, exploration=0.0),
    "epsilon-greedy": ours("baselines.greedy:EpsilonGreedy", "greedy, with a random action now and then", ONE_ARM),
    "linucb": ours("baselines.linucb:LinUCB", "optimism in linear bandits (Abbasi-Yadkori et al. 2011)", ONE_ARM),
    "sw-linucb": ours(
        "baselines.linucb:LinUCB", "linucb on a window of the last users (Cheung et al. 2019)", ONE_ARM, window=2000
    ),
    "lints": ours("baselines.lints:LinTS", "linear Thompson sampling (Agrawal and Goyal 2013)", ONE_ARM),
    "squarecb": ours(
        "baselines.oracles.squarecb:SquareCB",
        "inverse gap weighting on ridge regression (Foster and Rakhlin 2020)",
        ONE_ARM,
    ),
    "regcb": ours("baselines.oracles.regcb:RegCB", "bounds of good regressions (Foster et al. 2018)", ONE_ARM),
    "kernel-ucb": ours(
        "baselines.kernel_ucb:KernelUCB", "optimism on a kernel and a dictionary (Valko et al. 2013)", ONE_ARM
    ),
    "neural-linear": ours(
        "baselines.neural_linear:NeuralLinear",
        "Thompson sampling on a network's last layer (Riquelme et al. 2018)",
        ONE_ARM,
    ),
    "ucb1": ours("baselines.ucb1:UCB1", "optimism for arms without a context (Auer et al. 2002)", ARMS),
    "sa-lasso": ours("baselines.lasso:SparsityAgnosticLasso", "lasso bandit (Oh, Iyengar and Zeevi 2021)", LINEAR),
    "ucb-mnl": ours("baselines.optimistic_mnl:UCBMNL", "optimism for MNL assortments (Oh and Iyengar 2021)", SETS),
    "greedy-mnl": ours(
        "baselines.greedy_mnl:GreedyMNL", "best estimate for assortments, refitted as users double", SETS, growth=2.0
    ),
    "ts-mnl": ours(
        "baselines.optimistic_mnl:TSMNL", "Thompson sampling for MNL assortments (Oh and Iyengar 2019)", SETS
    ),
    "tree-public": ours(
        "baselines.tree:TreeClassifier", "decision tree on the public data only", LABELS, learn_from="public"
    ),
    "tree-all": ours("baselines.tree:TreeClassifier", "decision tree on public and all users' data", LABELS),
    "logistic-public": ours("baselines.logistic:LogisticPublic", "logistic regression on the public data only", LABELS),
    "kernel-public": ours("baselines.kernel:KernelPublic", "kernel model on the public data only", LABELS),
    "histogram": ours("baselines.histogram:Histogram", "majority label in the cells of a max-edge partition", LABELS),
    "ldp-linucb": ours(
        "local.linear.ldp_linucb:LDPLinUCB",
        "locally private LinUCB (Zheng et al. 2020)",
        LINEAR,
        Promised("local", "real", secure=True),
    ),
    "ldp-greedy": ours(
        "local.linear.ldp_greedy:LDPGreedy",
        "greedy play on locally private statistics",
        LINEAR,
        Promised("local", "exact", secure=True),
    ),
    "ldp-oful": ours(
        "local.linear.ldp_linucb:LDPLinUCB",
        "ldp-linucb with the theory's width",
        LINEAR,
        Promised("local", "real", secure=True),
        bonus_scale=1.0,
    ),
    "sw-ldp-linucb": ours(
        "local.linear.ldp_linucb:LDPLinUCB",
        "ldp-linucb with a server that forgets old reports",
        LINEAR,
        Promised("local", "real", secure=True),
        window=20_000,
    ),
    "ldp-sgd": ours(
        "local.linear.ldp_sgd:LDPSGD",
        "locally private gradient steps (Han et al. 2021)",
        LINEAR,
        Promised("local", "exact", secure=True),
    ),
    "ldp-glm": ours(
        "local.linear.ldp_glm:LDPGLM",
        "private gradients of a logistic model, rewards 0 and 1 (Han et al. 2021)",
        LINEAR,
        Promised("local", "exact", secure=True),
    ),
    "ldp-mnl": ours(
        "local.assortments.ldp_mnl:LDPMNL",
        "assortments by locally private gradients",
        SETS,
        Promised("local", "exact", secure=True),
    ),
    "input-perturbation": ours(
        "local.linear.input_perturbation:InputPerturbation",
        "regression on features and rewards with noise",
        LINEAR,
        Promised("local", "real"),
    ),
    "prec-ts": ours(
        "local.linear.prec_ts:PRECTS",
        "private comparison of two arms, and plain regression",
        LINEAR,
        Promised("local", "exact", secure=True),
    ),
    "ldp-lasso": ours(
        "local.sparse.ldp_lasso:LDPLasso",
        "sparse bandits by thresholds (after Shukla 2024)",
        LINEAR,
        Promised("local", "exact", secure=True),
    ),
    "ldp-clicks": ours(
        "local.linear.ldp_clicks:LDPClicks",
        "arms that share a context: first users get public arms",
        ("labels", "clicks", "smooth"),
        Promised("local", "exact", secure=True),
    ),
    "smooth-ldp": ours(
        "local.trees.smooth_ldp:SmoothLDP",
        "cells are halved (Ma et al. 2025)",
        ("labels", "smooth"),
        Promised("local", "exact", secure=True),
    ),
    "ldp-ucb": ours(
        "local.arms.ldp_ucb:LDPUCB",
        "optimism on randomized bits (Ren et al. 2020)",
        ARMS,
        Promised("local", "exact", secure=True),
    ),
    "lplr": ours(
        "local.layered.practical:LPLR",
        "layered private regression (Li, Simchi-Levi and Wang 2024)",
        LINEAR,
        Promised("local", "exact"),
        audit="games.local:Layered",
    ),
    "lpct": ours(
        "local.trees.lpct:LPCT",
        "private classification trees on public data (Ma and Yang 2023)",
        LABELS,
        Promised("local", "exact", secure=True),
    ),
    "lpct-prune": ours(
        "local.trees.lpct_prune:LPCTPrune",
        "lpct pruned to the nodes that are clear",
        LABELS,
        Promised("local", "exact", secure=True),
    ),
    "lpct-p": ours(
        "local.trees.lpct:LPCT",
        "lpct in which public rows do not vote",
        LABELS,
        Promised("local", "exact", secure=True),
        trust=0.0,
        exploration=None,
    ),
    "lpct-q": ours("local.trees.lpct_public:LPCTPublic", "lpct on public data only", LABELS),
    "lpct-r": ours(
        "local.trees.lpct:LPCT",
        "lpct on random cuts",
        LABELS,
        Promised("local", "exact", secure=True),
        partition="random",
    ),
    "phist": ours(
        "local.trees.phist:PHIST", "private histogram (Berrett and Butucea 2019)", LABELS, Promised("local", "real")
    ),
    "lpdt": ours(
        "local.trees.lpct:LPCT",
        "private votes in public leaves (after Ma et al. 2023)",
        LABELS,
        Promised("local", "real"),
        runs=50_000,
        report="laplace",
        trust=0.0,
        tau=math.inf,
        exploration=None,
    ),
    "warm-ldp-sgd": ours(
        "local.gradients.warm_ldp_sgd:WarmLDPSGD",
        "logistic regression: public start, private gradients",
        LABELS,
        Promised("local", "real", secure=True),
        audit="games.local:Gradients",
    ),
    "kernel-ldp": ours(
        "local.kernels.kernel_ldp:KernelLDP",
        "kernel model moved by reports",
        LABELS,
        Promised("local", "exact", secure=True),
        audit="games.local:Kernels",
        runs=25_000,
    ),
    "pglm": ours(
        "local.gradients.pglm:PGLM",
        "noisy moments, scaled by public features (Wang et al. 2023)",
        LABELS,
        Promised("local", "real"),
    ),
    "psgd-linear": ours(
        "local.gradients.psgd:PSGDLinear",
        "one private gradient a step, public start (Lowy et al. 2023)",
        LABELS,
        Promised("local", "real"),
        audit="games.local:Gradients",
    ),
    "psgd-network": ours(
        "local.gradients.psgd:PSGDNetwork",
        "psgd-linear with one hidden layer",
        LABELS,
        Promised("local", "real"),
        audit="games.local:Gradients",
    ),
    "shuffle-linucb": ours(
        "shuffle.shuffle_linucb:ShuffleLinUCB",
        "LinUCB by shuffled bits (Chowdhury and Zhou 2022)",
        CONTEXTS,
        Promised("shuffle", "exact", secure=True),
    ),
    "shuffle-glm": ours(
        "shuffle.shuffle_glm:ShuffleGLM",
        "logistic models by shuffled bits (after Sarmasarkar 2026)",
        CONTEXTS,
        Promised("shuffle", "exact", secure=True),
    ),
    "jdp-linucb": ours(
        "joint.linear.jdp_linucb:JDPLinUCB",
        "jointly private LinUCB (Shariff and Sheffet 2018)",
        CONTEXTS,
        Promised("joint", "exact", secure=True),
        audit="games.rewards:RewardGame",
    ),
    "jdp-glm": ours(
        "joint.linear.jdp_glm:JDPGLM",
        "logistic models by noisy Newton steps, jointly private (after Sarmasarkar 2026)",
        CONTEXTS,
        Promised("joint", "exact", secure=True),
        audit="games.joint:FirstRelease",
        runs=12_000,
        audited={"first": 1},  # the noise of a release does not depend on how long the batch was
    ),
    "jdp-smooth": ours(
        "joint.smooth.jdp_smooth:JDPSmooth",
        "regression on a private histogram",
        ("labels", "clicks", "smooth"),
        Promised("joint", "exact", secure=True),
        audit="games.joint:FirstRelease",
        runs=3_000,
    ),
    "jdp-kernel": ours(
        "joint.smooth.jdp_kernel:JDPKernel",
        "kernel model moved by noisy sums",
        ("labels",),
        Promised("joint", "exact", secure=True),
        audit="games.joint:FirstRelease",
        runs=3_000,
    ),
    "sw-jdp-linucb": ours(
        "joint.linear.jdp_linucb:JDPLinUCB",
        "jdp-linucb with a new counter for every window",
        CONTEXTS,
        Promised("joint", "exact", secure=True),
        audit="games.rewards:Windows",
        window=4000,
    ),
    "reward-dp-linucb": ours(
        "joint.linear.reward_dp_linucb:RewardDPLinUCB",
        "LinUCB with private rewards, contexts public (Hanna et al. 2024)",
        CONTEXTS,
        Promised("reward", "exact", secure=True),
        audit="games.rewards:RewardGame",
    ),
    "dp-se": ours(
        "joint.arms.dp_se:DPSE",
        "arms are eliminated by private means (Sajed and Sheffet 2019)",
        ARMS,
        Promised("joint", "exact", secure=True),
        audit="games.joint:FirstRelease",
        runs=6000,
        audited={"width": 0.05},  # epochs of a few users: the noise of a release does not depend on how long one was
    ),
    "adap-klucb": ours(
        "joint.arms.adap_klucb:AdaPKLUCB",
        "optimism on private means of runs that double (Azize and Basu 2022)",
        ARMS,
        Promised("joint", "exact", secure=True),
        audit="games.joint:FirstRelease",
        runs=6000,
    ),
    "dp-dqn": ours(
        "joint.rl.dp_dqn:DPDQN",
        "deep Q-network at discount 0 by private gradients, jointly private",
        CONTEXTS,
        Promised("joint", "exact", secure=True),
        audit="games.rewards:Steps",
    ),
    "fliphat": ours(
        "joint.sparse.fliphat:FLIPHAT",
        "sparse bandits under joint privacy (Chakraborty, Roy and Basu 2024)",
        LINEAR,
        Promised("joint", "real"),
        audit="games.sparse:SparseGame",
        audited={"selection": 0.05},
    ),
    "private-pursuit": ours(
        "joint.sparse.pursuit.agent:PrivatePursuit",
        "sparse bandits by matching pursuit with private selection",
        LINEAR,
        Promised("joint", "exact", secure=True),
        audit=CHECKS,
    ),
    "private-lasso": ours(
        "joint.sparse.private_lasso:PrivateLasso",
        "sparse bandits by hard thresholding in episodes, jointly private (after Shukla 2024)",
        LINEAR,
        Promised("joint", "exact", secure=True),
        audit=CHECKS,
    ),
    "dpmnl": ours(
        "joint.assortments.dpmnl:DPMNL",
        "jointly private MNL assortments (Cho and Sun 2024)",
        SETS,
        Promised("joint", "real"),
        audit="games.assortments:GramGame",
    ),
    "dpmnl-approx": ours(
        "joint.assortments.dpmnl_approx:DPMNLApprox",
        "DPMNL under (epsilon, delta), its paper's benchmark",
        SETS,
        Promised("joint", "real"),
        audit=CHECKS,
    ),
    "newton-mnl": ours(
        "joint.assortments.newton_mnl:NewtonMNL",
        "assortments by noisy Newton steps, jointly private",
        SETS,
        Promised("joint", "exact", secure=True),
        audit="games.derivatives:NewtonGame",
    ),
    "ppo": ours(
        "baselines.rl.learners:PPO",
        "proximal policy optimisation (stable-baselines3)",
        ("linear", "sparse", "assortments", "labels", "clicks", "smooth"),
    ),
    "a2c": ours(
        "baselines.rl.learners:A2C",
        "advantage actor-critic (stable-baselines3)",
        ("linear", "sparse", "assortments", "labels", "clicks", "smooth"),
    ),
    "dqn": ours("baselines.rl.learners:DQN", "deep Q-network (stable-baselines3)", CONTEXTS),
}

SHELVES: dict[str, tuple[str, ...]] = {
    "Agents to take": (
        *(
            "auto-local",
            "prec-ts",
            "ldp-lasso",
            "ldp-clicks",
            "smooth-ldp",
            "ldp-ucb",
            "ldp-mnl",
            "kernel-ldp",
            "lpct",
            "warm-ldp-sgd",
        ),
        *("auto-joint", "jdp-linucb", "jdp-smooth", "jdp-kernel", "adap-klucb", "private-pursuit", "newton-mnl"),
        *(
            "uniform",
            "linucb",
            "lints",
            "greedy",
            "ucb1",
            "sa-lasso",
            "ucb-mnl",
            "greedy-mnl",
            "tree-all",
            "kernel-public",
        ),
    ),
    "Agents of papers": (
        *(
            "squarecb",
            "regcb",
            "kernel-ucb",
            "neural-linear",
            "ts-mnl",
            "ldp-linucb",
            "ldp-sgd",
            "ldp-glm",
            "lplr",
            "phist",
            "pglm",
            "psgd-linear",
        ),
        *(
            "shuffle-linucb",
            "shuffle-glm",
            "jdp-glm",
            "reward-dp-linucb",
            "dp-se",
            "fliphat",
            "private-lasso",
            "dpmnl",
            "dpmnl-approx",
            "ppo",
            "a2c",
            "dqn",
        ),
    ),
    "Further agents, presets and parts": (),
}
"""The tables of ``privbandit list``: the defaults, the agents they build and yardsticks without privacy; then papers.

The last shelf has every agent that is on no other, those of other packages included.
"""


def shelves() -> dict[str, list[str]]:
    """Return the names on each shelf; retired agents are on none."""
    named = {name for names in SHELVES.values() for name in names}
    *first, last = SHELVES
    rest = [name for name, entry in AGENTS.items() if name not in named and not entry.successor]
    return {**{shelf: list(SHELVES[shelf]) for shelf in first}, last: rest}


def preset_of(name: str) -> str:
    """Return the agent that a name is a preset of, an agent of the same class without defaults; "" if none."""
    entry = AGENTS[name]
    alike = (key for key, other in AGENTS.items() if other.agent == entry.agent and not other.defaults)
    return next(alike, "") if entry.defaults else ""
