"""Policies of stable-baselines3 in which one network scores every arm, or every item, from its own features.

A policy over K d flattened numbers has to learn the same function K times. These see contexts of shape (K, d) and have
one scorer for all rows. A DQN takes the scores as its values, PPO and A2C as the logits of arms; over assortments they
are the log-weights of a Plackett-Luce law. The algorithms are the library's own, and so is the training loop:

    PPO(actor_critic_policy(), to_sb3(envs), gamma=0.0, policy_kwargs={"net_arch": []})

R. L. Plackett, "The Analysis of Permutations", Applied Statistics 1975; R. D. Luce, "Individual Choice Behavior", 1959.
torch and stable-baselines3 are imported when a policy is first asked for.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stable_baselines3.common.distributions import Distribution
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from stable_baselines3.dqn.policies import DQNPolicy
    from torch import Tensor
    from torch.nn import Module


@cache
def standardised() -> "type[BaseFeaturesExtractor]":
    """Return the features extractor: contexts (n, K, d) with running means and variances that all rows share.

    Its keyword ``moments=False`` leaves features as they are. Moments are taken in while a policy is being trained.
    """
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Standardised(BaseFeaturesExtractor):
        running_count: "Tensor"
        running_sums: "Tensor"

        def __init__(self, observation_space: Any, moments: bool = True) -> None:
            if len(shape := observation_space.shape) != 2:
                way_out = "privbandit_envs.PerArm(env) makes them of one context for all arms"
                raise TypeError(f"a policy that scores rows needs contexts of shape (K, d); got {shape}: {way_out}.")
            super().__init__(observation_space, features_dim=observation_space.shape[-1])
            self.moments = moments
            self.register_buffer("running_count", torch.zeros((), dtype=torch.float64))
            self.register_buffer("running_sums", torch.zeros((2, self.features_dim), dtype=torch.float64))

        def forward(self, observations: "Tensor") -> "Tensor":
            if not self.moments:
                return observations
            if self.training:
                with torch.no_grad():
                    rows = observations.reshape(-1, self.features_dim).double()
                    self.running_count += len(rows)
                    self.running_sums += torch.stack([rows.sum(dim=0), (rows**2).sum(dim=0)])
            mean, square = self.running_sums / self.running_count.clamp(min=1)
            variance = square - mean**2
            scale = torch.where(variance > 1e-8, variance, torch.ones_like(variance)).sqrt()
            shown: Tensor = (observations - mean.float()) / scale.float()
            return shown

    return Standardised


def scorer(features: int, widths: Sequence[int]) -> "Module":
    """Return a network from features (..., d) to one score (...): linear if there are no widths, and 0 at first."""
    import torch

    layers: list[Module] = []
    before = features
    for width in widths:
        layers += [torch.nn.Linear(before, width), torch.nn.Tanh()]
        before = width
    last = torch.nn.Linear(before, 1)
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    return torch.nn.Sequential(*layers, last, torch.nn.Flatten(start_dim=-2))


@cache
def q_policy() -> "type[DQNPolicy]":
    """Return DQN's policy with one scorer; ``net_arch`` are the widths of its hidden layers."""
    from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

    class SharedQ(DQNPolicy):
        def __init__(self, *args: Any, moments: bool = True, **kwargs: Any) -> None:
            extractor = {"features_extractor_class": standardised(), "features_extractor_kwargs": {"moments": moments}}
            super().__init__(*args, **{"net_arch": [], **extractor, **kwargs})

        def make_q_net(self) -> QNetwork:
            network = super().make_q_net()
            network.q_net = scorer(network.features_dim, self.net_arch)
            return network

    return SharedQ


@cache
def heads() -> "type[Module]":
    """Return the stand-in for an ``MlpExtractor``: scores for the actor, and the critic's input."""
    import torch

    class Heads(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, rows: int, features: int, widths: Sequence[int], pooled: bool) -> None:
            super().__init__()
            self.latent_dim_pi, self.latent_dim_vf = rows, features if pooled else 1
            self.pooled, self.scores = pooled, scorer(features, widths)

        def forward(self, features: "Tensor") -> "tuple[Tensor, Tensor]":
            return self.forward_actor(features), self.forward_critic(features)

        def forward_actor(self, features: "Tensor") -> "Tensor":
            scores: Tensor = self.scores(features)
            return scores

        def forward_critic(self, features: "Tensor") -> "Tensor":
            return features.mean(dim=1) if self.pooled else features.new_zeros((len(features), 1))

    return Heads


@cache
def actor_critic_policy() -> "type[ActorCriticPolicy]":
    """Return PPO's and A2C's policy with one scorer.

    ``net_arch`` are the widths of its hidden layers. ``critic="constant"`` is one number for all contexts, which at
    discount 0 is the mean reward; ``"pooled"`` is linear in the mean of the rows. ``capacity`` is the size of the sets
    that are offered; without it actions are arms.
    """
    import torch
    from stable_baselines3.common.policies import ActorCriticPolicy

    class SharedActorCritic(ActorCriticPolicy):
        def __init__(
            self, *args: Any, critic: str = "constant", capacity: int = 0, moments: bool = True, **kwargs: Any
        ) -> None:
            self.critic, self.capacity = critic, capacity
            extractor = {"features_extractor_class": standardised(), "features_extractor_kwargs": {"moments": moments}}
            super().__init__(*args, **{"ortho_init": False, "net_arch": [], **extractor, **kwargs})

        def _build_mlp_extractor(self) -> None:
            rows: int = self.observation_space.shape[0]  # type: ignore[index]
            made: Any = heads()
            self.mlp_extractor = made(rows, self.features_dim, self.net_arch, self.critic == "pooled")

        def _build(self, lr_schedule: Any) -> None:
            super()._build(lr_schedule)
            self.action_net = torch.nn.Identity()
            if self.capacity:
                del self.log_std  # of the Gaussian law that the library has for a Box
                law: Any = plackett_luce()
                self.action_dist = law(self.capacity)
            torch.nn.init.zeros_(self.value_net.weight)
            torch.nn.init.zeros_(self.value_net.bias)
            self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

        def _get_action_dist_from_latent(self, latent_pi: "Tensor") -> "Distribution":
            return self.action_dist.proba_distribution(latent_pi)

    return SharedActorCritic


@cache
def plackett_luce() -> "type[Distribution]":
    """Return the law of a ranking of K out of N items, drawn one after the other with weights exp(score).

    An action is N numbers; the K largest are the items on offer, first the first one: scores plus independent
    Gumbel noise have this law. Its log-probability is that of the ranking.
    """
    import torch
    from stable_baselines3.common.distributions import Distribution

    class PlackettLuce(Distribution):
        def __init__(self, capacity: int) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.capacity = capacity

        def proba_distribution_net(self, *args: Any, **kwargs: Any) -> Any:
            return torch.nn.Identity()

        def proba_distribution(self, scores: "Tensor") -> "PlackettLuce":
            self.scores: Tensor = scores
            self.ranked: Tensor | None = None
            return self

        def ranking(self, actions: "Tensor") -> "Tensor":
            """Return the scores of all items in the order of the actions, shape (n, N)."""
            return self.scores.gather(-1, actions.argsort(dim=-1, descending=True))

        def log_prob(self, actions: "Tensor") -> "Tensor":
            """Return the exact log-probability of the K largest in their order, shape (n,)."""
            self.ranked = self.ranking(actions)
            left = self.ranked.flip(-1).logcumsumexp(dim=-1).flip(-1)  # over the items that are left at each place
            return (self.ranked - left)[..., : self.capacity].sum(dim=-1)

        def entropy(self) -> "Tensor":
            """Return, along a ranking, the sum of the entropies of its K choices, shape (n,).

            Each is exact; the mean over rankings is the entropy of the law, by the chain rule. The ranking is the one
            of the last ``log_prob``, else one that is drawn.
            """
            ranked = self.ranking(self.sample()) if self.ranked is None else self.ranked
            items = ranked.shape[-1]
            gone = torch.ones((min(self.capacity, items), items), dtype=torch.bool).tril(-1)
            logits = ranked[..., None, :].masked_fill(gone, -1e9)
            chances = logits.softmax(dim=-1)
            return -(chances * logits.log_softmax(dim=-1)).sum(dim=(-2, -1))

        def sample(self) -> "Tensor":
            noise = -torch.empty_like(self.scores).exponential_().log()
            return self.scores + noise

        def mode(self) -> "Tensor":
            return self.scores

        def actions_from_params(self, scores: "Tensor", deterministic: bool = False) -> "Tensor":
            return self.proba_distribution(scores).get_actions(deterministic=deterministic)

        def log_prob_from_params(self, scores: "Tensor") -> "tuple[Tensor, Tensor]":
            actions = self.actions_from_params(scores)
            return actions, self.log_prob(actions)

    return PlackettLuce
