"""The zoo: names and how to build the agents behind them."""

import dataclasses
import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from privbandit_agents.base import state
from privbandit_agents.base.agent import Agent
from privbandit_envs.validate import did_you_mean, one_of


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

    def load(self) -> type[Agent]:
        """Import and return the class."""
        module, _, name = self.agent.partition(":")
        loaded: type[Agent] = getattr(importlib.import_module(module), name)
        return loaded


AGENT_STREAM = 7_777_777
"""Keeps an agent's generator, and what is spawned from it, apart from those of a world with the same seed."""
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
        f"{LOCAL}.linear.ldp_linucb:LDPLinUCB",
        "ldp-linucb with the theory's width",
        {"bonus_scale": 1.0},
    ),
    "ldp-sgd": Entry(f"{LOCAL}.linear.ldp_sgd:LDPSGD", "locally private gradient steps (Han et al. 2021)"),
    "input-perturbation": Entry(
        f"{LOCAL}.linear.input_perturbation:InputPerturbation",
        "regression on features and rewards with noise",
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


def register_agent(
    name: str, agent: str, summary: str = "", *, audit: str = "", runs: int | None = None, **defaults: Any
) -> None:
    """Add an agent to the zoo, so that ``make``, the command line and the conformance suite know it.

    Args:
        name: its name.
        agent: ``"module:Class"`` of an Agent.
        summary: one line for ``privbandit list``.
        audit: ``"module:Game"``, the game that ``privbandit audit`` plays; "": the one for agents of this shape.
        runs: how often an audit plays each world; None: as often as the game says.
        **defaults: settings that differ from the class's Config; none may be called ``audit`` or ``runs``.
    """
    AGENTS[name] = Entry(agent, summary, defaults, audit, runs)


def find(name: str) -> Entry:
    """Return the entry of a name; ``"module:name"`` imports the module first, which registers its agents.

    Raises:
        ValueError: unknown name; the message has the nearest known one.
    """
    module, colon, short = name.rpartition(":")
    if colon:
        importlib.import_module(module)
    return AGENTS[one_of(AGENTS, agent=short)]


def make(name: str, env: Any, *, seed: int | None = None, **config: Any) -> Agent:
    """Build an agent for an environment.

    Args:
        name: one of ``AGENTS``, or ``"module:name"`` for an agent that a module of yours registers.
        env: a Gymnasium environment (single or vector); only its spaces and its public data are read.
        seed: of the agent's own randomness.
        **config: settings of the agent's Config; a ``horizon`` among them is by default the environment's.

    Raises:
        ValueError: unknown name, a value out of range, or an environment the agent cannot play.
        TypeError: a setting the agent does not have.
    """
    agent_class = find(name).load()
    spaces = spaces_of(env)
    if "horizon" in field_names(agent_class.Config):
        config.setdefault("horizon", getattr(env.unwrapped, "horizon", None))
    settings = settings_of(name, config)
    if needs := agent_class.plays(*spaces):
        raise ValueError(f"{name} plays {needs}; got contexts of shape {spaces[0].shape} and {spaces[1]} actions.")
    extra = {"public_data": public_data(env)} if agent_class.uses_public_data else {}
    if extra and extra["public_data"] is None:
        raise ValueError(f"{name} learns from public data; the environment has public_data = None.")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(AGENT_STREAM,)))
    agent = agent_class(*spaces, settings, rng, **extra)
    agent.name = name
    return agent


def settings_of(name: str, config: Mapping[str, Any]) -> Any:
    """Return the agent's Config with the given settings, checked."""
    entry = find(name)
    config_class = entry.load().Config
    known = field_names(config_class)
    for key in config:
        if key not in known:
            raise TypeError(
                f"{name} has no setting {key!r}{did_you_mean(key, known)}; it has {', '.join(known) or 'none'}."
            )
    return config_class(**{**entry.defaults, **config})


def field_names(config_class: type[Any]) -> list[str]:
    """Return the names of an agent's settings."""
    return [f.name for f in dataclasses.fields(config_class)]


def can_play(name: str, env: Any) -> bool:
    """Return whether the agent can play the environment."""
    agent_class = find(name).load()
    return not agent_class.plays(*spaces_of(env)) and not (agent_class.uses_public_data and public_data(env) is None)


def spaces_of(env: Any) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Return the spaces of one user."""
    if isinstance(env, gym.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def public_data(env: Any) -> Any:
    """Return the environment's public data, or None."""
    return getattr(env.unwrapped, "public_data", None)


def plays(agent: Agent) -> str:
    """Return what an agent was built for, in words."""
    contexts = agent.observation_space
    return f"{contexts.dtype} contexts of shape {contexts.shape} and actions in {agent.action_space}"


def save(agent: Agent, path: str | Path) -> None:
    """Write an agent between two rounds to one ``.npz`` file, without pickle, whole or not at all.

    The file of a private agent is as secret as its users' records: it holds the state of the noise generators, and of a
    jointly private agent the curator's exact sums. It is made readable by its owner alone.
    """
    arrays, values = agent.state()
    header = {"agent": agent.name, "config": dataclasses.asdict(agent.config), "plays": plays(agent)}
    state.write(path, arrays, {"header": header, "state": values}, secret=agent.guarantee.notion != "none")


def load(path: str | Path, env: Any) -> Agent:
    """Return the agent that ``save`` wrote; it goes on as if it had never stopped, bit for bit.

    Args:
        path: the file.
        env: an environment with the same spaces (and public data).

    Raises:
        ValueError: other spaces, or a state of another version of the agent.
    """
    arrays, values = state.read(path)
    header = values["header"]
    agent = make(header["agent"], env, **header["config"])
    if plays(agent) != header["plays"]:
        raise ValueError(f"{path} was saved for {header['plays']}; the environment has {plays(agent)}.")
    agent.restore(arrays, values["state"])
    agent.restored()
    return agent
