"""LinUCB beside that of other libraries, and beside numpy by hand, on the same users in one run.

``pip install 'privbandit[peers]'`` installs the others; what is missing is left out, with the reason. All have alpha
0.3 and ridge 1. ``privbandit`` draws its users itself; everybody else gets contexts and rewards for free. Times are CPU
times of one thread that take turns; regret is that of all users, and every row of a world has the same ones.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from harness import Options, Row, main
from privbandit_agents import make, play
from privbandit_agents.playing.ahead import served_in_order
from scipy.linalg.blas import dger

from privbandit_envs import BanditEnv
from privbandit_envs.families.classification import ClassificationProblem
from privbandit_envs.families.gaussians import directions
from privbandit_envs.problem import ArmProblem

ALPHA, TURNS, OURS = 0.3, 5, "privbandit"


class Users(NamedTuple):
    """Contexts (T, K, d), or (T, d) that arms share, and rewards and means of every arm (T, K)."""

    contexts: Any
    rewards: Any
    means: Any


class Shared(ArmProblem):
    """One context of norm 1 for all arms, and a hidden vector of norm 0.8 for each; rewards have Gaussian noise."""

    def __init__(self, rng: Any, *, n_arms: int = 10, dim: int = 20) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (dim,), np.float32)
        self.action_space = gym.spaces.Discrete(n_arms)
        self.theta = 0.8 * directions(rng, (n_arms, dim), np.dtype(np.float64))

    def contexts(self, n: int, rng: Any) -> Any:
        return directions(rng, (n, self.theta.shape[1]), np.dtype(np.float32))

    def means(self, contexts: Any) -> Any:
        return contexts.astype(np.float64) @ self.theta.T


WORLDS: dict[str, tuple[Callable[[int], Any], int]] = {
    "arms with features, 10 x 20": (lambda T: gym.make("privbandit/Linear-v0", horizon=T).unwrapped, 4000),
    "arms with features, 3 x 400": (lambda T: gym.make("privbandit/SparseLinear-v0", horizon=T).unwrapped, 1500),
    "one context, K 10, d 20": (lambda T: BanditEnv(Shared, horizon=T), 4000),
    "one context, K 3, d 400": (lambda T: BanditEnv(Shared, horizon=T, n_arms=3, dim=400), 800),
    "digits": (lambda T: gym.make("privbandit/Classification-v0", source="digits", horizon=T).unwrapped, 3000),
}
"""How to make a world for T users, and T."""


def table(env: Any, horizon: int) -> Users:
    """Return the users whom ``play(env, agent, seed=1)`` serves."""
    env.reset(seed=1)
    parts = []
    while env.rounds_left:
        contexts, rewards = env.drawn()
        sure = isinstance(env.problem, ClassificationProblem)
        means = rewards if sure else env.problem.means(contexts)
        parts.append((contexts.astype(np.float64), rewards, means))
        env.serve(np.zeros(len(contexts), int))
    return Users(*(np.concatenate(part)[:horizon] for part in zip(*parts, strict=True)))


def plain(users: Users) -> Any:
    """LinUCB as it is written down: theta = A^-1 b for every user, A^-1 by Sherman and Morrison."""
    shared, arms = users.contexts.ndim == 2, users.rewards.shape[1]
    groups, dim = arms if shared else 1, users.contexts.shape[-1]
    inverses, b, actions = np.array([np.eye(dim)] * groups), np.zeros((groups, dim)), []
    for context, rewards in zip(users.contexts, users.rewards, strict=True):
        x = np.tile(context, (arms, 1)) if shared else context
        theta = np.einsum("gij,gj->gi", inverses, b)
        directed = np.einsum("aij,aj->ai", inverses, x) if shared else x @ inverses[0]
        bounds = (x * theta).sum(axis=1) + ALPHA * np.sqrt((directed * x).sum(axis=1))
        arm = int(bounds.argmax())
        group, u = (arm if shared else 0), directed[arm]
        inverses[group] -= np.outer(u, u) / (1 + u @ x[arm])
        b[group] += rewards[arm] * x[arm]
        actions.append(arm)
    return np.array(actions)


def tight(users: Users) -> Any:
    """LinUCB with theta and A^-1 changed in place, for arms that have features or share a context."""
    shared, arms = users.contexts.ndim == 2, users.rewards.shape[1]
    groups, dim = arms if shared else 1, users.contexts.shape[-1]
    inverses, theta, actions = np.array([np.eye(dim)] * groups), np.zeros((groups, dim)), []
    columns = [inverse.T for inverse in inverses]
    for x, rewards in zip(users.contexts, users.rewards, strict=True):
        if shared:
            directed = inverses @ x
            squares, means = directed @ x, theta @ x
        else:
            directed = x @ inverses[0]
            squares, means = np.vecdot(directed, x), x @ theta[0]
        arm = int((means + ALPHA * np.sqrt(squares)).argmax())
        group, u, gain = (arm if shared else 0), directed[arm], 1 / (1 + squares[arm])
        theta[group] += u * ((rewards[arm] - means[arm]) * gain)
        dger(-gain, u, u, a=columns[group], overwrite_a=1)
        actions.append(arm)
    return np.array(actions)


def own(env: Any, users: Users) -> Any:
    """Serve by this package's LinUCB, as ``play`` does, who gets contexts and rewards for free like all others."""
    agent: Any = make("linucb", env, seed=1, alpha=ALPHA)
    contexts, answer, serve = agent.contexts_of(users.contexts), users.rewards.item, served_in_order(agent)
    assert serve is not None
    parts = [
        serve(agent, contexts[first : first + 512], lambda user, arm, first=first: answer(first + user, arm))  # type: ignore[misc]
        for first in range(0, len(contexts), 512)
    ]
    return np.concatenate(parts)  # type: ignore[arg-type]  # linucb serves all


def with_coba(users: Users) -> Any:
    """Serve by ``coba``'s LinUCB, whose one regression needs features of arms."""
    learners = import_module("coba.learners")
    if users.contexts.ndim == 2:
        raise ImportError("its LinUCB has one regression for all arms")
    learner, actions = learners.LinUCBLearner(alpha=ALPHA, features=["a"]), []
    for context, rewards in zip(users.contexts, users.rewards, strict=True):
        arms = [tuple(row) for row in context.tolist()]
        action, chance = learner.predict(None, arms)[:2]
        arm = arms.index(action)
        learner.learn(None, action, float(rewards[arm]), chance)
        actions.append(arm)
    return np.array(actions)


def with_vowpalwabbit(users: Users) -> Any:
    """Serve by ``vowpalwabbit``'s SquareCB (gamma_scale 1000, learning rate 0.5): it has no LinUCB."""
    pyvw = import_module("vowpalwabbit.pyvw")
    shared, arms, rng = users.contexts.ndim == 2, users.rewards.shape[1], np.random.default_rng(0)
    flags = "--cb_explore_adf --squarecb --gamma_scale 1000 -l 0.5 --quiet --random_seed 1"
    learner, actions = pyvw.Workspace(flags + (" -q sa" if shared else "")), []
    names = [f"f{i}" for i in range(users.contexts.shape[-1])]
    for context, rewards in zip(users.contexts.tolist(), users.rewards, strict=True):

        def words(x: list[float]) -> str:
            return " ".join(f"{name}:{value:.6g}" for name, value in zip(names, x, strict=True))

        lines = [f"|a arm{arm}" for arm in range(arms)] if shared else [f"|a {words(x)}" for x in context]
        head = [f"shared |s {words(context)}"] if shared else []
        chances = np.array(learner.predict("\n".join(head + lines)))
        arm = int(rng.choice(arms, p=chances / chances.sum()))
        lines[arm] = f"0:{-rewards[arm]}:{chances[arm]} {lines[arm]}"
        learner.learn("\n".join(head + lines))
        actions.append(arm)
    return np.array(actions)


def with_contextualbandits(users: Users) -> Any:
    """Serve by ``contextualbandits``' LinUCB, a regression with an intercept for each arm."""
    online = import_module("contextualbandits.online")
    actions: list[int] = []
    if users.contexts.ndim == 3:
        raise ImportError("its arms share a context")
    learner = online.LinUCB(nchoices=users.rewards.shape[1], alpha=ALPHA, random_state=1)
    for x, rewards in zip(users.contexts[:, None], users.rewards, strict=True):
        arm = int(learner.predict(x)[0]) if actions else 0
        learner.partial_fit(x, np.array([arm]), rewards[[arm]])
        actions.append(arm)
    return np.array(actions)


def with_mabwiser(users: Users) -> Any:
    """Serve by ``mabwiser``'s LinUCB, a regression for each arm."""
    mab = import_module("mabwiser.mab")
    actions: list[int] = []
    if users.contexts.ndim == 3:
        raise ImportError("its arms share a context")
    learner = mab.MAB(list(range(users.rewards.shape[1])), mab.LearningPolicy.LinUCB(alpha=ALPHA, l2_lambda=1.0))
    for x, rewards in zip(users.contexts[:, None], users.rewards, strict=True):
        arm = int(learner.predict(x)) if actions else 0
        (learner.partial_fit if actions else learner.fit)([arm], [rewards[arm]], x)
        actions.append(arm)
    return np.array(actions)


QUICK = {"numpy by hand, tight": tight, "numpy by hand, plain": plain}
SLOW = {
    "coba": with_coba,
    "vowpalwabbit, SquareCB": with_vowpalwabbit,
    "contextualbandits": with_contextualbandits,
    "mabwiser": with_mabwiser,
}


Turn = Callable[[], tuple[float, float]]
"""Serves the users of a world; returns CPU seconds and regret."""


def by_table(serve: Callable[[Users], Any], users: Users) -> tuple[float, float]:
    """Serve users by their table."""
    started = time.process_time()
    actions = serve(users)
    seconds = time.process_time() - started
    return seconds, float((users.means.max(axis=1) - users.means[np.arange(len(actions)), actions]).sum())


def by_play(env: Any, horizon: int) -> tuple[float, float]:
    """Serve users through ``play``, drawing included."""
    agent, started = make("linucb", env, seed=1, alpha=ALPHA), time.process_time()
    result = play(env, agent, horizon, seed=1, checkpoints=[horizon])
    return time.process_time() - started, float(result.regret[-1])


def linucb(options: Options) -> Iterator[Row]:
    """Measure LinUCB of everybody in every world."""
    for world, (made, horizon) in WORLDS.items():
        env = made(horizon)
        users = table(env, horizon)
        turns: dict[str, Turn] = {OURS: partial(by_play, env, horizon)}
        turns[f"{OURS}, users for free"] = partial(by_table, partial(own, env), users)
        turns |= {name: partial(by_table, serve, users) for name, serve in QUICK.items()}
        rounds = [{name: turn() for name, turn in turns.items()} for _ in range(TURNS)]
        best = {name: min(taken[name] for taken in rounds) for name in turns}
        for name, serve in {} if options.quick else SLOW.items():
            try:
                best[name] = by_table(serve, users)
            except ImportError as error:
                print(f"{world}: {name} left out: {error}.", file=sys.stderr)
        for name, (seconds, regret) in best.items():
            ratio = best[OURS][0] / seconds
            yield Row(f"{world}: {name}", horizon / seconds, f"users/s, {ratio:.3g} of {OURS}; regret {regret:.4g}")


if __name__ == "__main__":
    sys.exit(main(__doc__, {"linucb": linucb}))
