"""The zoo: the name of every agent, and where its class is."""

import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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


def ours(
    agent: str,
    summary: str,
    kind: str,
    audit: str = "",
    runs: int | None = None,
    successor: str = "",
    audited: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Entry:
    """Return the entry of an agent of this package, within which its class and its game are named.

    ``kind`` lists the families and the promise: ``"linear sparse: local, exact, secure"``.
    """
    game = audit if audit in ("", CHECKS) else f"privbandit_agents.audits.{audit}"
    families, _, promise = kind.partition(": ")
    notion, arithmetic, secure = (*promise.split(", "), "", "")[:3]
    home = f"privbandit_agents.{agent}"
    promised = notion, arithmetic, defaults, game, runs, bool(secure)
    return Entry(home, summary, tuple(families.split()), *promised, successor, audited or {})


AGENTS: dict[str, Entry] = {
    "auto-local": ours(
        "zoo.auto:AutoLocal",
        "the default agent with local privacy: start here",
        "linear sparse assortments labels clicks arms smooth: local, exact, secure",
    ),
    "auto-joint": ours(
        "zoo.auto:AutoJoint",
        "the default agent with joint privacy: start here",
        "linear sparse assortments labels clicks arms smooth: joint, exact, secure",
    ),
    "uniform": ours(
        "baselines.uniform:Uniform",
        "an action at random, always",
        "linear sparse assortments labels clicks arms smooth: none",
    ),
    "greedy": ours(
        "baselines.greedy:EpsilonGreedy",
        "ridge regression, best estimate",
        "linear sparse labels clicks arms smooth: none",
        exploration=0.0,
    ),
    "epsilon-greedy": ours(
        "baselines.greedy:EpsilonGreedy",
        "greedy, with a random action now and then",
        "linear sparse labels clicks arms smooth: none",
    ),
    "linucb": ours(
        "baselines.linucb:LinUCB",
        "optimism in linear bandits (Abbasi-Yadkori et al. 2011)",
        "linear sparse labels clicks arms smooth: none",
    ),
    "sw-linucb": ours(
        "baselines.linucb:LinUCB",
        "linucb on a window of the last users (Cheung et al. 2019)",
        "linear sparse labels clicks arms smooth: none",
        window=2000,
    ),
    "lints": ours(
        "baselines.lints:LinTS",
        "linear Thompson sampling (Agrawal and Goyal 2013)",
        "linear sparse labels clicks arms smooth: none",
    ),
    "squarecb": ours(
        "baselines.oracles.squarecb:SquareCB",
        "inverse gap weighting on ridge regression (Foster and Rakhlin 2020)",
        "linear sparse labels clicks arms smooth: none",
    ),
    "regcb": ours(
        "baselines.oracles.regcb:RegCB",
        "bounds of good regressions (Foster et al. 2018)",
        "linear sparse labels clicks arms smooth: none",
    ),
    "ucb1": ours("baselines.ucb1:UCB1", "optimism for arms without a context (Auer et al. 2002)", "arms: none"),
    "sa-lasso": ours(
        "baselines.lasso:SparsityAgnosticLasso", "lasso bandit (Oh, Iyengar and Zeevi 2021)", "linear sparse: none"
    ),
    "ucb-mnl": ours(
        "baselines.optimistic_mnl:UCBMNL", "optimism for MNL assortments (Oh and Iyengar 2021)", "assortments: none"
    ),
    "greedy-mnl": ours(
        "baselines.greedy_mnl:GreedyMNL",
        "best estimate for assortments, refitted as users double",
        "assortments: none",
        growth=2.0,
    ),
    "ts-mnl": ours(
        "baselines.optimistic_mnl:TSMNL",
        "Thompson sampling for MNL assortments (Oh and Iyengar 2019)",
        "assortments: none",
    ),
    "tree-public": ours(
        "baselines.tree:TreeClassifier", "decision tree on the public data only", "labels: none", learn_from="public"
    ),
    "tree-all": ours("baselines.tree:TreeClassifier", "decision tree on public and all users' data", "labels: none"),
    "logistic-public": ours(
        "baselines.logistic:LogisticPublic", "logistic regression on the public data only", "labels: none"
    ),
    "kernel-public": ours("baselines.kernel:KernelPublic", "kernel model on the public data only", "labels: none"),
    "histogram": ours(
        "baselines.histogram:Histogram", "majority label in the cells of a max-edge partition", "labels: none"
    ),
    "ldp-linucb": ours(
        "local.linear.ldp_linucb:LDPLinUCB",
        "locally private LinUCB (Zheng et al. 2020)",
        "linear sparse: local, real, secure",
    ),
    "ldp-greedy": ours(
        "local.linear.ldp_greedy:LDPGreedy",
        "greedy play on locally private statistics",
        "linear sparse: local, exact, secure",
    ),
    "ldp-oful": ours(
        "local.linear.ldp_linucb:LDPLinUCB",
        "ldp-linucb with the theory's width",
        "linear sparse: local, real, secure",
        bonus_scale=1.0,
    ),
    "sw-ldp-linucb": ours(
        "local.linear.ldp_linucb:LDPLinUCB",
        "ldp-linucb with a server that forgets old reports",
        "linear sparse: local, real, secure",
        window=20_000,
    ),
    "ldp-sgd": ours(
        "local.linear.ldp_sgd:LDPSGD",
        "locally private gradient steps (Han et al. 2021)",
        "linear sparse: local, exact, secure",
    ),
    "ldp-glm": ours(
        "local.linear.ldp_glm:LDPGLM",
        "private gradients of a logistic model, rewards 0 and 1 (Han et al. 2021)",
        "linear sparse: local, exact, secure",
    ),
    "ldp-mnl": ours(
        "local.assortments.ldp_mnl:LDPMNL",
        "assortments by locally private gradients",
        "assortments: local, exact, secure",
    ),
    "input-perturbation": ours(
        "local.linear.input_perturbation:InputPerturbation",
        "regression on features and rewards with noise",
        "linear sparse: local, real",
    ),
    "prec": ours(
        "local.linear.prec:PREC",
        "adaptive preconditioning of locally private statistics",
        "linear sparse: local, exact, secure",
        successor="prec-ts",
    ),
    "prec-ts": ours(
        "local.linear.prec_ts:PRECTS",
        "private comparison of two arms, and plain regression",
        "linear sparse: local, exact, secure",
    ),
    "ldp-lasso": ours(
        "local.sparse.ldp_lasso:LDPLasso",
        "sparse bandits by thresholds, then reports on the support (after Shukla 2024)",
        "linear sparse: local, exact, secure",
    ),
    "ldp-clicks": ours(
        "local.linear.ldp_clicks:LDPClicks",
        "arms that share a context: a first share of users get public arms",
        "labels clicks smooth: local, exact, secure",
    ),
    "smooth-ldp": ours(
        "local.trees.smooth_ldp:SmoothLDP",
        "smooth rewards: cells are halved, arms eliminated, auxiliary data (Ma et al. 2025)",
        "labels smooth: local, exact, secure",
    ),
    "ldp-ucb": ours(
        "local.arms.ldp_ucb:LDPUCB",
        "optimism on randomized bits (Ren et al. 2020)",
        "arms: local, exact, secure",
    ),
    "lplr": ours(
        "local.layered.lplr:LPLR",
        "layered private regression (Li, Simchi-Levi and Wang 2024)",
        "linear sparse: local, exact",
        "games.local:Layered",
    ),
    "lpct": ours(
        "local.trees.lpct:LPCT",
        "private classification trees on public data (Ma and Yang 2023)",
        "labels: local, exact, secure",
    ),
    "lpct-prune": ours(
        "local.trees.lpct_prune:LPCTPrune", "lpct pruned to the nodes that are clear", "labels: local, exact, secure"
    ),
    "lpct-p": ours(
        "local.trees.lpct:LPCT",
        "lpct in which public rows do not vote",
        "labels: local, exact, secure",
        trust=0.0,
        exploration=None,
    ),
    "lpct-q": ours("local.trees.lpct_public:LPCTPublic", "lpct on public data only", "labels: none"),
    "lpct-r": ours("local.trees.lpct:LPCT", "lpct on random cuts", "labels: local, exact, secure", partition="random"),
    "phist": ours("local.trees.phist:PHIST", "private histogram (Berrett and Butucea 2019)", "labels: local, real"),
    "lpdt": ours(
        "local.trees.lpct:LPCT",
        "private votes in public leaves (after Ma et al. 2023)",
        "labels: local, real",
        runs=50_000,
        report="laplace",
        trust=0.0,
        tau=math.inf,
        exploration=None,
    ),
    "warm-ldp-sgd": ours(
        "local.gradients.warm_ldp_sgd:WarmLDPSGD",
        "logistic regression: public start, private gradients",
        "labels: local, real, secure",
        "games.local:Gradients",
    ),
    "kernel-ldp": ours(
        "local.kernels.kernel_ldp:KernelLDP",
        "kernel model of the public rows, moved by private reports",
        "labels: local, exact, secure",
        "games.local:Kernels",
        runs=25_000,
    ),
    "pglm": ours(
        "local.gradients.pglm:PGLM",
        "noisy moments, scaled by public features (Wang et al. 2023)",
        "labels: local, real",
    ),
    "psgd-linear": ours(
        "local.gradients.psgd:PSGDLinear",
        "one private gradient a step, public start (Lowy et al. 2023)",
        "labels: local, real",
        "games.local:Gradients",
    ),
    "psgd-network": ours(
        "local.gradients.psgd:PSGDNetwork",
        "psgd-linear with one hidden layer",
        "labels: local, real",
        "games.local:Gradients",
    ),
    "shuffle-linucb": ours(
        "shuffle.shuffle_linucb:ShuffleLinUCB",
        "LinUCB by shuffled bits (Chowdhury and Zhou 2022)",
        "linear sparse labels clicks smooth: shuffle, real, secure",
    ),
    "shuffle-glm": ours(
        "shuffle.shuffle_glm:ShuffleGLM",
        "logistic models by shuffled bits (after Sarmasarkar 2026)",
        "linear sparse labels clicks smooth: shuffle, real, secure",
    ),
    "jdp-linucb": ours(
        "joint.linear.jdp_linucb:JDPLinUCB",
        "jointly private LinUCB (Shariff and Sheffet 2018)",
        "linear sparse labels clicks smooth: joint, exact, secure",
        "games.rewards:RewardGame",
    ),
    "jdp-glm": ours(
        "joint.linear.jdp_glm:JDPGLM",
        "logistic models by noisy Newton steps, jointly private (after Sarmasarkar 2026)",
        "linear sparse labels clicks smooth: joint, exact, secure",
        "games.joint:FirstRelease",
        runs=8000,
        audited={"first": 1},  # the noise of a release does not depend on how long the batch was
    ),
    "sw-jdp-linucb": ours(
        "joint.linear.jdp_linucb:JDPLinUCB",
        "jdp-linucb with a new counter for every window",
        "linear sparse labels clicks smooth: joint, exact, secure",
        "games.rewards:Windows",
        window=4000,
    ),
    "reward-dp-linucb": ours(
        "joint.linear.reward_dp_linucb:RewardDPLinUCB",
        "LinUCB with private rewards, contexts public (Hanna et al. 2024)",
        "linear sparse labels clicks smooth: reward, exact, secure",
        "games.rewards:RewardGame",
    ),
    "dp-se": ours(
        "joint.arms.dp_se:DPSE",
        "arms are eliminated by private means (Sajed and Sheffet 2019)",
        "arms: joint, exact, secure",
        "games.joint:FirstRelease",
        runs=6000,
        audited={"width": 0.05},  # epochs of a few users: the noise of a release does not depend on how long one was
    ),
    "adap-klucb": ours(
        "joint.arms.adap_klucb:AdaPKLUCB",
        "optimism on private means of runs that double (Azize and Basu 2022)",
        "arms: joint, exact, secure",
        "games.joint:FirstRelease",
        runs=6000,
    ),
    "dp-dqn": ours(
        "joint.rl.dp_dqn:DPDQN",
        "deep Q-network at discount 0 by private gradients, jointly private",
        "linear sparse labels clicks smooth: joint, exact, secure",
        "games.rewards:Steps",
    ),
    "fliphat": ours(
        "joint.sparse.fliphat:FLIPHAT",
        "sparse bandits under joint privacy (Chakraborty, Roy and Basu 2024)",
        "linear sparse: joint, real",
        "games.sparse:SparseGame",
        audited={"selection": 0.05},
    ),
    "clipped-iht": ours(
        "joint.sparse.clipped_iht:ClippedIHT",
        "sparse bandits by clipped contributions, jointly private",
        "linear sparse: joint, exact, secure",
        CHECKS,
        successor="private-pursuit",
    ),
    "private-pursuit": ours(
        "joint.sparse.pursuit.agent:PrivatePursuit",
        "sparse bandits by matching pursuit with private selection",
        "linear sparse: joint, exact, secure",
        CHECKS,
    ),
    "private-lasso": ours(
        "joint.sparse.private_lasso:PrivateLasso",
        "sparse bandits by hard thresholding in episodes, jointly private (after Shukla 2024)",
        "linear sparse: joint, exact, secure",
        CHECKS,
    ),
    "dpmnl": ours(
        "joint.assortments.dpmnl:DPMNL",
        "jointly private MNL assortments (Cho and Sun 2024)",
        "assortments: joint, real",
        "games.assortments:GramGame",
    ),
    "dpmnl-approx": ours(
        "joint.assortments.dpmnl_approx:DPMNLApprox",
        "DPMNL under (epsilon, delta), its paper's benchmark",
        "assortments: joint, real",
        CHECKS,
    ),
    "newton-mnl": ours(
        "joint.assortments.newton_mnl:NewtonMNL",
        "assortments by noisy Newton steps, jointly private",
        "assortments: joint, exact, secure",
        "games.derivatives:NewtonGame",
    ),
    "ppo": ours(
        "baselines.rl.learners:PPO",
        "proximal policy optimisation (stable-baselines3)",
        "linear sparse assortments labels clicks smooth: none",
    ),
    "a2c": ours(
        "baselines.rl.learners:A2C",
        "advantage actor-critic (stable-baselines3)",
        "linear sparse assortments labels clicks smooth: none",
    ),
    "dqn": ours(
        "baselines.rl.learners:DQN",
        "deep Q-network (stable-baselines3)",
        "linear sparse labels clicks smooth: none",
    ),
}

SHELVES: dict[str, tuple[str, ...]] = {
    "Agents to take": (
        *(
            "auto-local",
            "prec-ts",
            "ldp-lasso",
            "ldp-clicks",
            "ldp-ucb",
            "ldp-mnl",
            "kernel-ldp",
            "lpct",
            "warm-ldp-sgd",
        ),
        *("auto-joint", "jdp-linucb", "adap-klucb", "private-pursuit", "newton-mnl"),
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
            "smooth-ldp",
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
