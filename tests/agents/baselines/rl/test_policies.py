from itertools import permutations
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from given import Later, rng
from privbandit_agents import make, play
from privbandit_agents.baselines.rl.adapter import to_sb3
from privbandit_agents.baselines.rl.policies import actor_critic_policy, heads, plackett_luce, scorer, standardised
from privbandit_agents.baselines.rl.settings import hyperparameters, kind_of, rate

torch: Any = Later("torch")
LINEAR, SPARSE, ASSORTMENT, CLASSIFICATION = (
    f"privbandit/{name}-v0" for name in ("Linear", "SparseLinear", "Assortment", "Classification")
)


def law(scores: Any, capacity: int) -> Any:
    made: Any = plackett_luce()
    return made(capacity).proba_distribution(torch.as_tensor(scores, dtype=torch.float32))


def actions_of(rankings: Any) -> Any:
    """Return numbers in the order of the rankings, the first item the largest."""
    places = np.argsort(np.asarray(rankings), axis=1)
    return torch.as_tensor(-places.astype(np.float32))


@pytest.mark.parametrize("capacity", [1, 2, 4, 7])
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_log_probabilities_of_all_rankings_add_up_and_give_the_entropy(capacity: int, size: float) -> None:
    items = 4
    scores = size * rng(capacity).standard_normal(items)
    rankings = list(permutations(range(items)))
    actions = actions_of(rankings)
    made = law(np.tile(scores, (len(rankings), 1)), capacity)
    logs = made.log_prob(actions).double().numpy()
    tops = {ranking[:capacity]: log for ranking, log in zip(rankings, logs, strict=True)}
    weights = np.exp(scores - scores.max())
    for top, log in tops.items():
        left, product = list(range(items)), 0.0
        for item in top:
            product += scores[item] - scores.max() - np.log(weights[left].sum())
            left.remove(item)
        assert log == pytest.approx(product, rel=1e-5, abs=1e-4)
    chances = np.exp(np.array(list(tops.values())))
    assert chances.sum() == pytest.approx(1, abs=1e-5)
    exact = -(chances * np.array(list(tops.values()))).sum()
    along = dict(zip((ranking[:capacity] for ranking in rankings), made.entropy().numpy(), strict=True))
    mean = sum(np.exp(log) * along[top] for top, log in tops.items())
    assert mean == pytest.approx(exact, rel=1e-4, abs=1e-4)


def test_samples_have_the_law_of_the_log_probabilities() -> None:
    """5 standard errors; 24 frequencies."""
    n, scores = 40_000, np.array([0.0, 1.0, -1.0, 0.5])
    made = law(np.tile(scores, (n, 1)), 3)
    torch.manual_seed(1)
    tops = [tuple(row) for row in made.sample().argsort(dim=1, descending=True)[:, :3].tolist()]
    for top in permutations(range(4), 3):
        rest = next(item for item in range(4) if item not in top)
        chance = float(law(scores[None], 3).log_prob(actions_of([(*top, rest)])).exp())
        assert abs(tops.count(top) / n - chance) < 5 * np.sqrt(chance / n)
    assert torch.equal(made.mode(), made.scores)


@pytest.mark.parametrize("size", [1.0, 500.0])
def test_gradients_are_finite_however_sure_the_scores_are(size: float) -> None:
    scores = (size * torch.linspace(-1, 1, 30)).repeat(5, 1).requires_grad_()
    family: Any = plackett_luce()
    made = family(4).proba_distribution(scores)
    (made.log_prob(made.sample()).sum() + made.entropy().sum()).backward()
    assert scores.grad is not None and bool(torch.isfinite(scores.grad).all())
    assert bool((law(scores.detach(), 4).entropy() >= 0).all())


@pytest.mark.parametrize("widths", [(), (5,), (4, 3)])
def test_one_network_scores_every_row(widths: tuple[int, ...]) -> None:
    network: Any = scorer(3, widths)
    torch.nn.init.normal_(network[-2].weight)
    rows = torch.as_tensor(rng(0).standard_normal((6, 4, 3)), dtype=torch.float32)
    scores = network(rows)
    assert scores.shape == (6, 4) and len(torch.unique(scores)) == 24
    torch.testing.assert_close(network(rows[:, [2, 0, 1, 3]]), scores[:, [2, 0, 1, 3]])


def test_features_are_standardised_by_what_was_seen_in_training() -> None:
    extractor = standardised()(gym.spaces.Box(-9, 9, (4, 3)))
    rows = torch.as_tensor(rng(0).normal([1.0, -2.0, 5.0], [2.0, 0.5, 0.0], (200, 4, 3)), dtype=torch.float32)
    extractor.eval()
    assert torch.equal(extractor(rows), rows)
    extractor.train()
    extractor(rows[:50])
    seen = extractor(rows[50:])
    extractor.eval()
    after = extractor(rows).reshape(-1, 3)
    assert torch.equal(extractor(rows[50:]), seen)
    torch.testing.assert_close(after.mean(dim=0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(after.std(dim=0, correction=0)[:2], torch.ones(2), atol=1e-3, rtol=0)


def test_a_constant_critic_reads_nothing_and_a_pooled_one_the_mean_of_the_rows() -> None:
    rows = torch.as_tensor(rng(0).standard_normal((6, 4, 3)), dtype=torch.float32)
    assert torch.equal(heads()(4, 3, (), False)(rows)[1], torch.zeros(6, 1))
    assert torch.equal(heads()(4, 3, (), True)(rows)[1], rows.mean(dim=1))


@pytest.mark.parametrize(
    ("env_id", "kwargs", "kind"),
    [
        (LINEAR, {}, "arms"),
        (LINEAR, {"dim": 100}, "wide"),
        (SPARSE, {}, "wide"),
        (SPARSE, {"dim": 99}, "arms"),
        (ASSORTMENT, {}, "items"),
        (CLASSIFICATION, {}, "mlp"),
    ],
)
def test_hyperparameters_go_by_the_spaces(env_id: str, kwargs: dict[str, Any], kind: str) -> None:
    env = gym.make(env_id, **kwargs)
    assert kind_of(env.observation_space, env.action_space) == kind
    own: Any = make("ppo", env, seed=0)
    mlp: Any = make("ppo", env, seed=0, policy="mlp")
    assert (own.hyperparameters["policy"] == "mlp") == (kind == "mlp")
    assert mlp.hyperparameters == hyperparameters("PPO", "mlp", {"policy": None})


def test_a_shared_policy_needs_something_to_share() -> None:
    with pytest.raises(ValueError, match="policy='shared' needs arms or items with features of their own"):
        make("dqn", gym.make(CLASSIFICATION), seed=0, policy="shared")


def test_rates_fall_from_the_first_to_a_fifty_first_or_the_root_of_it() -> None:
    assert rate(0.3, "constant") == 0.3
    for schedule, last in (("sqrt", 51**-0.5), ("inverse", 1 / 51)):
        falling: Any = rate(0.3, schedule)
        assert falling(1.0) == 0.3 and falling(0.0) == pytest.approx(0.3 * last) and falling(0.5) < 0.3


@pytest.mark.parametrize("config", [{"critic": "pooled"}, {"net_arch": [4]}, {"moments": False}])
def test_settings_reach_the_policy(config: dict[str, Any]) -> None:
    from stable_baselines3 import A2C

    users = to_sb3(gym.make_vec(LINEAR, num_envs=4, n_arms=3, dim=2), 0, largest_score=1000.0)
    model: Any = A2C(actor_critic_policy(), users, gamma=0.0, policy_kwargs={"net_arch": [], **config}, seed=0)
    model.learn(10)
    assert model.policy.value_net.in_features == (2 if "critic" in config else 1)
    assert len(model.policy.mlp_extractor.scores) == (4 if "net_arch" in config else 2)
    assert model.policy.features_extractor.moments == config.get("moments", True)


def test_the_widths_of_an_agent_reach_its_policy() -> None:
    env = gym.make(LINEAR, n_arms=3, dim=2)
    agent: Any = make("a2c", env, seed=0, net_arch=(4,))
    agent.learn(env, 64, seed=0)
    assert len(agent.model.policy.mlp_extractor.scores) == 4


def test_a_policy_can_be_used_with_the_library_alone() -> None:
    from stable_baselines3 import PPO

    users = to_sb3(gym.make_vec(ASSORTMENT, num_envs=4, n_items=6, capacity=2), 0, largest_score=1000.0)
    model = PPO(
        actor_critic_policy(), users, gamma=0.0, n_steps=8, batch_size=16, policy_kwargs={"capacity": 2}, seed=0
    )
    model.learn(64)
    actions, _ = model.predict(users.reset())
    assert actions.shape == (4, 6)


@pytest.mark.parametrize("name", ["a2c", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dqn", "ppo"))])
def test_a_shared_policy_learns_what_an_mlp_does_not_in_so_few_users(name: str) -> None:
    env = gym.make(LINEAR, n_arms=5, dim=8, horizon=1500)
    chance, shared = (
        play(env, make(one, env, seed=0), seed=3, checkpoints=[1500]).regret[0] for one in ("uniform", name)
    )
    assert shared < 0.7 * chance
