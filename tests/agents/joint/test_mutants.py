"""Tests of the tests: agents of ours with a leak each, and the check of the conformance suite that finds it."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from privbandit_agents.base.central import CentralAgent
from privbandit_agents.joint.assortments import dpmnl
from privbandit_agents.joint.assortments.newton_mnl import NewtonMNL
from privbandit_agents.joint.assortments.private_cov import PrivateCov
from privbandit_agents.joint.linear import reward_dp_linucb, sums
from privbandit_agents.joint.linear.jdp_linucb import JDPLinUCB
from privbandit_agents.joint.linear.schedules import Batches, Epochs, Windows
from privbandit_agents.joint.rl import dp_dqn
from privbandit_agents.joint.sparse import fliphat, squared_loss
from privbandit_agents.joint.sparse.estimate import clipped
from privbandit_agents.joint.sparse.fliphat import FLIPHAT
from privbandit_agents.privacy.accounting.costs import gaussian_dp
from privbandit_agents.privacy.contributions import logistic, moments
from privbandit_agents.privacy.contributions.choices import sanitise
from privbandit_agents.privacy.contributions.gradients import clipped_gradients
from privbandit_agents.privacy.mechanisms import selection
from privbandit_agents.privacy.mechanisms.choice import ExponentialChoice
from privbandit_agents.privacy.mechanisms.counters import BufferedToeplitz, Counter
from privbandit_agents.privacy.mechanisms.discrete import GridGaussian
from privbandit_agents.privacy.mechanisms.grid import FINER, step_of
from privbandit_agents.privacy.mechanisms.objective import ObjectivePerturbation
from privbandit_agents.privacy.mechanisms.selection import GumbelTopK
from privbandit_agents.testing.noise import check_noise
from privbandit_agents.testing.replay import check_replay

Patch = pytest.MonkeyPatch
LINEAR, SPARSE, ASSORTMENT = (f"privbandit/{name}-v0" for name in ("Linear", "SparseLinear", "Assortment"))
USERS = 60


def less_noise_in_the_counter(patch: Patch) -> None:
    made = Counter.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        self.scale *= 0.7

    patch.setattr(Counter, "__init__", init)


def exact_gram_matrix_in_the_policy(patch: Patch) -> None:
    learned = JDPLinUCB.learned

    def peeking(self: Any, noisy: Any, sigma: float, users: int) -> Any:
        return learned(self, np.append(noisy[: self.dim], self.schedule.counter.total[self.dim :]), sigma, users)

    patch.setattr(JDPLinUCB, "learned", peeking)


def released_later_if_a_sum_is_positive(patch: Patch) -> None:
    release = Epochs.release

    def waiting(self: Any, agent: Any) -> Any:
        released = release(self, agent)
        self.ends += int(self.counter.total[0] > 0)
        return released

    patch.setattr(Epochs, "release", waiting)


def first_user_kept_for_the_next_episode(patch: Patch) -> None:
    estimate = FLIPHAT._estimate

    def keeping(self: Any) -> Any:
        x, y = self.loss.features.view()[:1].copy(), self.loss.rewards.view()[:1].copy()
        released = estimate(self)
        self.loss.add(x, y)
        return released

    patch.setattr(FLIPHAT, "_estimate", keeping)


def last_user_kept_for_the_next_batch(patch: Patch) -> None:
    estimate = NewtonMNL._estimate

    def keeping(self: Any) -> Any:
        kept = vars(self).get("kept")
        if kept is not None:
            for rows, row in zip((self.choices.features, self.choices.offered, self.choices.bought), kept, strict=True):
                rows.view()[0] = row
        views = [rows.view() for rows in (self.choices.features, self.choices.offered, self.choices.bought)]
        self.kept = [view[-1].copy() for view in views]
        return estimate(self)

    patch.setattr(NewtonMNL, "_estimate", keeping)


def hessians_without_noise(patch: Patch) -> None:
    noisy = NewtonMNL._noisy

    def bare(self: Any, mechanism: Any, exact: Any) -> Any:
        if exact.size == self.dim:
            return noisy(self, mechanism, exact)
        return self.publish(mechanism, exact, lambda: exact, mechanism.cost, self.batch)

    patch.setattr(NewtonMNL, "_noisy", bare)


def hessians_that_are_not_published(patch: Patch) -> None:
    noisy = NewtonMNL._noisy
    patch.setattr(NewtonMNL, "_noisy", lambda self, m, exact: exact if exact.size > self.dim else noisy(self, m, exact))


def what_is_drawn_is_not_what_is_published(patch: Patch) -> None:
    def twice(self: Any, mechanism: Any, exact: Any) -> Any:
        draw = partial(mechanism.release, 2 * exact, self.rng_noise)
        return self.publish(mechanism, exact, draw, mechanism.cost, self.batch)

    patch.setattr(NewtonMNL, "_noisy", twice)


def no_linear_term(patch: Patch) -> None:
    minimise = ObjectivePerturbation.minimise
    bare = lambda self, *args: minimise(dataclasses.replace(self, sigma=0.0), *args)  # noqa: E731
    patch.setattr(ObjectivePerturbation, "minimise", bare)


def half_the_noise_of_values(patch: Patch) -> None:
    release = GumbelTopK.release
    half = lambda self, *args: release(dataclasses.replace(self, sigma=self.sigma / 2), *args)  # noqa: E731
    patch.setattr(GumbelTopK, "release", half)


def the_same_row_for_ever(patch: Patch) -> None:
    def same(self: Any) -> Any:
        return self.scale / step_of(self.scale, FINER) * np.random.default_rng(0).standard_normal(self.dim)

    patch.setattr(Counter, "_drawn", same)


def less_noise_than_the_scale(patch: Patch) -> None:
    noise = Counter._drawn
    patch.setattr(Counter, "_drawn", lambda self: 0.7 * noise(self))


def no_noise_in_one_coordinate(patch: Patch) -> None:
    noise = Counter._drawn
    patch.setattr(Counter, "_drawn", lambda self: noise(self) * (np.arange(self.dim) != 3))


def one_noise_for_two_coordinates(patch: Patch) -> None:
    noise = Counter._drawn

    def shared(self: Any) -> Any:
        row = noise(self)
        row[4] = row[7]
        return row

    patch.setattr(Counter, "_drawn", shared)


def the_same_noise_for_every_seed(patch: Patch) -> None:
    begin = BufferedToeplitz.__init__

    def seeded(self: Any, *args: Any, **settings: Any) -> None:
        begin(self, *args, **settings)
        self.rng = np.random.default_rng(0)

    patch.setattr(BufferedToeplitz, "__init__", seeded)


def less_noise_in_selections(patch: Patch) -> None:
    peeled = selection.peeled
    patch.setattr(selection, "peeled", lambda exact, beta, known, k, rng: peeled(exact, 0.4 * beta, known, k, rng))


def less_noise_in_choices(patch: Patch) -> None:
    release = ExponentialChoice.release
    less = lambda self, *args: release(dataclasses.replace(self, beta=0.7 * self.beta), *args)  # noqa: E731
    patch.setattr(ExponentialChoice, "release", less)


def no_noise_now_and_then(patch: Patch) -> None:
    """In one release of twenty; the others have a little more, so that the size is right on the whole."""
    release = GridGaussian.release

    def sometimes(self: Any, value: Any, rng: Any) -> Any:
        noise = release(self, value, rng) - np.asarray(value, float)
        return value + (0.0 if rng.random() < 0.05 else 1.03) * noise

    patch.setattr(GridGaussian, "release", sometimes)


def no_noise_from_the_sixth_batch_on(patch: Patch) -> None:
    def late(self: Any, mechanism: Any, exact: Any) -> Any:
        draw = partial(mechanism.release, exact, self.rng_noise)
        told = (lambda: np.array(exact, float)) if self.batch > 5 else draw
        return self.publish(mechanism, exact, told, gaussian_dp(mechanism.rho), self.batch)

    patch.setattr(NewtonMNL, "_noisy", late)


def sums_that_stay_from_the_third_batch_on(patch: Patch) -> None:
    release = Batches.release

    def stays(self: Any, agent: Any) -> Any:
        before = self.epoch.totals = self.epoch.take()
        found = release(self, agent)
        if self.batch > 2:
            self.epoch.totals = before
        return found

    patch.setattr(Batches, "release", stays)


def the_window_before_without_noise(patch: Patch) -> None:
    """A new window starts from the exact sums of the one before."""
    opens = Windows.open

    def kept(self: Any, agent: Any) -> None:
        if self.group is not None:
            self.noisy = self.counter.total.copy()
        opens(self, agent)

    patch.setattr(Windows, "open", kept)


def the_same_linear_term_in_every_call(patch: Patch) -> None:
    minimise = ObjectivePerturbation.minimise
    same = lambda self, loss, rng, start: minimise(self, loss, np.random.default_rng(0), start)  # noqa: E731
    patch.setattr(ObjectivePerturbation, "minimise", same)


def trigger_on_the_exact_gram_matrix(patch: Patch) -> None:
    matrix = PrivateCov.matrix

    def exact(self: Any) -> Any:
        self.release = self.counter.total
        return matrix(self)

    patch.setattr(PrivateCov, "matrix", exact)


def no_clipping_of_choices(patch: Patch) -> None:
    patch.setattr(dpmnl, "sanitise", lambda x, bought, radius: sanitise(x, bought, 100 * radius))


def no_clipping_of_moments(patch: Patch) -> None:
    patch.setattr(sums, "sanitise", lambda x, y: (np.nan_to_num(np.clip(x, -1e3, 1e3)), np.nan_to_num(y)))


def no_clipping_of_rewards(patch: Patch) -> None:
    patch.setattr(squared_loss, "clipped", lambda x, y, x_max, R: clipped(x, y, x_max, 100 * R))


def derivatives_of_any_size(patch: Patch) -> None:
    factors = logistic.factors

    def longer(features: Any, answers: Any, theta: Any) -> Any:
        rows, scores = factors(features, answers, theta)
        return 2 * rows, scores

    patch.setattr(logistic, "factors", longer)


def one_more_call_than_is_paid_for(patch: Patch) -> None:
    n_iht = fliphat.n_iht
    patch.setattr(fliphat, "n_iht", lambda loss, released, M, eta, C: n_iht(loss, released, M + 1, eta, C))


def nothing_in_the_ledger(patch: Patch) -> None:
    publish = CentralAgent.publish
    patch.setattr(CentralAgent, "publish", lambda self, m, e, d, cost, group: publish(self, m, e, d, None, group))


def two_terms_for_a_user(patch: Patch) -> None:
    patch.setattr(sums, "packed_sum", lambda products: 1.5 * moments.packed_sum(products))


def no_clipping_of_gradients(patch: Patch) -> None:
    patch.setattr(dp_dqn, "clipped_gradients", lambda s, y, z, bound: clipped_gradients(s, 9 * y, z, 9 * bound))


def exact_gradients_in_the_step(patch: Patch) -> None:
    stepped = dp_dqn.DPDQN._stepped

    def peeking(self: Any, rows: Any) -> Any:
        return stepped(self, rows) + 1e-9 * self.counter.total

    patch.setattr(dp_dqn.DPDQN, "_stepped", peeking)


def features_forgotten_with_their_reward(patch: Patch) -> None:
    patch.setattr(reward_dp_linucb, "sanitise_apart", moments.sanitise)


def counting_answers_twice(patch: Patch, kind: Any, mixed: Callable[[Any, Any], Any]) -> None:
    """Let a user's answer be what ``mixed`` makes of it and of the user's before."""
    honest = kind.curate

    def curate(self: Any, contexts: Any, actions: Any, feedback: Any) -> Any:
        earlier = np.append(vars(self).get("earlier", feedback[:1]), feedback[:-1])
        self.earlier = feedback[-1:]
        return honest(self, contexts, actions, mixed(earlier, feedback))

    patch.setattr(kind, "curate", curate)


def purchases_of_the_user_before(patch: Patch) -> None:
    """Who buys nothing counts as a buyer of what the user before bought."""
    for kind in (NewtonMNL, dpmnl.DPMNL):
        counting_answers_twice(patch, kind, lambda earlier, bought: np.where(bought < 0, earlier, bought))


def rewards_of_the_user_before(patch: Patch) -> None:
    """A reward that is no number is taken to be that of the user before."""
    counting_answers_twice(patch, JDPLinUCB, lambda earlier, y: np.where(np.isnan(y), earlier, y))


def rewards_added_up(patch: Patch) -> None:
    counting_answers_twice(patch, JDPLinUCB, lambda earlier, y: np.clip(y + earlier, -1, 1))


MUTANTS: list[tuple[Callable[[Patch], None], str, str, Any, str]] = [
    (less_noise_in_the_counter, "jdp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (less_noise_in_the_counter, "dpmnl", ASSORTMENT, check_replay, "SquareRootToeplitz costs"),
    (exact_gram_matrix_in_the_policy, "jdp-linucb", LINEAR, check_replay, "release differs"),
    (released_later_if_a_sum_is_positive, "jdp-linucb", LINEAR, check_replay, "frozen_rounds"),
    (first_user_kept_for_the_next_episode, "fliphat", LINEAR, check_replay, "counts in groups"),
    (last_user_kept_for_the_next_batch, "newton-mnl", ASSORTMENT, check_replay, "counts in groups"),
    (hessians_without_noise, "newton-mnl", ASSORTMENT, check_noise, "Gaussian in dimension 15 is 0 times"),
    (hessians_that_are_not_published, "newton-mnl", ASSORTMENT, check_replay, "release differs"),
    (what_is_drawn_is_not_what_is_published, "newton-mnl", ASSORTMENT, check_replay, "something else than the exact"),
    (no_linear_term, "dpmnl", ASSORTMENT, check_noise, "ObjectivePerturbation in dimension 5"),
    (no_linear_term, "dpmnl-approx", ASSORTMENT, check_noise, "ObjectivePerturbation in dimension 5"),
    (half_the_noise_of_values, "fliphat", LINEAR, check_noise, "GumbelTopK"),
    (the_same_row_for_ever, "jdp-linucb", LINEAR, check_noise, "comes back|times what is declared"),
    (less_noise_than_the_scale, "jdp-linucb", LINEAR, check_noise, r"0.(6[89]|7)\d* times what is declared"),
    (no_noise_in_one_coordinate, "jdp-linucb", LINEAR, check_noise, "less than declared in coordinate 3"),
    (no_noise_in_one_coordinate, "dp-dqn", LINEAR, check_noise, "in coordinate 3|0.9[5-7]"),
    (one_noise_for_two_coordinates, "jdp-linucb", LINEAR, check_noise, "shared by coordinates 4 and 7"),
    (the_same_noise_for_every_seed, "jdp-linucb", LINEAR, check_noise, "the same for another seed"),
    (the_same_noise_for_every_seed, "reward-dp-linucb", LINEAR, check_noise, "the same for another seed"),
    (no_noise_now_and_then, "newton-mnl", ASSORTMENT, check_noise, "in one release of"),
    (no_noise_from_the_sixth_batch_on, "newton-mnl", ASSORTMENT, check_noise, "declared"),
    (sums_that_stay_from_the_third_batch_on, "jdp-glm", LINEAR, check_replay, "costs|counts in groups"),
    (the_window_before_without_noise, "sw-jdp-linucb", LINEAR, check_replay, "release differs|actions differ"),
    (less_noise_in_selections, "private-pursuit", SPARSE, check_noise, "GumbelTopK selects better"),
    (less_noise_in_choices, "private-pursuit", SPARSE, check_noise, "ExponentialChoice selects better"),
    (the_same_linear_term_in_every_call, "dpmnl", ASSORTMENT, check_noise, "comes back|times what is declared"),
    (trigger_on_the_exact_gram_matrix, "dpmnl", ASSORTMENT, check_replay, "publishes|release differs"),
    (no_clipping_of_choices, "dpmnl", ASSORTMENT, check_replay, "costs rho = inf"),
    (no_clipping_of_moments, "jdp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (no_clipping_of_rewards, "fliphat", LINEAR, check_replay, "GumbelTopK costs"),
    (derivatives_of_any_size, "jdp-glm", LINEAR, check_replay, "GridGaussian costs"),
    (one_more_call_than_is_paid_for, "fliphat", LINEAR, check_replay, "in the ledger"),
    (less_noise_in_the_counter, "dp-dqn", LINEAR, check_replay, "BufferedToeplitz costs"),
    (no_clipping_of_gradients, "dp-dqn", LINEAR, check_replay, "BufferedToeplitz costs"),
    (exact_gradients_in_the_step, "dp-dqn", LINEAR, check_replay, "release differs"),
    (less_noise_than_the_scale, "dp-dqn", LINEAR, check_noise, r"0.(6[89]|7)\d* times what is declared"),
    (nothing_in_the_ledger, "newton-mnl", ASSORTMENT, check_replay, "in the ledger"),
    (two_terms_for_a_user, "jdp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (less_noise_in_the_counter, "sw-jdp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (less_noise_in_the_counter, "reward-dp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (less_noise_than_the_scale, "reward-dp-linucb", LINEAR, check_noise, r"0.[67]\d* times what is declared"),
    (purchases_of_the_user_before, "newton-mnl", ASSORTMENT, check_replay, "GridGaussian costs"),
    (purchases_of_the_user_before, "dpmnl", ASSORTMENT, check_replay, "ObjectivePerturbation costs"),
    (rewards_of_the_user_before, "jdp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (rewards_added_up, "jdp-linucb", LINEAR, check_replay, "BufferedToeplitz costs"),
    (features_forgotten_with_their_reward, "reward-dp-linucb", LINEAR, check_replay, "release differs"),
]


@pytest.mark.wide_but(
    "*-fliphat-*",
    "*-jdp-linucb-*check_noise*",
    "[def]*",
    "what_is_drawn_*",
    "hessians_that_*",
    "nothing_*",
    "released_*",
)
@pytest.mark.parametrize(
    ("leak", "name", "env_id", "check", "words"), MUTANTS, ids=lambda case: getattr(case, "__name__", None)
)
def test_a_leak_is_found(leak: Any, name: str, env_id: str, check: Any, words: str, monkeypatch: Patch) -> None:
    leak(monkeypatch)
    with pytest.raises(AssertionError, match=words):
        check(name, env_id, 2 * USERS if name == "newton-mnl" else USERS, {})  # whose first batches are longer
