"""Reinforcement-learning baselines: agents of stable-baselines3."""
