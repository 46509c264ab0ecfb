"""A study of Optuna, which reads a run at its checkpoints and may stop it."""

import gymnasium as gym
import optuna
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401

env = gym.make("privbandit/Linear-v0", n_arms=4, dim=3, horizon=1000)


def regret(trial):
    agent = make("linucb", env, seed=0, alpha=trial.suggest_float("alpha", 0.01, 3.0, log=True))

    def report(curve):
        trial.report(curve.total_regret, curve.users)
        if trial.should_prune():
            raise optuna.TrialPruned

    return play(env, agent, seed=0, checkpoints=[250, 500, 1000], on_checkpoint=report).regret[-1]


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), pruner=optuna.pruners.MedianPruner())
study.optimize(regret, n_trials=6)
print(study.best_params)
