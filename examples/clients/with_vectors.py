"""PPO of stable-baselines3 on the vectors of its own make_vec_env, with one world in every slot."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import privbandit_envs  # noqa: F401

for name in ("Linear", "Assortment"):
    # render_mode=None, as make_vec_env asks for rgb_array, which these environments do not draw
    slots = make_vec_env(f"privbandit/{name}-fixed-v0", n_envs=4, seed=1, env_kwargs={"render_mode": None})
    PPO("MlpPolicy", slots, gamma=0.0, n_steps=32, batch_size=32, device="cpu").learn(128)
