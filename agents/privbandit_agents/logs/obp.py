"""Logs as Open Bandit Pipeline reads them.

Yuta Saito, Shunsuke Aihara, Megumi Matsutani and Yusuke Narita, "Open Bandit Dataset and Pipeline", NeurIPS 2021.
"""

from typing import Any

import numpy as np

from privbandit_agents.logs.record import Log


def to_obp(log: Log) -> dict[str, Any]:
    """Return a log as the ``bandit_feedback`` of Open Bandit Pipeline's estimators.

    The package itself is not needed; numpy alone makes the dictionary, which ``np.savez`` keeps for another Python.
    Contexts of arms with features of their own, (n, K, d), become rows of K d numbers; one arm's part is
    ``action_context`` there only where features do not change from user to user, so it is left out. Masks of arms that
    come and go are ``action_mask``, which its estimators do not read: give them probabilities by these masks.

    Raises:
        TypeError: a log of sets.

    Examples:
        >>> import gymnasium as gym, privbandit_envs
        >>> from privbandit_agents import log, make
        >>> env = gym.make("privbandit/Linear-v0", n_arms=4, dim=2, horizon=100)
        >>> feedback = to_obp(log(env, make("uniform", env, seed=0), 50, seed=0))
        >>> feedback["context"].shape, float(feedback["pscore"][0]), feedback["n_actions"]
        ((50, 8), 0.25, 4)
    """
    if log.actions.ndim > 1:
        raise TypeError("Open Bandit Pipeline's estimators take one arm a user; this log has sets.")
    n_actions = log._all_arms()
    masks = {} if log.masks is None else {"action_mask": log.masks}
    return masks | {
        "n_rounds": len(log),
        "n_actions": n_actions,
        "context": np.asarray(log.contexts, np.float64).reshape(len(log), -1),
        "action_context": np.eye(n_actions, dtype=int),
        "action": np.asarray(log.actions, np.int64),
        "position": None,
        "reward": np.asarray(log.rewards, np.float64),
        "expected_reward": None,
        "pi_b": None,
        "pscore": np.asarray(log.propensities, np.float64),
    }
