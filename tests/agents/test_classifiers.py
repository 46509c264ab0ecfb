import inspect
import math
import pickle
import tracemalloc
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from privbandit_agents import classifiers
from privbandit_agents.audits.games.local import LocalGame
from privbandit_agents.audits.games.servers import usual
from privbandit_agents.audits.lower_bounds import audit
from privbandit_agents.audits.pairs.records import Pair, Records
from privbandit_agents.base.labels import LabelAgent
from privbandit_agents.classifiers import ROWS_A_BLOCK, AgentClassifier, LPCTClassifier
from privbandit_agents.local.label_agent import LocalLabelAgent
from privbandit_agents.zoo.entries import AGENTS
from privbandit_agents.zoo.registry import field_names, find
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from privbandit_envs.datasets.dataset import Dataset
from privbandit_envs.families.classification import eta
from privbandit_envs.tables.encoding import Encoding
from privbandit_envs.tables.schema import Schema

Rows = tuple[Any, Any]


def draw(n: int, seed: int, gamma: float = 1.0) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return x, (rng.random(n) < eta(x, gamma)).astype(int)


def three(n: int, seed: int) -> Rows:
    x = np.random.default_rng(seed).random((n, 2))
    return 4 * x - 1, np.array(["a", "b", "c"])[(x[:, 0] * 2.999).astype(int)]


PUBLIC = draw(50, 0, 0.5)
TEST = draw(4000, 1)


@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("partition", ["max-edge", "cart"])
def test_private_rows_help(aggregate: bool, partition: str) -> None:
    model = LPCTClassifier(4.0, partition=partition, aggregate=aggregate, random_state=0)
    public_only = clone(model).set_params(epsilon=1e-4).fit(*draw(20_000, 2), *PUBLIC)
    model.fit(*draw(20_000, 2), *PUBLIC)
    assert model.score(*TEST) > public_only.score(*TEST) + 0.01 and model.score(*TEST) > 0.66
    chances = model.predict_proba(TEST[0])
    assert (chances >= 0).all() and np.allclose(chances.sum(axis=1), 1)


@pytest.mark.parametrize("report", ["auto", "subset", "signed-subset", "ternary", "grr", "laplace"])
def test_three_classes(report: str) -> None:
    model = LPCTClassifier(8.0, report=report, depth=4, random_state=0).fit(*three(20_000, 0), *three(30, 1))
    assert model.agent_.total.shape == (16, 3)
    assert model.score(*three(4000, 2)) > 0.8 and set(model.predict(three(50, 3)[0])) <= {"a", "b", "c"}


def test_probabilities_are_calibrated_without_noise() -> None:
    model = LPCTClassifier(math.inf, depth=6, tau=math.inf).fit(*draw(200_000, 3), *draw(2000, 4))
    x, y = draw(20_000, 1)
    chance = model.predict_proba(x)[:, 1]
    for low in np.arange(0.2, 0.8, 0.1):
        inside = (chance >= low) & (chance < low + 0.1)
        assert abs(chance[inside].mean() - y[inside].mean()) < 0.06


def test_what_is_public_knows_nothing_of_the_private_rows() -> None:
    x, y = draw(5000, 5)
    swaps: list[Rows] = [(x, y), (x[::-1], y), (x, 1 - y), (9 * x - 4, y + 5)]
    models = [LPCTClassifier(random_state=0).fit(*rows, *PUBLIC) for rows in swaps]
    for model in models[1:]:
        assert np.array_equal(model.agent_.partition.threshold, models[0].agent_.partition.threshold)
        assert np.array_equal(model.agent_.tree.counts, models[0].agent_.tree.counts)
        assert np.array_equal(model.agent_.tree.mass, models[0].agent_.tree.mass)
        assert np.array_equal(model.scale_, models[0].scale_)
        assert np.array_equal(model.classes_, models[0].classes_)
    assert not np.array_equal(models[0].agent_.total, models[2].agent_.total)


def test_fitting_twice_spends_the_same_and_gives_the_same() -> None:
    model = LPCTClassifier(0.7, random_state=3).fit(*draw(3000, 6), *PUBLIC)
    first, total = model.ledger_.spent_epsilon(), model.agent_.total
    model.fit(*draw(3000, 6), *PUBLIC)
    assert model.ledger_.spent_epsilon() == first == pytest.approx(0.7)
    assert np.array_equal(model.agent_.total, total) and model.guarantee_.epsilon == 0.7 and model.epsilon == 0.7


def total(random_state: Any) -> Any:
    return LPCTClassifier(1.0, depth=3, random_state=random_state).fit(*draw(40, 7), *PUBLIC).agent_.total


def test_random_states_count_whole() -> None:
    """Integers that agree in their lowest 31 bits are different ones; so are generators of 128 bits."""
    whole = [3, 3 + 2**31, 3 + 2**64, np.random.RandomState(3), np.random.default_rng(3)]
    totals = [total(random_state) for random_state in whole]
    assert all(not np.array_equal(one, other) for place, one in enumerate(totals) for other in totals[:place])
    again = [
        total(random_state) for random_state in (3, np.int64(3), np.random.RandomState(3), np.random.default_rng(3))
    ]
    assert all(map(np.array_equal, again, [totals[0], *totals[:1], *totals[3:]]))
    for wrong in (-1, "x"):
        with pytest.raises(ValueError, match=r"(seed must be an integer >= 0; got -1|cannot be used to seed)"):
            total(wrong)


def test_without_a_random_state_every_fit_and_every_clone_has_noise_of_its_own() -> None:
    model = LPCTClassifier(1.0, depth=3)
    assert model.get_params()["random_state"] is None
    fits = [one.fit(*draw(40, 7), *PUBLIC).agent_.total for one in (model, model, clone(model))]
    assert not any(np.array_equal(one, other) for one, other in combinations(fits, 2))


@pytest.mark.parametrize("random_state", [None, 3])
def test_what_is_kept_of_a_fit_cannot_draw_its_noise_again(random_state: int | None, monkeypatch: Any) -> None:
    used: list[Any] = []
    learn = LocalLabelAgent.learn_labels

    def watched(agent: Any, *rows: Any) -> None:
        used.extend(key_of(generator) for generator in (agent.rng, agent.rng_exploration))
        seeded = random_state is not None  # of others no pickle has the keys, not even during the fit
        assert all((key in pickle.dumps(agent)) == seeded for key in used), "keys look different in a pickle"
        learn(agent, *rows)

    monkeypatch.setattr(LocalLabelAgent, "learn_labels", watched)
    model = LPCTClassifier(1.0, depth=3, random_state=random_state).fit(*draw(40, 7), *PUBLIC)
    kept = pickle.dumps(model)
    assert len(used) == 2 and not any(key in kept for key in used)


def key_of(generator: np.random.Generator) -> bytes:
    """Return what tells a generator's stream from all others, as it is in a pickle."""
    return int(generator.bit_generator.state["state"]["inc"]).to_bytes(16, "little")


@pytest.mark.wide
def test_exact_sums_have_the_law_of_the_reports() -> None:
    """Means of every leaf within 5 standard errors over 100 fits, standard deviations within a third."""
    rows = draw(300, 7)
    single, summed = (
        np.array(
            [
                LPCTClassifier(1.0, depth=3, aggregate=a, random_state=s).fit(*rows, *PUBLIC).agent_.total
                for s in range(100)
            ]
        )[..., 0]
        for a in (False, True)
    )
    error = np.hypot(single.std(axis=0), summed.std(axis=0)) / math.sqrt(100)
    assert (np.abs(single.mean(axis=0) - summed.mean(axis=0)) <= 5 * error).all()
    assert single.std(axis=0) == pytest.approx(summed.std(axis=0), rel=1 / 3)


def test_without_public_rows() -> None:
    x, y = draw(20_000, 8)
    model = LPCTClassifier(4.0, classes=[0, 1], feature_range=(0, 1), random_state=0).fit(x, y)
    assert model.score(*TEST) > 0.65
    with pytest.raises(
        ValueError, match=r"classes must be given .* as in classes=\[0, 1\]: labels are private, so that"
    ):
        LPCTClassifier().fit(x, y)
    with pytest.raises(ValueError, match="did you mean lpct"):
        AgentClassifier("lpctt").fit(x, y)


def test_malformed_input_is_refused_in_a_sentence() -> None:
    x, y = draw(100, 9)
    bad = x.copy()
    bad[3, 1] = math.nan
    with pytest.raises(ValueError, match="X_public must not contain NaN or infinity"):
        LPCTClassifier().fit(x, y, bad, y)
    with pytest.raises(ValueError, match=r"at least two classes; got \[1\], one class: give classes="):
        LPCTClassifier().fit(x, y, x, np.ones(100, int))
    with pytest.raises(ValueError, match=r"y_public must hold the classes \[0, 1\]; got .*7"):
        LPCTClassifier(classes=[0, 1]).fit(x, y, x, np.full(100, 7))
    with pytest.raises(ValueError, match="must be given together"):
        LPCTClassifier().fit(x, y, x)
    with pytest.raises(ValueError, match="X has 1 features, but LPCTClassifier is expecting 2"):
        LPCTClassifier().fit(x, y, *PUBLIC).predict(x[:, :1])
    with pytest.raises(NotFittedError):
        LPCTClassifier().predict(x)
    with pytest.raises(ValueError, match="epsilon must be > 0"):
        LPCTClassifier(-1.0).fit(x, y, *PUBLIC)
    one_class = LPCTClassifier(classes=[0, 1], random_state=0).fit(x, y, x, np.ones(100, int))
    assert set(one_class.predict(x)) <= {0, 1}


def test_no_private_row_stops_the_others() -> None:
    x, y = draw(100, 9)
    wild, strange = x.copy(), y.copy()
    wild[3], wild[4, 1], strange[5] = math.nan, -math.inf, 7
    totals = [
        LPCTClassifier(math.inf, depth=3).fit(*private, *PUBLIC).agent_.total for private in ((x, y), (wild, strange))
    ]
    assert np.isfinite(totals[1]).all() and np.abs(totals[0] - totals[1]).sum() <= 2 * 3


@pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("scale_by", ["public", "range"])
def test_features_that_are_not_finite_are_in_the_middle_of_their_scale(scale_by: str, strange: float) -> None:
    model = LPCTClassifier(scale_by=scale_by, feature_range=(-1, 3), random_state=0).fit(*draw(100, 9), *PUBLIC)
    low, high = model.scale_
    assert model.scaled(np.array([[strange, high[1]], [low[0], strange]])) == pytest.approx(
        np.array([[0.5, 1], [0, 0.5]])
    )


@pytest.mark.parametrize("label", [None, "secret", math.nan, [1], ([],), 10**400, np.datetime64("2000-01-01")])
@pytest.mark.parametrize("classes", [[0, 1], ["a", "b"]])
def test_a_label_of_any_type_counts_as_the_first_class(label: Any, classes: list[Any]) -> None:
    x, y = draw(100, 9)
    named = np.array(classes, object)[y]
    strange, first = named.copy(), named.copy()
    strange[5], first[5] = label, classes[0]
    models = [
        LPCTClassifier(8.0, random_state=0).fit(x, z, PUBLIC[0], np.array(classes)[PUBLIC[1]]) for z in (strange, first)
    ]
    assert np.array_equal(models[0].agent_.total, models[1].agent_.total)


def test_errors_show_no_private_row() -> None:
    x, y = draw(100, 9)
    x[3, 1] = 0.123456
    tables: tuple[Any, ...] = ((x + 1j, y), (x[:, 1], y), (x, x[:, 1] + 1j), (np.full(x.shape, "secret"), y))
    for private in tables:
        with pytest.raises(ValueError, match="not shown") as caught:
            LPCTClassifier().fit(private[0], private[1], *PUBLIC)
        assert "secret" not in str(caught.value) and "0.1" not in str(caught.value)
        assert caught.value.__suppress_context__


ODD: tuple[Any, ...] = (
    "secret",
    None,
    1j,
    10**400,
    [1.0],
    {},
    np.float16(0.1),
    True,
    np.datetime64("2020-01-01"),
    object(),
)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("frame", [False, True])
def test_no_row_stops_or_changes_the_others(odd: Any, frame: bool) -> None:
    x, y = draw(60, 9)
    cells, labels = x.tolist(), y.tolist()
    cells[4][0], labels[7] = odd, odd
    if frame and isinstance(odd, complex):
        pytest.skip("pandas makes the whole column complex")
    given = pytest.importorskip("pandas").DataFrame(cells) if frame else cells
    plain = LPCTClassifier(random_state=0)
    rows, codes = plain.private_rows(given, labels, PUBLIC[0])
    assert np.delete(rows, 4, axis=0).tobytes() == np.delete(x.astype(np.float64), 4, axis=0).tobytes()
    assert np.delete(codes, 7).tolist() == np.delete(y, 7).tolist()
    assert LPCTClassifier(random_state=0).fit(given, labels, *PUBLIC).ledger_.releases == 60
    if not frame:  # a whole row, or a row of another length
        cells[4] = odd
        assert LPCTClassifier(random_state=0).fit(cells, labels, *PUBLIC).ledger_.releases == 60


def test_huge_features_warn_nobody() -> None:
    x, y = draw(100, 9)
    x[3] = 1.79e308, -1.79e308
    public = draw(50, 0)[0] / 4
    model = LPCTClassifier(math.inf, random_state=0, depth=2).fit(x, y, public, PUBLIC[1])
    assert model.scaled(x)[3].tolist() == [1, 0]


class WithPublicCopy(LPCTClassifier):
    """Public rows are a copy of the private ones, as scikit-learn's checks know no others."""

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        return super().fit(X, y, X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:  # type: ignore[override]
        public = () if hasattr(self, "agent_") else (X, y)
        return super().partial_fit(X, y, classes, *public)


class AnyWithPublicCopy(AgentClassifier):
    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        return super().fit(X, y, X, y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:  # type: ignore[override]
        public = () if hasattr(self, "agent_") else (X, y)
        return super().partial_fit(X, y, classes, *public)


@pytest.mark.wide_at("*'pglm'*")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        WithPublicCopy(1000.0, depth=6, random_state=0),
        AnyWithPublicCopy("lpct", {"epsilon": 1000.0}, random_state=0),
        AnyWithPublicCopy("pglm", {"epsilon": 1000.0}, random_state=0),  # for two classes only
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


NEED_CLASSES = set(
    """check_classifier_data_not_an_array check_classifiers_classes check_classifiers_regression_target
    check_classifiers_train check_dict_unchanged check_dont_overwrite_parameters check_dtype_object
    check_estimators_dtypes check_estimators_fit_returns_self check_estimators_nan_inf
    check_estimators_overwrite_params check_estimators_pickle check_f_contiguous_array_estimator check_fit2d_1feature
    check_fit2d_1sample check_fit2d_predict1d check_fit_check_is_fitted check_fit_idempotent check_fit_score_takes_y
    check_methods_sample_order_invariance check_methods_subset_invariance check_n_features_in
    check_n_features_in_after_fitting check_pipeline_consistency check_positive_only_tag_during_fit
    check_readonly_memmap_input check_supervised_y_2d""".split()
)
"""Checks that fit without public rows and without ``classes``: private labels must not choose the classes."""


def chain(error: BaseException | None) -> str:
    return "" if error is None else f"{error}\n{chain(error.__cause__ or error.__context__)}"


def checked(model: Any) -> list[dict[str, Any]]:
    """Return what each of scikit-learn's checks says of an estimator."""
    if "on_fail" not in inspect.signature(check_estimator).parameters:
        pytest.skip("this scikit-learn stops at the first failure")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told: list[dict[str, Any]] = check_estimator(model, on_fail=None, on_skip=None)
    return told


def generous(name: str, epsilon: float = 1000.0) -> dict[str, Any]:
    """Return settings with so much budget, for an agent that has one."""
    return {"epsilon": epsilon} if "epsilon" in field_names(find(name).load().Config) else {}


@pytest.mark.parametrize("name", ["lpct", "phist", "kernel-ldp"])
def test_without_public_rows_scikit_learn_s_checks_fail_by_the_one_sentence_about_classes(name: str) -> None:
    told = checked(AgentClassifier(name, random_state=0))
    failed = [check for check in told if check["status"] == "failed"]
    parts = [check for check in failed if check["check_name"] == "check_estimators_partial_fit_n_features"]
    for check in parts:  # it gives the classes, and no range
        failed.remove(check)
        assert "the range of the features is private" in chain(check["exception"])
    assert len(parts) == 1
    assert {check["check_name"] for check in failed} == NEED_CLASSES and len(told) > len(failed) + 20
    assert all("classes must be given where there are no public rows" in chain(check["exception"]) for check in failed)


AGENTS_OF_LABELS = [name for name in AGENTS if issubclass(find(name).load(), LabelAgent)]


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS_OF_LABELS)
def test_with_public_rows_all_of_scikit_learn_s_checks_pass(name: str) -> None:
    """For every agent that a classifier may name."""
    told = checked(AnyWithPublicCopy(name, generous(name), random_state=0))
    assert [check["check_name"] for check in told if check["status"] == "failed"] == []
    assert [check["check_name"] for check in told if check["status"] == "skipped"] == ["check_array_api_input"]
    assert len(told) > 50


@pytest.mark.every_agent
@pytest.mark.wide_at("kernel-*")
@pytest.mark.parametrize("name", AGENTS_OF_LABELS)
def test_every_agent_of_labels_fits_offline(name: str) -> None:
    model = AgentClassifier(name, generous(name, 8.0), random_state=0).fit(*draw(500, 2), *draw(200, 3, 0.5))
    chances = model.predict_proba(TEST[0])
    assert chances.shape == (len(TEST[0]), 2) and np.allclose(chances.sum(axis=1), 1) and (chances >= 0).all()
    assert set(model.predict(TEST[0])) <= {0, 1}
    if model.guarantee_.notion == "local":
        assert model.ledger_.spent_epsilon(model.guarantee_.delta) == pytest.approx(8.0)


def test_other_weights_cost_no_budget() -> None:
    """The same sums, weighed as a fit with those settings would weigh them."""
    rows = draw(5000, 2)
    one, other = (
        AgentClassifier("lpct", {"weight": weight, "depth": 5}, random_state=0).fit(*rows, *PUBLIC)
        for weight in (1.0, 300.0)
    )
    again = one.reprocessed(weight=300.0)
    assert np.array_equal(again.predict_proba(TEST[0]), other.predict_proba(TEST[0]))
    assert not np.array_equal(again.predict_proba(TEST[0]), one.predict_proba(TEST[0]))
    assert again.ledger_.spent_epsilon() == pytest.approx(1.0) and one.agent_.config.weight == 1.0
    with pytest.raises(ValueError, match="depth needs another fit; lpct changes"):
        one.reprocessed(depth=3)


def test_features_are_scaled_by_the_range_if_asked() -> None:
    x, y = draw(5000, 2)
    known, answers = draw(50, 0, 0.5)
    model = AgentClassifier("lpct", scale_by="range", feature_range=(0, 1), random_state=0).fit(x, y, known, answers)
    wide = AgentClassifier("lpct", scale_by="range", feature_range=(0, 3), random_state=0)
    wide.fit(3 * x, y, 3 * known, answers)
    assert np.array_equal(model.predict(TEST[0]), wide.predict(3 * TEST[0]))


def test_large_rows_are_not_copied_whole() -> None:
    x, y = draw(100_000, 2)
    x = x.astype(np.float32)
    tracemalloc.start()
    AgentClassifier("lpct", {"depth": 4}, aggregate=True, random_state=0).fit(x, y, *PUBLIC)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * ROWS_A_BLOCK * 2 * 8


def test_sums_are_drawn_at_once_only_where_their_law_is_exact() -> None:
    x, y = draw(100, 9)
    model = LPCTClassifier(4.0, report="signed-subset", depth=4, aggregate=True, random_state=0).fit(x, y, *PUBLIC)
    assert not model.agent_.report.randomizer.exact_sum
    alone = LPCTClassifier(4.0, report="signed-subset", depth=4, random_state=0).fit(x, y, *PUBLIC)
    assert np.array_equal(model.agent_.total, alone.agent_.total)


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 8, 12, pytest.param(16, marks=pytest.mark.slow)])
def test_pruned_trees_of_every_depth_predict(depth: int) -> None:
    model = AgentClassifier("lpct-prune", {"depth": depth, "epsilon": 4.0}, aggregate=True, random_state=0)
    model.fit(*draw(5000, 2), *draw(500, 3, 0.5))
    agent: Any = model.agent_
    assert model.score(*TEST) > 0.5 and agent.partition.leaves == 2**depth
    assert model.reprocessed(constant=1.0).score(*TEST) > 0.5


def test_labels_that_are_no_class_never_stop_a_fit() -> None:
    x, y = draw(100, 9)
    names = np.array(["no", "yes"], object)
    known, answers = PUBLIC
    strange = names[y]
    strange[:3] = None, math.nan, 7
    model = LPCTClassifier(math.inf, depth=2).fit(x, strange, known, names[answers])
    plain = LPCTClassifier(math.inf, depth=2).fit(x, names[np.where(np.arange(100) < 3, 0, y)], known, names[answers])
    assert np.array_equal(model.agent_.total, plain.agent_.total)
    assert set(model.predict(x)) <= {"no", "yes"}


def test_text_for_numbers_is_refused() -> None:
    x, y = draw(100, 9)
    with pytest.raises(ValueError, match=r"y must be numbers, as the classes \[0, 1\] are; got text"):
        LPCTClassifier().fit(x, y.astype(str), *PUBLIC)
    with pytest.raises(ValueError, match=r"y must be text, as the classes \['0', '1'\] are; got numbers"):
        LPCTClassifier().fit(x, y, PUBLIC[0], PUBLIC[1].astype(str))


@pytest.mark.parametrize(
    ("feature_range", "message"),
    [
        (3, "feature_range must be .low, high., numbers or arrays of length 2; got 3"),
        (([0, 0, 0], [1, 1, 1]), "numbers or arrays of length 2"),
        ((1, 0), "feature_range must be finite with low < high; got .1, 0."),
        ((0, math.inf), "finite with low < high"),
    ],
)
def test_a_wrong_range_is_refused(feature_range: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LPCTClassifier(feature_range=feature_range).fit(*draw(100, 9), *PUBLIC)


def test_no_public_rows_may_be_given_as_empty_arrays() -> None:
    x, y = draw(500, 8)
    empty, none = (
        LPCTClassifier(classes=[0, 1], feature_range=(0, 1), random_state=0).fit(x, y, *public)
        for public in ((np.zeros((0, 2)), np.zeros(0, int)), (None, None))
    )
    assert np.array_equal(empty.agent_.total, none.agent_.total)
    with pytest.raises(ValueError, match="a tree needs public rows to grow from at first; got none"):
        AgentClassifier("tree-public", classes=[0, 1], feature_range=(0, 1)).fit(x, y)


def test_reprocessed_copies_name_their_settings() -> None:
    model = LPCTClassifier(random_state=0).fit(*draw(500, 8), *PUBLIC)
    assert model.reprocessed(tau=2.0).get_params()["tau"] == 2.0 and model.tau == 0.5
    any_agent = AgentClassifier("lpct", {"epsilon": 2.0}, random_state=0).fit(*draw(500, 8), *PUBLIC)
    assert any_agent.reprocessed(tau=2.0).settings == {"epsilon": 2.0, "tau": 2.0}
    assert any_agent.settings == {"epsilon": 2.0}


def test_predictions_of_many_rows_are_made_in_blocks() -> None:
    model = LPCTClassifier(random_state=0, depth=4).fit(*draw(500, 8), *PUBLIC)
    x = draw(ROWS_A_BLOCK + 3, 4)[0]
    chances = model.predict_proba(x)
    assert len(chances) == len(x) and np.array_equal(chances[-3:], model.predict_proba(x[-3:]))


@pytest.mark.parametrize("name", ["lpct", "warm-ldp-sgd", "pglm"])
def test_every_row_reports_once_whatever_the_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifiers, "ROWS_A_BLOCK", 100)
    model = AgentClassifier(name, random_state=0).fit(*draw(250, 8), *PUBLIC)
    assert model.ledger_.releases == 250


def test_rows_beyond_the_scale_are_clipped_or_get_the_first_class() -> None:
    x, y = draw(400, 9)
    y = np.ones_like(y)
    settings: Any = {"scale_by": "range", "feature_range": (0, 0.5), "classes": [0, 1], "random_state": 0}
    clip, zero = (AgentClassifier("lpct", {"epsilon": 8.0}, outside=each, **settings) for each in ("clip", "zero"))
    inside = (x <= 0.5).all(axis=1)
    assert (clip.fit(x, y).predict(x) == 1).all()
    assert (zero.fit(x, y).predict(x) == inside).all() and np.allclose(zero.predict_proba(x).sum(axis=1), 1)
    with pytest.raises(ValueError, match="outside must be one of clip, zero"):
        AgentClassifier("lpct", outside="nowhere", **settings).fit(x, y)


def test_features_outside_the_unit_interval_need_public_bounds() -> None:
    """They are asked for whatever the rows hold; in units of 0 to 1000 fits are as accurate as in the unit square."""
    (x, y), (seen, answers) = draw(3000, 4), TEST
    for name in ("lpct", "phist", "warm-ldp-sgd"):
        plain, bounded = (AgentClassifier(name, {"epsilon": 8.0}, classes=[0, 1], random_state=0) for _ in range(2))
        for rows in (x, 1000 * x):
            with pytest.raises(ValueError, match=r"^the range of the features is private.* such as \(0, 100\)"):
                plain.fit(rows, y)
        bounded.set_params(feature_range=(0, 1000)).fit(1000 * x, y)
        plain.set_params(feature_range=(0, 1)).fit(x, y)
        assert bounded.score(1000 * seen, answers) == pytest.approx(plain.score(seen, answers), abs=0.01)


@pytest.mark.parametrize(("place", "call"), [("learn_labels", 2), ("conclude", 1), ("rekey", 1)])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_fit_leaves_the_former_fit_whole_or_none(
    place: str, call: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new agent is never beside the former one's guarantee and ledger, nor in a pickle with its keys."""
    monkeypatch.setattr(classifiers, "ROWS_A_BLOCK", 100)
    old, never = LPCTClassifier(1.0, random_state=0).fit(*draw(250, 8), *PUBLIC), LPCTClassifier(random_state=0)
    before, chances, agents = dict(vars(old)), old.predict_proba(TEST[0]), list[Any]()
    honest = getattr(type(old.agent_), place)

    def stopped(agent: Any, *given: Any) -> None:
        agents.append(agent)
        honest(agent, *given)
        if len(agents) % call == 0:
            raise error

    monkeypatch.setattr(type(old.agent_), place, stopped)
    for model in (old, never):
        with pytest.raises(error):
            model.set_params(epsilon=10.0).fit(*draw(250, 9), *PUBLIC)
    assert len(agents) == 2 * call and not any(agent is old.agent_ for agent in agents)
    assert {**vars(old), "epsilon": 1.0} == before and old.guarantee_.epsilon == 1.0
    assert np.array_equal(old.predict_proba(TEST[0]), chances)
    assert not any(name.endswith("_") for name in vars(never))
    with pytest.raises(NotFittedError):
        never.predict(TEST[0])
    assert not any(key_of(agent.rng) in pickle.dumps(model) for agent in agents for model in (old, never))


@pytest.mark.wide_at("kernel-*")
@pytest.mark.parametrize("name", AGENTS_OF_LABELS)
def test_every_agent_learns_from_further_rows(name: str) -> None:
    x, y = draw(600, 2)
    model = AgentClassifier(name, generous(name, 8.0), random_state=0)
    for first in range(0, 600, 200):
        public = draw(200, 3, 0.5) if first == 0 else ()
        assert model.partial_fit(x[first : first + 200], y[first : first + 200], None, *public) is model
        assert np.allclose(model.predict_proba(TEST[0]).sum(axis=1), 1)
    if model.guarantee_.notion == "local":
        assert model.ledger_.releases == 600
        assert model.ledger_.spent_epsilon(model.guarantee_.delta) == pytest.approx(8.0)
        assert not model.agent_.seeded


@pytest.mark.parametrize("name", ["phist", "lpct"])
def test_parts_of_rows_are_learned_as_all_of_them(name: str) -> None:
    x, y = draw(900, 2)
    settings: dict[str, Any] = {"epsilon": math.inf, "horizon": 900}
    known: Any = {"classes": [0, 1], "feature_range": (0, 1), "random_state": 0}
    whole, parts = (AgentClassifier(name, settings, **known) for _ in range(2))
    whole.fit(x, y)
    for first in (0, 100, 500):
        last = {0: 100, 100: 500, 500: 900}[first]
        parts.partial_fit(x[first:last].tolist() if first else x[first:last], y[first:last])
    assert np.allclose(whole.predict_proba(TEST[0]), parts.predict_proba(TEST[0]))
    more = AgentClassifier(name, settings, **known).fit(x[:100], y[:100]).partial_fit(x[100:], y[100:])
    assert np.allclose(whole.predict_proba(TEST[0]), more.predict_proba(TEST[0]))


def test_further_rows_keep_classes_scale_and_the_former_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = draw(300, 2)
    model = AgentClassifier("lpct", {"epsilon": 8.0}, feature_range=(0, 1), random_state=0)
    with pytest.raises(ValueError, match="classes must be given where there are no public rows"):
        model.partial_fit(x, y)
    model.partial_fit(x, y, classes=[1, 0, 2])
    assert model.classes_.tolist() == [0, 1, 2] and model.classes is None
    model.partial_fit(x, y, classes=[0, 1, 2])
    for wrong in ({"classes": [0, 1]}, {"X_public": x, "y_public": y}):
        with pytest.raises(ValueError, match="are those of the first call of partial_fit or of fit"):
            model.partial_fit(x, y, **wrong)
    with pytest.raises(ValueError, match="y must be numbers"):
        model.partial_fit(x, np.array(["a"] * 300))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(x[:, :1], y)
    agent, chances = model.agent_, model.predict_proba(TEST[0])
    monkeypatch.setattr(type(agent), "conclude", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.partial_fit(x, y)
    assert model.agent_ is agent and np.array_equal(model.predict_proba(TEST[0]), chances)
    assert model.ledger_.releases == 600


@pytest.mark.wide_at("kernel-ldp")
@pytest.mark.parametrize("name", AGENTS_OF_LABELS)
def test_rows_at_rest_have_no_names(name: str) -> None:
    if "people" not in field_names(find(name).load().Config):
        return
    model = AgentClassifier(name, {"people": 20}, random_state=0)
    with pytest.raises(TypeError, match=f"{name} promises to people, who have no names here"):
        model.fit(*draw(100, 2), *PUBLIC)
    assert not hasattr(model, "agent_") and not hasattr(model, "guarantee_")


@pytest.mark.parametrize("odd", [[], [1.0], [1.0, 2.0, 3.0], None, 7.0, [0.5, 0.5]])
def test_private_rows_do_not_tell_how_many_features_there_are(odd: Any) -> None:
    """Of two rows of one length and another one neither a vote nor the odd one decides."""
    x, y = draw(2, 9)
    cells = [*x.tolist(), odd]
    labels = [*y.tolist(), 0]
    alone = LPCTClassifier(classes=[0, 1], feature_range=(0, 1))
    for rows in (cells, cells[1:], cells[2:] * 3):
        with pytest.raises(ValueError, match=r"X must be an array .n, d. or a table if neither X_public nor arrays"):
            alone.fit(rows, labels[: len(rows)])
    told = LPCTClassifier(classes=[0, 1], feature_range=([0.0, 0.0], [1.0, 1.0]))
    for rows in (cells, cells[1:], cells[2:] * 3):
        model = told.fit(rows, labels[: len(rows)])
        assert model.n_features_in_ == 2 and model.ledger_.releases == len(rows)
    table = np.array([[0.1, "a"], [None, 0.3]], object)
    assert alone.fit(table, [0, 1]).n_features_in_ == 2


def test_a_reprocessed_copy_has_books_of_its_own() -> None:
    model = AgentClassifier("lpct", random_state=0).fit(*draw(300, 8), *PUBLIC)
    other = model.reprocessed(tau=2.0)
    assert other.ledger_ is other.agent_.ledger and other.ledger_ is not model.ledger_
    total = model.agent_.total.copy()
    other.agent_.learn_labels(*draw(50, 3))
    assert (model.ledger_.releases, other.ledger_.releases) == (300, 350)
    assert np.array_equal(model.agent_.total, total) and model.agent_ is not other.agent_


def public_schema() -> dict[str, Any]:
    public = {"privbandit": {"public": True}}
    return {
        "fields": [
            {"name": "age", "type": "number", "constraints": {"minimum": 0, "maximum": 1000}, **public},
            {"name": "channel", "constraints": {"enum": ["mail", "app"], "required": True}, **public},
            {
                "name": "joined",
                "type": "date",
                "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"},
                **public,
            },
        ]
    }


def people(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    age, channel = 1000 * rng.random(n), rng.integers(2, size=n)
    table = {"age": age.tolist(), "channel": np.array(["mail", "app"])[channel].tolist(), "joined": ["2024-03-01"] * n}
    return table, ((age > 500) ^ (channel == 1)).astype(int)


def test_a_table_is_read_by_its_schema() -> None:
    model = AgentClassifier("lpct", {"epsilon": 8.0}, classes=[0, 1], schema=public_schema(), random_state=0)
    assert model.fit(*people(20_000, 0)).score(*people(2000, 1)) > 0.85
    assert clone(model).schema == public_schema()
    lacking: Any = {"age": [1], "channel": ["app"]}
    secret = public_schema()
    del secret["fields"][1]["privbandit"]
    with pytest.raises(ValueError, match="levels of channel come from people's data"):
        clone(model).set_params(schema=secret).fit(*people(100, 0))
    with pytest.raises(ValueError, match="the table has no column 'joined'"):
        model.fit(lacking, [1])


@pytest.mark.parametrize("cells", [{"channel": "only mine"}, {"age": 1e300}, {"age": "x"}, {"joined": "31.02."}])
def test_a_unique_cell_changes_nobody_else(cells: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table, y = people(50, 2)
    other = {name: [*column[:-1], cells.get(name, column[-1])] for name, column in table.items()}
    seen: list[Any] = []
    learn = LocalLabelAgent.learn_labels

    def noted(self: Any, x: Any, *rest: Any) -> None:
        seen.append(x.copy())
        learn(self, x, *rest)

    monkeypatch.setattr(LocalLabelAgent, "learn_labels", noted)
    models = [AgentClassifier("phist", {"epsilon": 1.0}, classes=[0, 1], schema=public_schema()) for _ in range(2)]
    tables: list[Any] = [table, other]
    one, two = (model.fit(rows, y) for model, rows in zip(models, tables, strict=True))
    assert np.array_equal(seen[0][:-1], seen[1][:-1]) and not np.array_equal(seen[0][-1], seen[1][-1])
    assert one.n_features_in_ == two.n_features_in_ and np.array_equal(one.scale_, two.scale_)
    assert np.isfinite(seen[1]).all() and seen[1].min() >= 0 and seen[1].max() <= 1


@pytest.mark.wide
def test_no_audit_tells_a_unique_level_from_a_known_one() -> None:
    """Of two people who differ in it alone, at 99.9 %."""
    table, y = people(200, 2)
    tables: list[Any] = [table, {**table, "channel": ["only mine", *table["channel"][1:]]}]
    features = Encoding(Schema.of(public_schema()), lenient=True)
    one, other = (features.encoded(rows)[0] for rows in tables)
    assert np.array_equal(one[1:], other[1:]) and not np.array_equal(one[0], other[0])
    data = Dataset(one.astype(np.float32), y, ("0", "1"), tuple(features.names))

    class Unique(LocalGame):
        servers = staticmethod(lambda game: (one for one in usual(game) if one[1] is game.env))
        pairs = staticmethod(
            lambda env: [Pair("a unique level", Records(np.stack([one[0], other[0]]), np.zeros(2, int), np.ones(2)))]
        )

    world = {"id": "privbandit/Classification-v0", "source": data, "n_public": 20}
    game = Unique("phist", {"epsilon": 1.0}, world, "quick")
    assert not audit(game, game.runs, np.random.default_rng(0)).refuted
