"""What ``privbandit list`` prints."""

from collections.abc import Iterator, Mapping

import gymnasium as gym
from rich.padding import Padding
from rich.text import Text

from privbandit_agents.experiments.jobs.catalogue import agent_defaults, env_defaults, env_summary
from privbandit_agents.experiments.names import as_text, short
from privbandit_agents.experiments.usage import missing_module
from privbandit_agents.registry import can_play, make
from privbandit_agents.zoo import AGENTS
from privbandit_envs.registration import ENV_IDS

Lines = Iterator[Text | Padding]
HOLDS = {"exact": "exact for the numbers that leave", "real": "for real numbers: simulate only"}


def env_lines() -> Lines:
    yield Text("Environments\n", style="bold underline")
    for id in ENV_IDS:
        yield from item(id, env_summary(id), {"arguments": as_text(env_defaults(id)) or "none"})


def agent_lines() -> Lines:
    yield Text("Agents\n", style="bold underline")
    envs = {short(id): gym.make(id) for id in ENV_IDS}
    for name, entry in AGENTS.items():
        try:
            played = [env_name for env_name, env in envs.items() if can_play(name, env)]
            facts = {"settings": as_text(agent_defaults(name)) or "none", "plays": ", ".join(played)}
            if played and (promise := make(name, envs[played[0]], seed=0).guarantee).notion != "none":
                facts["guarantee"] = f"{promise.notion}, {HOLDS[promise.arithmetic]}"
        except ImportError as error:
            facts = {"missing": missing_module(error)}
        yield from item(name, entry.summary, facts)


def experiment_lines() -> Lines:
    from privbandit_agents.experiments.spec.experiment import library, read_experiment

    yield Text("Experiments\n", style="bold underline")
    for name, path in library().items():
        experiment = read_experiment(path)
        checked = f"{len(experiment.figures)} figures, {len(experiment.statements)} statements"
        about = " ".join(experiment.about.split())
        yield from item(name, experiment.title, {"about": about, "has": checked, "run": f"privbandit reproduce {name}"})


def dataset_lines() -> Lines:
    """Yield the data sets of the paper on classification: which are there, and how to get the others."""
    from privbandit_envs.datasets import tables as lpct

    yield Text("Data sets\n", style="bold underline")
    for name, source in lpct.SOURCES.items():
        sizes = source.sizes
        facts = {
            "predicts": source.label.partition("|")[0],
            "public": source.rule.text if source.rule else f"{source.n_public} rows at random",
            "Table 1": f"n_P = {sizes.private:,}, n_Q = {sizes.public:,}, d = {sizes.d:,}",
        }
        yield from item(name, source.title, facts | lpct.state(name))


def item(name: str, summary: str, facts: Mapping[str, str]) -> Lines:
    yield Text(name, style="bold cyan")
    yield Padding(Text(summary), (0, 0, 0, 4))
    for label, text in facts.items():
        yield Padding(Text(f"{label}: {text}", style="dim"), (0, 0, 0, 4))
    yield Text()
