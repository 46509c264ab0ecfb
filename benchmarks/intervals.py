"""How often intervals made of a log cover the truth, on logs of worlds whose truth is known.

``python benchmarks/intervals.py [--repetitions 30] [--logs small,wide,skewed,wrong]`` prints, for each log and agent,
the number of repetitions whose 95 % interval of ``privbandit cost`` has the agent's true reward, and how often the
check is alarmed. ``--table estimates`` prints the coverage of the estimates of one policy as a CSV, over rates of
clicks, rows an arm, arms and logging policies, and ``--table alarms`` the alarms of ``check_simulator`` where the model
is the truth. A cell below .93, or with alarms in more than 2 %, is measured again with other logs. ``--only 0.2`` takes
one rate alone, ``--done FILE`` keeps the lines of an earlier run.
"""

import argparse
import csv
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray
from privbandit_agents import Log, dr, ips, make, play, private_value, snips
from privbandit_agents.base.agent import AnyAgent
from privbandit_agents.cli.cost import estimated
from privbandit_agents.logs.simulator import LOG_ENV, Simulator, check_simulator, simulator
from privbandit_agents.zoo.registry import can_play

import privbandit_envs
from privbandit_envs.families.clicks import ClicksProblem
from privbandit_envs.problem import Array, Floats

Env = gym.Env[Any, Any]
AGENTS = ("linucb", "auto-joint", "reward-dp-linucb", "shuffle-linucb", "auto-local")
LOGS = {"small": (4, 6, 20_000), "wide": (10, 12, 50_000), "skewed": (4, 6, 20_000), "wrong": (4, 6, 20_000)}
"""Arms, features and users of each log."""


class Crossed(ClicksProblem):
    """Clicks that depend on the product of two features, which no line follows."""

    def means(self, contexts: Array) -> Floats:
        usual = super().means(contexts)
        sign = np.sign(contexts[..., 0] * contexts[..., 1])[..., None] * np.where(np.arange(usual.shape[-1]) % 2, 1, -1)
        return np.asarray(np.clip(usual + 0.25 * sign, 0.02, 0.98))


def world(name: str, horizon: int) -> Env:
    arms, dim, _ = LOGS[name]
    if name != "wrong":
        return gym.make("privbandit/Clicks-v0", instance_seed=5, n_arms=arms, dim=dim, horizon=horizon)
    return privbandit_envs.BanditEnv(Crossed, instance_seed=5, n_arms=arms, dim=dim, horizon=horizon)


def logged(name: str, seed: int) -> Log:
    """Return a log of a policy that knows a noisy version of the truth; the one of ``skewed`` goes down to .01."""
    arms, _, users = LOGS[name]
    env = world(name, users)
    env.reset(seed=seed)
    contexts = env.unwrapped.upcoming(users)  # type: ignore[attr-defined]
    rng = default_rng([seed, 7])
    law = policy(contexts, arms, rng, 0.01 if name == "skewed" else 0.3 / arms, 4.0 if name == "skewed" else 1.0)
    actions = np.minimum((law.cumsum(axis=1) < rng.random((users, 1))).sum(axis=1), arms - 1)
    served = env.unwrapped.serve(actions)  # type: ignore[attr-defined]
    p = law[np.arange(users), actions]
    return Log(contexts, actions, served.reward, p, served.reward, np.zeros(users), {"uniform": 1 / arms})


def policy(contexts: Array, arms: int, rng: Generator, least: float, sharpness: float) -> NDArray[np.float64]:
    """Return a softmax policy with random weights, mixed so that no arm has less than ``least``, shape (n, K)."""
    scores = sharpness * contexts @ rng.normal(0, 0.5, (contexts.shape[1], arms))
    law = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(least + (1 - arms * least) * law / law.sum(axis=1, keepdims=True))


def truths(name: str, agents: list[str], runs: int = 24) -> dict[str, float]:
    """Return each agent's true mean reward a user, by runs in the world itself."""
    users = LOGS[name][2]
    found = {}
    for agent in agents:
        means = []
        for seed in range(runs):
            env = world(name, users)
            result = play(env, made(agent, env, seed), seed=10_000 + seed)
            means.append(result.reward[-1] / users)
        found[agent] = float(np.mean(means))
    return found


def made(agent: str, env: Env, seed: int) -> AnyAgent:
    return make(agent, env, seed=seed, **({} if agent == "linucb" else {"epsilon": 1.0}))


def covered(name: str, repetitions: int, seeds: int) -> Iterator[str]:
    """Yield a line for each agent, and one for the check."""
    agents = [agent for agent in AGENTS if can_play(agent, world(name, 100))]
    true = truths(name, agents)
    hits, widths, off = dict.fromkeys(agents, 0), dict.fromkeys(agents, 0.0), 0
    for repetition in range(repetitions):
        log = logged(name, 500 + repetition)
        fitted = simulator(log, "logistic" if name == "wrong" else "auto")
        off += any(gap.off for gap in check_simulator(fitted))
        for agent in agents:
            curves = []
            for seed in range(seeds):
                env = gym.make(LOG_ENV, source=fitted, horizon=len(log))
                result = play(env, made(agent, env, seed), seed=seed)
                curves.append(result.reward)
            mean, half = estimated(curves, result.checkpoints, len(log))
            hits[agent] += abs(mean - true[agent]) <= half
            widths[agent] += half / repetitions
    for agent in agents:
        found = f"{hits[agent]:3} of {repetitions}   true {true[agent]:.4f}   half width {widths[agent]:.4f}"
        yield f"{name:8} {agent:18} {found}"
    yield f"{name:8} the check is alarmed in {off} of {repetitions}"


RATES, RATES_OF_ALARMS = (0.001, 0.005, 0.02, 0.2), (0.002, 0.02, 0.2, 0.5)
ROWS, ARMS, KINDS = (20, 150, 1000, 10_000), (2, 12, 80), 10
LOGGING = ("even", "skewed", "hard", "sharp")
"""The policy's arm is logged evenly; seldom for some kinds of users; seldom where clicks are most frequent; or up to a
hundred times as seldom for some as for others."""


def clicks(rate: float, rows: int, arms: int, logging: str, rng: Generator) -> tuple[Log, Floats, float]:
    """Return a log of ten kinds of users, the chance of a click of each row's kind, and the value of arm 0 alone."""
    n, most = rows * arms, min(0.9, 5 / arms)
    least = {"even": 1 / arms, "sharp": most / 100}.get(logging, 0.1 / arms)
    p0 = np.exp(rng.uniform(np.log(least), np.log(1 / arms if logging == "even" else most), KINDS))
    shape = p0**-0.5 if logging == "hard" else np.exp(rng.normal(0, 0.6, KINDS))
    rates, kinds = np.minimum(rate * shape / shape.mean(), 0.95), rng.integers(KINDS, size=n)
    actions = np.where(rng.random(n) < p0[kinds], 0, rng.integers(1, arms, size=n))
    won = (rng.random(n) < rates[kinds]).astype(float)
    p = np.where(actions == 0, p0[kinds], (1 - p0[kinds]) / (arms - 1))
    about = {"uniform": 1 / arms, "least_propensity": float(p.min())}
    return Log(kinds[:, None] / KINDS, actions, won, p, won, np.zeros(n), about), rates[kinds], float(rates.mean())


def estimates(rate: float, rows: int, arms: int, logging: str, seeds: range) -> tuple[bool, dict[str, object]]:
    """Return the share of intervals that have the truth, of logs that are not refused, and whether one is below .93."""
    hits, made = dict.fromkeys(("ips", "snips", "dr", "private_value"), 0), 0
    alone = np.eye(arms)[np.zeros(rows * arms, int)]
    law = lambda contexts: alone  # noqa: E731
    for seed in seeds:
        rng = default_rng([seed, rows, arms, int(1000 * rate), LOGGING.index(logging)])
        log, _, truth = clicks(rate, rows, arms, logging, rng)
        try:
            found = [estimator(log, law) for estimator in (ips, snips, dr)]
        except ValueError:
            continue
        found.append(private_value(log, law, 1.0, rng=rng))  # type: ignore[arg-type]
        made += 1
        for name, one in zip(hits, found, strict=True):
            hits[name] += one.low <= truth <= one.high
    shares = {name: f"{hit / max(made, 1):.3f}" for name, hit in hits.items()}
    return min(hits.values()) < 0.93 * made, shares | {"logs": len(seeds), "judged": made}


def alarms(rate: float, rows: int, arms: int, logging: str, seeds: range) -> tuple[bool, dict[str, object]]:
    """Return how many logs alarm the check of a model that is the truth, and whether more than 2 % do."""
    off = 0
    for seed in seeds:
        rng = default_rng([seed, rows, arms, int(1000 * rate), LOGGING.index(logging)])
        log, true, _ = clicks(rate, rows, arms, logging, rng)
        means = np.repeat(true[:, None], arms, axis=1)
        ahead, names = np.zeros(len(log), int), [str(arm) for arm in range(arms)]
        rest: tuple[Any, ...] = ("logistic", {}, 0.0, 1.0, 0.0, None, ahead, names)
        fitted = Simulator(log.contexts, means, means, log.actions, log.rewards, 1 / log.propensities, *rest)
        off += any(gap.off for gap in check_simulator(fitted))
    return off > 0.02 * len(seeds), {"logs": len(seeds), "alarmed": off}


def table(name: str, only: str, done: str) -> None:
    """Print a line for each cell: by a first sample of logs, or if that looks bad by a larger second one.

    Lines that are in the CSV ``done`` are printed as they are there. Progress goes to the error stream.
    """
    rates, measured = (RATES, estimates) if name == "estimates" else (RATES_OF_ALARMS, alarms)
    cells = [c for c in itertools.product(rates, ROWS, ARMS, LOGGING) if not only or str(c[0]) in only.split(",")]
    if name == "alarms":
        cells = [c for c in cells if c[1] * c[2] ** 2 <= 150_000]  # others take hours
    lines = list(csv.reader(Path(done).read_text().splitlines())) if done else []
    known = {tuple(line[:4]): line for line in lines[1:]}
    left = {}
    for cell in cells:
        if tuple(map(str, cell)) not in known:
            rows, each = cell[1] * cell[2], cell[2] if name == "alarms" else 1  # every arm has an interval of its own
            left[cell] = samples(name, rows)[0] * (rows + 4000) * each
    whole, began, writer = sum(left.values()), time.monotonic(), csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows(lines[:1])
    for cell in cells:
        if cell not in left:
            writer.writerow(known[tuple(map(str, cell))])
            continue
        first, second = samples(name, cell[1] * cell[2])
        bad, found = measured(*cell, range(first))
        if bad:
            _, found = measured(*cell, range(1000, 1000 + second))
        if not lines:
            writer.writerow(("rate", "rows an arm", "arms", "logging", *found))
            lines = [[]]
        writer.writerow((*cell, *found.values()))
        sys.stdout.flush()
        del left[cell]
        minutes = (time.monotonic() - began) / 60 * sum(left.values()) / (whole - sum(left.values()))
        print(f"{cell}: about {minutes:.0f} minutes left", file=sys.stderr)


def samples(name: str, rows: int) -> tuple[int, int]:
    """Return how many logs of so many rows are in a first sample, and in a second."""
    if name == "alarms":
        return 50, 500
    return 250 if rows <= 4000 else 100 if rows < 200_000 else 30, 1000 if rows <= 20_000 else 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--table", choices=("estimates", "alarms"))
    parser.add_argument("--only", default="", help="rates")
    parser.add_argument("--done", default="", help="CSV of an earlier run, whose lines are kept")
    asked = parser.parse_args()
    if asked.table:
        return table(asked.table, asked.only, asked.done)
    for name in asked.logs.split(","):
        for line in covered(name, asked.repetitions, asked.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
