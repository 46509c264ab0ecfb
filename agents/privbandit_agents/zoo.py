"""The zoo: the name of every agent, and where its class is."""

import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privbandit_agents.base.agent import AnyAgent


@dataclass(frozen=True)
class Entry:
    """An agent of the zoo.

    Attributes:
        agent: ``"module:Class"``, imported when first built.
        summary: one line for ``privbandit list``.
        defaults: settings that differ from the class's Config.
        audit: ``"module:Game"``, the game that ``privbandit audit`` plays; "": the one for agents of this shape.
        runs: how often an audit plays each world; None: as often as the game says.
    """

    agent: str
    summary: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    audit: str = ""
    runs: int | None = None

    def load(self) -> type[AnyAgent]:
        """Import and return the class."""
        loaded: type[AnyAgent] = pkgutil.resolve_name(self.agent)
        return loaded


BASELINES = "privbandit_agents.baselines"
LOCAL = "privbandit_agents.local"
JOINT = "privbandit_agents.joint"
AUDITS = "privbandit_agents.audits"
LEAVES = f"{AUDITS}.labels:LeafGame"
AGENTS: dict[str, Entry] = {
    "uniform": Entry(f"{BASELINES}.uniform:Uniform", "an action at random, always"),
    "greedy": Entry(f"{BASELINES}.greedy:EpsilonGreedy", "ridge regression, best estimate", {"exploration": 0.0}),
    "epsilon-greedy": Entry(f"{BASELINES}.greedy:EpsilonGreedy", "greedy, with a random action now and then"),
    "linucb": Entry(f"{BASELINES}.linucb:LinUCB", "optimism in linear bandits (Abbasi-Yadkori et al. 2011)"),
    "lints": Entry(f"{BASELINES}.lints:LinTS", "linear Thompson sampling (Agrawal and Goyal 2013)"),
    "sa-lasso": Entry(f"{BASELINES}.lasso:SparsityAgnosticLasso", "lasso bandit (Oh, Iyengar and Zeevi 2021)"),
    "ucb-mnl": Entry(f"{BASELINES}.ucb_mnl:UCBMNL", "optimism for MNL assortments (Oh and Iyengar 2021)"),
    "greedy-mnl": Entry(f"{BASELINES}.greedy_mnl:GreedyMNL", "best estimate for assortments, refitted as users double"),
    "ts-mnl": Entry(f"{BASELINES}.ts_mnl:TSMNL", "Thompson sampling for MNL assortments (Oh and Iyengar 2019)"),
    "tree-public": Entry(
        f"{BASELINES}.tree:TreeClassifier", "decision tree on the public data only", {"learn_from": "public"}
    ),
    "tree-all": Entry(f"{BASELINES}.tree:TreeClassifier", "decision tree on public and all users' data"),
    "logistic-public": Entry(f"{BASELINES}.logistic:LogisticPublic", "logistic regression on the public data only"),
    "histogram": Entry(f"{BASELINES}.histogram:Histogram", "majority label in the cells of a max-edge partition"),
    "ldp-linucb": Entry(f"{LOCAL}.linear.ldp_linucb:LDPLinUCB", "locally private LinUCB (Zheng et al. 2020)"),
    "ldp-greedy": Entry(f"{LOCAL}.linear.ldp_greedy:LDPGreedy", "greedy play on locally private statistics"),
    "ldp-oful": Entry(
        f"{LOCAL}.linear.ldp_linucb:LDPLinUCB", "ldp-linucb with the theory's width", {"bonus_scale": 1.0}
    ),
    "ldp-sgd": Entry(f"{LOCAL}.linear.ldp_sgd:LDPSGD", "locally private gradient steps (Han et al. 2021)"),
    "input-perturbation": Entry(
        f"{LOCAL}.linear.input_perturbation:InputPerturbation", "regression on features and rewards with noise"
    ),
    "prec": Entry(f"{LOCAL}.linear.prec:PREC", "adaptive preconditioning of locally private statistics"),
    "lplr": Entry(
        f"{LOCAL}.layered.lplr:LPLR",
        "layered private regression (Li, Simchi-Levi and Wang 2024)",
        audit=f"{AUDITS}.layered:LayeredGame",
    ),
    "lpct": Entry(
        f"{LOCAL}.trees.lpct:LPCT", "private classification trees on public data (Ma and Yang 2023)", audit=LEAVES
    ),
    "lpct-prune": Entry(f"{LOCAL}.trees.lpct_prune:LPCTPrune", "lpct pruned to the nodes that are clear", audit=LEAVES),
    "lpct-p": Entry(f"{LOCAL}.trees.lpct:LPCT", "lpct in which public rows do not vote", {"trust": 0.0}, audit=LEAVES),
    "lpct-q": Entry(f"{LOCAL}.trees.lpct_public:LPCTPublic", "lpct on public data only"),
    "lpct-r": Entry(f"{LOCAL}.trees.lpct:LPCT", "lpct on random cuts", {"partition": "random"}, audit=LEAVES),
    "phist": Entry(f"{LOCAL}.trees.phist:PHIST", "private histogram (Berrett and Butucea 2019)", audit=LEAVES),
    "lpdt": Entry(
        f"{LOCAL}.trees.lpct:LPCT",
        "private votes in public leaves (after Ma et al. 2023)",
        {"report": "laplace", "trust": 0.0, "tau": math.inf},
        audit=LEAVES,
    ),
    "warm-ldp-sgd": Entry(
        f"{LOCAL}.gradients.warm_ldp_sgd:WarmLDPSGD",
        "logistic regression: public start, private gradients",
        audit=f"{AUDITS}.labels:GradientGame",
    ),
    "pglm": Entry(
        f"{LOCAL}.gradients.pglm:PGLM",
        "noisy moments, scaled by public features (Wang et al. 2023)",
        audit=f"{AUDITS}.labels:MomentGame",
    ),
    "psgd-linear": Entry(
        f"{LOCAL}.gradients.psgd:PSGDLinear",
        "one private gradient a step, public start (Lowy et al. 2023)",
        audit=f"{AUDITS}.labels:GradientGame",
    ),
    "psgd-network": Entry(
        f"{LOCAL}.gradients.psgd:PSGDNetwork",
        "psgd-linear with one hidden layer",
        audit=f"{AUDITS}.labels:GradientGame",
    ),
    "jdp-linucb": Entry(
        f"{JOINT}.linear.jdp_linucb:JDPLinUCB",
        "jointly private LinUCB (Shariff and Sheffet 2018)",
        audit=f"{AUDITS}.linear:ProbeGame",
        runs=1000,
    ),
    "fliphat": Entry(
        f"{JOINT}.sparse.fliphat:FLIPHAT",
        "sparse bandits under joint privacy (Chakraborty, Roy and Basu 2024)",
        audit=f"{AUDITS}.sparse:EpisodeGame",
        runs=2000,
    ),
    "clipped-iht": Entry(
        f"{JOINT}.sparse.clipped_iht:ClippedIHT",
        "sparse bandits by clipped contributions, jointly private",
        audit=f"{AUDITS}.sparse:ClippedGame",
        runs=4000,
    ),
    "dpmnl": Entry(
        f"{JOINT}.assortments.dpmnl:DPMNL",
        "jointly private MNL assortments (Cho and Sun 2024)",
        audit=f"{AUDITS}.assortments:GramGame",
    ),
    "dpmnl-approx": Entry(
        f"{JOINT}.assortments.dpmnl_approx:DPMNLApprox",
        "DPMNL under (epsilon, delta), its paper's benchmark",
        audit=f"{AUDITS}.assortments:GramGame",
    ),
    "newton-mnl": Entry(
        f"{JOINT}.assortments.newton_mnl:NewtonMNL",
        "assortments by noisy Newton steps, jointly private",
        audit=f"{AUDITS}.assortments:NewtonGame",
    ),
    "ppo": Entry(f"{BASELINES}.rl.learners:PPO", "proximal policy optimisation (stable-baselines3)"),
    "a2c": Entry(f"{BASELINES}.rl.learners:A2C", "advantage actor-critic (stable-baselines3)"),
    "dqn": Entry(f"{BASELINES}.rl.learners:DQN", "deep Q-network (stable-baselines3)"),
}
