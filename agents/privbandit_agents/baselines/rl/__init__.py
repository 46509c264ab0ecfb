"""Reinforcement-learning baselines: agents of stable-baselines3, and adapters for it to play these worlds by itself.

Three nouns: a *learner* (an agent of stable-baselines3), an *adapter* (the world as it wants it), a *policy*.
"""

from privbandit_agents.baselines.rl.adapter import to_sb3
from privbandit_agents.baselines.rl.callbacks import log_regret
from privbandit_agents.baselines.rl.policies import actor_critic_policy, q_policy

__all__ = ["actor_critic_policy", "log_regret", "q_policy", "to_sb3"]
