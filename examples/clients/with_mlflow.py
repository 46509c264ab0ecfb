"""A run in MLflow, in a file: `pip install mlflow-skinny sqlalchemy alembic`."""

import gymnasium as gym
import mlflow
from privbandit_agents import make, play

import privbandit_envs  # noqa: F401

mlflow.set_tracking_uri("sqlite:///mlflow.db")
env = gym.make("privbandit/Linear-v0", n_arms=4, dim=3, horizon=1000)
agent = make("jdp-linucb", env, seed=0, epsilon=1.0)
with mlflow.start_run() as run:
    mlflow.log_params({"agent": agent.name, "epsilon": 1.0})
    play(
        env,
        agent,
        seed=0,
        on_checkpoint=lambda curve: mlflow.log_metric("regret", curve.total_regret, step=curve.users),
    )
print(mlflow.get_run(run.info.run_id).data.metrics)
