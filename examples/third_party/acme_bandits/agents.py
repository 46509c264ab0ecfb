"""Registers the agents; their modules are imported when an agent is made."""

from privbandit_agents import register_agent

register_agent(
    "acme-local",
    "acme_bandits.local:AcmeLocal",
    "shares of customers who come, by randomized response",
    audit="acme_bandits.games:OppositeAnswers",
)
register_agent("acme-joint", "acme_bandits.joint:AcmeJoint", "shares of customers who come, by noisy counts")
