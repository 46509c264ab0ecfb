"""Playing: the ten-line loop, blocks of users while the policy is frozen, and users by counts."""

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from privbandit_agents.base.agent import Agent, AnyAgent, AnyEnv, LearningAgent
from privbandit_agents.base.local import LocalAgent
from privbandit_agents.base.people import Seen
from privbandit_agents.base.present import alone, choose_present, seen_by, serving
from privbandit_agents.base.records import played
from privbandit_agents.base.spaces import Array
from privbandit_agents.playing.ahead import Serve, served_in_order
from privbandit_agents.playing.snapshots import Snapshots
from privbandit_agents.zoo.registry import spaces_of, units_of
from privbandit_envs import BanditEnv
from privbandit_envs.changing.delay import DelayFeedback
from privbandit_envs.changing.masks import stand_ins
from privbandit_envs.changing.mixing import mixing_wrappers, unseen_rewards, wrappers
from privbandit_envs.population import Tally
from privbandit_envs.spaces import Assortments, Units
from privbandit_envs.validate import count, reported
from privbandit_envs.wrappers import RecordRegret, RegretCurve, even_checkpoints

if TYPE_CHECKING:
    import polars as pl

    from privbandit_agents.playing.board import Board


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run.

    Attributes:
        checkpoints: numbers of users served, shape (c,).
        regret: cumulative pseudo-regret at the checkpoints, shape (c,).
        reward: cumulative reward at the checkpoints, shape (c,).
        seconds: wall-clock time of the run, over all the processes it took.
        simulation: ``"users"``, one by one; ``"counts"``: users with the same context were served together, by exact
            laws, where the policy stood still for 500 users or more; ``"counts, normal"``: the sums of their reports
            were drawn from their normal limit. ``"sums"``: in a world without a finite support, the sum of a block's
            reports was drawn at once, by its exact law; ``"sums, normal"``: by a law with the exact mean and
            covariance, where ``LocalAgent.fewest_summed`` allows it as close.
        mad: mean absolute error of the agent's predictions of mean rewards at the checkpoints, over all contexts and
            arms of a world that has finitely many, shape (c,); None where there are no predictions, or ``by_counts``
            was False.
        mse: their mean squared error, likewise.
        static: in a world that changes, cumulative regret against the best fixed policy at the checkpoints, shape (c,),
            while ``regret`` is against the best of the moment; None in others, where both are the same.
    """

    checkpoints: NDArray[np.int64]
    regret: NDArray[np.float64]
    reward: NDArray[np.float64]
    seconds: float
    simulation: str = "users"
    mad: NDArray[np.float64] | None = None
    mse: NDArray[np.float64] | None = None
    static: NDArray[np.float64] | None = None

    def __repr__(self) -> str:
        """Return a summary of the run, in a line."""
        users, regret, reward = (float(array[-1]) for array in (self.checkpoints, self.regret, self.reward))
        sums = f"regret={regret:.6g}, reward={reward:.6g}"
        return f"Result(users={users:.0f}, {sums}, seconds={self.seconds:.3g}, simulation={self.simulation!r})"

    def to_frame(self) -> "pl.DataFrame":
        """Return the curves as a polars table, one row per checkpoint; it needs the extra ``bench``."""
        import polars as pl

        curves = {"checkpoint": self.checkpoints, "regret": self.regret, "reward": self.reward}
        errors = {"mad": self.mad, "mse": self.mse, "static": self.static}
        return pl.DataFrame(curves | {name: array for name, array in errors.items() if array is not None})


def play(
    env: AnyEnv,
    agent: AnyAgent,
    horizon: int | None = None,
    seed: int | None = None,
    *,
    checkpoints: Sequence[int] | NDArray[Any] | None = None,
    on_checkpoint: Callable[[RegretCurve], None] | None = None,
    snapshots: Snapshots | None = None,
    by_counts: bool = True,
    tensorboard: str | Path | None = None,
) -> Result:
    """Let an agent play an environment for ``horizon`` users.

    An unwrapped BanditEnv serves many users at once while the policy is frozen; the trajectory is that of the step
    loop, bit for bit, but where a local agent's server reads sums of reports only: then the sum over a block is drawn
    at once, by its law. A world with finitely many contexts serves them by counts, if the agent can: the time of a run
    then hardly depends on the number of users. The law of a run is that of the step loop; which users come depends on
    the checkpoints too, where counting stops.

    Args:
        env: a Gymnasium environment whose ``info`` has ``feedback`` and ``regret``; a vector environment for agents
            that own their loop.
        agent: from ``make``.
        horizon: number of users; default: the environment's.
        seed: of the environment's ``reset``.
        checkpoints: where to keep the sums; default: 200 evenly spaced.
        on_checkpoint: called with the curve so far at every checkpoint.
        snapshots: keeps the state of the run, and goes on from it if it has one; for environments of
            ``privbandit_envs``, others start anew.
        by_counts: False serves every user alone, whatever the world: the trajectory is that of the step loop.
        tensorboard: a folder for this run's events, at the checkpoints (extra ``bench``); if an earlier run's are in
            it, ``folder/2``, and so on. None: none are written.

    Raises:
        ValueError: a horizon beyond the environment's, or none at all; checkpoints beyond the horizon; an environment
            that is no bandit, or has other contexts than the agent was made for; a wrapper that may carry something
            from one user to another, in front of a private agent.
        TypeError: something that is no environment, or no agent.
    """
    check_match(env, agent)
    env = without_limit(env)
    horizon = horizon_of(env) if horizon is None else count(horizon=horizon)
    with nullcontext() if tensorboard is None else board_in(Path(tensorboard), agent) as board:

        def passed(curve: RegretCurve) -> None:
            if board is not None:
                board.write(curve)
            if on_checkpoint is not None:
                on_checkpoint(curve)

        curve = curve_of(horizon, checkpoints, passed)
        declared, before, counted = units_of(env), agent.units, None
        if agent.guarantee.notion != "none" and (declared is None or not declared.plain):
            counted = agent.units = Counted(*vars(before or Units()).values())
        try:
            seconds = served(env, agent, horizon, curve, seed, snapshots, by_counts)
        finally:
            if counted is not None:
                agent.units = before
    if counted is not None:
        counted.tell()
    return result_of(env, agent, horizon, curve, seconds)


class Counted(Units):
    """Units that count, in a simulation, how many of the records that an agent gets are clipped."""

    users: float
    clipped: dict[str, float]

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self).update(users=0, clipped={})

    def note(self, agent: Any, contexts: Array, actions: Array, feedback: Array, counts: Any = 1) -> None:
        vars(self)["users"] += np.sum(counts * np.ones(len(feedback)))
        # sparse agents have bounds of their own, and which items are bought has no unit
        if {"reward_scale", "x_max"} & vars(agent.config).keys() or isinstance(agent.action_space, Assortments):
            return
        signed = contexts.ndim == 3
        low, high = self.of_rewards(np.array([-1.0 if signed else 0.0, 1.0]), signed, back=True)
        rewards = self.of_rewards(feedback, signed, back=True)
        found = {f"rewards were above {high:g} and count as {high:g}": rewards > high * (1 + 1e-9) + 1e-9}
        found[f"rewards were below {low:g} and count as {low:g}"] = rewards < low - 1e-9 * (1 + abs(low))
        if signed:
            long = np.linalg.norm(played(contexts, actions), axis=1) > 1 + 1e-6
            found["features of arms were longer than 1 and count as 1"] = long
        elif contexts.ndim == 2 and not agent.uses_public_data:  # by which agents scale labels' features
            long = np.linalg.norm(contexts, axis=1) > 3 * np.sqrt(contexts.shape[1])
            found["contexts were longer than thrice features of unit variance, and their length is lost"] = long
        for what, clipped in found.items():
            self.clipped[what] = self.clipped.get(what, 0) + np.sum(counts * clipped)

    def tell(self) -> None:
        """Warn of what was clipped for more than a twentieth of the users."""
        for what, number in self.clipped.items():
            if number > 0.05 * self.users:
                way = "rewards=(low, high)" if what.startswith("rewards") else "contexts=scale"
                share = f"{100 * number / self.users:.0f} % of {what}"
                warnings.warn(f"{share}; declare public bounds: env.unwrapped.units = Units({way}).", stacklevel=4)


def board_in(folder: Path, agent: AnyAgent) -> "Board":
    from privbandit_agents.playing.board import Board, unused  # needs the extra bench

    return Board(unused(folder), agent)


def served(
    env: AnyEnv,
    agent: AnyAgent,
    horizon: int,
    curve: RegretCurve,
    seed: int | None,
    snapshots: Snapshots | None,
    by_counts: bool,
) -> float:
    """Serve all users by the way that fits environment and agent; return the seconds that it took."""
    started = time.perf_counter()
    if isinstance(agent, LearningAgent):
        agent.learn(env, horizon, curve, seed, **({} if snapshots is None else {"snapshots": snapshots}))
    elif isinstance(env, gym.vector.VectorEnv):
        raise TypeError(f"{agent.name} plays one environment; make it with gym.make, it serves users in blocks.")
    elif isinstance(env, BanditEnv):
        play_blocks(env, agent, horizon, curve, seed, snapshots, by_counts)
    elif isinstance(env, DelayFeedback) and isinstance(env.env, BanditEnv) and horizon <= env.env.horizon:
        play_between_reports(env, agent, horizon, curve, seed)
    else:
        play_steps(env, agent, horizon, curve, seed)
    return time.perf_counter() - started + (snapshots.seconds_before if snapshots else 0.0)


def curve_of(
    horizon: int,
    checkpoints: Sequence[int] | NDArray[Any] | None,
    on_checkpoint: Callable[[RegretCurve], None] | None = None,
) -> RegretCurve:
    """Return the curve of a run that begins, or raise: its checkpoints go beyond the horizon."""
    curve = RegretCurve(even_checkpoints(horizon) if checkpoints is None else checkpoints, on_checkpoint)
    if curve.checkpoints[-1] > horizon:
        raise ValueError(f"checkpoints must not exceed the horizon {horizon}; got {curve.checkpoints[-1]}.")
    return curve


def result_of(env: AnyEnv, agent: AnyAgent, horizon: int, curve: RegretCurve, seconds: float) -> Result:
    """Return the result of a finished run."""
    errors = curve.notes.get("mad"), curve.notes.get("mse")
    simulation = "users"
    if curve.counted:
        simulation = "sums" if getattr(env.unwrapped, "support", None) is None else "counts"
        simulation += ", normal" * (agent.by_counts == "normal")
    world = env.unwrapped
    gaps = None
    if isinstance(world, BanditEnv) and not isinstance(agent, LearningAgent) and horizon <= world.horizon:
        gaps = world.static_gaps(horizon)  # who owns its loop plays a vector of environments: this one served nobody
    static = None if gaps is None else curve.regret - np.cumsum(gaps)[curve.checkpoints - 1]
    return Result(curve.checkpoints, curve.regret, curve.reward, seconds, simulation, *errors, static)


def check_match(env: AnyEnv, agent: AnyAgent) -> None:
    """Raise if these are no environment and no agent, or not made for each other."""
    shape = spaces_of(env)[0].shape
    if not isinstance(agent, Agent):
        raise TypeError(f"agent must be an Agent, as make returns it; got {agent!r:.60}.")
    if shape != agent.observation_space.shape:
        made_for = f"{agent.name} was made for contexts of shape {agent.observation_space.shape}"
        raise ValueError(f"{made_for}; those of the environment have shape {shape}.")
    if agent.guarantee.notion != "none" and (mixing := mixing_wrappers(env)):
        means = "may carry something from one user to another, which the guarantee does not cover"
        way_out = "leave it out, or declare per_user = True on a wrapper that looks at one user at a time"
        raise ValueError(f"{', '.join(mixing)} {means}: {agent.name} does not play it; {way_out}.")
    if isinstance(agent, LearningAgent) and any(isinstance(one, DelayFeedback) for one in wrappers(env)):
        raise TypeError(f"{agent.name} owns its loop and learns from the reward of a step: it takes no late reports.")
    if not isinstance(agent, LearningAgent) and (unseen := unseen_rewards(env)):
        text = f"{', '.join(unseen)} changes rewards that {agent.name} never sees: it learns from info['feedback']."
        warnings.warn(text, UnseenReward, stacklevel=3)


class UnseenReward(UserWarning):
    """A wrapper changes rewards, and the agent learns from the feedback in ``info``."""


def without_limit(env: AnyEnv) -> AnyEnv:
    """Return a BanditEnv without a limit of steps that is its own horizon, as ``gym.make(env.spec)`` puts around it."""
    limited = isinstance(env, gym.wrappers.TimeLimit) and isinstance(env.env, BanditEnv | DelayFeedback)
    return env.env if limited and env._max_episode_steps == getattr(env.unwrapped, "horizon", None) else env  # type: ignore[union-attr]


def horizon_of(env: AnyEnv) -> int:
    """Return the horizon of an environment that has one."""
    horizon = getattr(env.unwrapped, "horizon", None)
    if horizon is None:
        raise ValueError("the environment has no horizon; give the number of users, as in horizon=1000.")
    return count(horizon=horizon)


def play_steps(env: gym.Env[Any, Any], agent: AnyAgent, horizon: int, curve: RegretCurve, seed: int | None) -> None:
    """Serve one user at a time, through any wrappers."""
    env = RecordRegret(env, curve)
    context, told = env.reset(seed=seed)
    for left in range(horizon - 1, -1, -1):
        context, action = choose(agent, context, told.get("action_mask"), person_in(told, agent))
        following, _, terminated, truncated, info = env.step(action)
        learn_from(info, agent, context, action, told, env)
        context, told = env.reset() if left and (terminated or truncated) else (following, info)


def person_in(told: dict[str, Any], agent: AnyAgent, key: str = "person") -> Any:
    """Return who was shown, or whose reports came, to an agent with ``people``; None to all others.

    Raises:
        ValueError: the environment does not say.
    """
    if agent.people_seen is None:
        return None
    if told.get(key) is None:
        way_out = "make it without people, or play an environment of privbandit_envs"
        raise ValueError(f"{agent.name} with people needs info[{key!r}] from the environment: {way_out}.")
    return told[key]


def learn_from(
    info: dict[str, Any], agent: AnyAgent, context: Any, action: Any, shown: dict[str, Any], env: gym.Env[Any, Any]
) -> None:
    """Let an agent learn from a step: from the user's feedback, or from the reports that came, whosever they are."""
    if "reports" in info:
        if info["reports"] is not None:
            contexts, actions, feedback = info["reports"]
            masks = info.get("report_masks")
            seen = contexts if masks is None else seen_by(agent, contexts, stand_ins(masks))
            learn(agent, seen, actions, feedback, masks, person_in(info, agent, "report_people"))
        return
    if "feedback" not in info:
        reported(info, env.unwrapped, "feedback", "regret")
    learn(agent, context, action, info["feedback"], shown.get("action_mask"), person_in(shown, agent))


def play_blocks(
    env: BanditEnv,
    agent: AnyAgent,
    horizon: int,
    curve: RegretCurve,
    seed: int | None,
    snapshots: Snapshots | None,
    by_counts: bool,
) -> None:
    """Serve users one at a time while the policy may change; in blocks, or by counts, while it is frozen."""
    if horizon > env.horizon:
        raise ValueError(f"horizon must be at most the environment's {env.horizon}; got {horizon}.")
    context = snapshots.resume(env, agent, curve) if snapshots else None
    if context is None:
        context, _ = env.reset(seed=seed)
    by_counts = by_counts and agent.people_seen is None and not agent.arm_states  # sums have no names
    recorded = RecordRegret(env, curve)
    largest = users_at_once(context)
    by_sums = by_counts and env.support is None
    by_counts = by_counts and bool(agent.by_counts) and env.support is not None
    in_order = None if env.masked or agent.units is not None or agent.arm_states else served_in_order(agent)
    waiting = Waiting()
    left, noted, people = horizon - curve.users, curve.passed, None
    while left:
        frozen = min(agent.frozen_rounds() - waiting.users, left)
        if agent.people_seen is not None:
            people = frozen_visits(env, agent.people_seen, frozen, min(left, largest))
            frozen = len(people)
        if by_counts and (many := min(frozen, curve.to_next)) >= 500:  # the normal approximation needs 500 users
            serve_counts(env, agent, curve, many, waiting)
            left -= many
            if many == frozen:
                waiting.report(env, agent)
        elif waiting.users:
            waiting.report(env, agent)
        elif frozen > 1:
            frozen = min(frozen, curve.to_next if by_counts else frozen, largest)
            masks = env.action_masks(frozen) if env.masked else None
            contexts, actions = choose(agent, env.upcoming(frozen), masks, people)
            actions = np.asarray(actions)
            served = env.serve(actions)
            curve.extend(served.regret, served.reward)
            if by_sums and isinstance(agent, LocalAgent) and frozen >= agent.fewest_summed:
                with serving(agent, masks):
                    agent.update_counts(contexts, actions, served.feedback)
                curve.counted += frozen
            else:
                learn(agent, contexts, actions, served.feedback, masks, people)
            left -= frozen
            if left:
                context = env.upcoming(1)[0]
        elif in_order is not None and (done := serve_in_order(env, agent, curve, left, in_order)):
            left -= done
            if left:
                context = env.upcoming(1)[0]
        else:
            mask = env.action_masks() if env.masked else None
            context, action = choose(agent, context, mask, people)
            following, _, _, _, info = recorded.step(action)
            learn(agent, context, action, info["feedback"], mask, people)
            context = following
            left -= 1
        if by_counts and curve.passed > noted:
            note_errors(env, agent, curve)
            noted = curve.passed
        if snapshots is not None and not waiting.users:
            snapshots.offer(env, agent, curve)


def play_between_reports(
    env: DelayFeedback, agent: AnyAgent, horizon: int, curve: RegretCurve, seed: int | None
) -> None:
    """Serve in blocks the users who come before as many reports have as change the policy."""
    context, _ = env.reset(seed=seed)
    world, left, largest = env.unwrapped, horizon, users_at_once(context)
    assert isinstance(world, BanditEnv)
    while left:
        n = env.until(agent.frozen_rounds(), min(left, largest))
        masks = world.action_masks(n) if world.masked else None
        people = None if agent.people_seen is None else world.upcoming_people(n)
        served = env.serve(np.asarray(choose(agent, world.upcoming(n), masks, people)[1]))
        curve.extend(served.regret, served.reward)
        learn_from(env.arrived(), agent, None, None, {}, env)
        left -= n


def users_at_once(context: NDArray[Any]) -> int:
    """Return how many users a block has at most: about 4 MiB of contexts, given one of them."""
    return max(64, 2**22 // max(1, context.nbytes))


def frozen_visits(env: BanditEnv, seen: Seen, records: int, most: int) -> NDArray[np.int64]:
    """Return the persons of the next visits, until ``records`` of them were counted, or fewer."""
    if seen.full:
        return env.upcoming_people(most)
    share = 1 - seen.counted / seen.most  # of visits that count, about
    return seen.within(env.upcoming_people(min(most, 64 + int(1.1 * records / max(share, 0.05)))), records)


def choose(agent: AnyAgent, context: Array, mask: NDArray[Any] | None, person: object = None) -> tuple[Array, Any]:
    """Let an agent choose for one user or for n; return the contexts as it saw them, and the actions."""
    alone(agent)
    if mask is not None:
        return choose_present(agent, context, mask, person)
    seen = agent.contexts_of(context)
    with nullcontext() if agent.people_seen is None else serving(agent, None, person):
        return seen, agent.select_action(seen)


def learn(
    agent: AnyAgent, context: Array, action: Any, feedback: Any, mask: NDArray[Any] | None, person: object = None
) -> None:
    """Let an agent learn from one user or from n, who were served by a mask or by None."""
    alone(agent)
    with nullcontext() if mask is None else serving(agent, mask):
        if agent.people_seen is None:
            agent.update(context, action, feedback)
        else:
            agent.update(context, action, feedback, person)  # type: ignore[call-arg]


def serve_in_order(env: BanditEnv, agent: AnyAgent, curve: RegretCurve, most: int, serve: Serve) -> int:
    """Serve a block's users in order; return how many were served, 0 if the loop must be run."""
    contexts, rewards = env.drawn()
    if rewards is None or rewards.dtype != np.float64:
        return 0
    actions = serve(agent, agent.contexts_of(contexts[:most]), rewards.item)
    if actions is None:
        return 0
    served = env.serve(actions)
    curve.extend(served.regret, served.reward)
    return len(actions)


class Waiting:
    """Users by counts who were served and have yet to report, to a local agent with ``reports_late``.

    Attributes:
        users: how many.
    """

    def __init__(self) -> None:
        self.users, self.parts = 0, list[tuple[Array, ...]]()

    def add(self, tally: Tally) -> None:
        self.users += int(tally.counts.sum())
        self.parts.append((tally.rows, tally.actions, tally.feedback, tally.counts))

    def report(self, env: BanditEnv, agent: AnyAgent) -> None:
        """Let all of them report at once; those with the same context, action and feedback are one count."""
        if not self.users:
            return
        assert env.support is not None
        # groups of the same users
        rows, actions, feedback, counts = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        order = np.lexsort((feedback, actions, rows))
        keys = np.stack([rows[order], actions[order], feedback[order]])
        first = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
        chosen = order[first]
        number = np.add.reduceat(counts[order], first)
        agent.update_counts(env.support.contexts[rows[chosen]], actions[chosen], feedback[chosen], number)
        self.users, self.parts = 0, []


def serve_counts(env: BanditEnv, agent: AnyAgent, curve: RegretCurve, n: int, waiting: Waiting) -> None:
    assert env.support is not None
    contexts = env.support.contexts
    rows, actions, counts = agent.select_counts(contexts, env.draw_counts(n))
    tally = env.serve_counts(rows, np.asarray(actions), counts)
    curve.add_many(n, tally.regret, tally.reward)
    if isinstance(agent, LocalAgent) and agent.reports_late:
        waiting.add(tally)
    else:
        agent.update_counts(contexts[tally.rows], tally.actions, tally.feedback, tally.counts)


def note_errors(env: BanditEnv, agent: AnyAgent, curve: RegretCurve) -> None:
    """Note how far the agent's predictions are from the mean rewards of all contexts and arms."""
    assert env.support is not None
    contexts = env.support.contexts
    if (predicted := agent.predict(contexts)) is None:
        return
    arms = np.arange(predicted.shape[1])
    true = np.stack([env.problem.expected_reward(contexts, np.full(len(contexts), arm)) for arm in arms], axis=1)
    error = env.support.probabilities @ np.abs(predicted - true) / len(arms)
    squared = env.support.probabilities @ (predicted - true) ** 2 / len(arms)
    curve.note(mad=float(error.sum()), mse=float(squared.sum()))
