"""Figures of tables of results: nothing is written over anything, and what is drawn is what was measured."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from drawing_of_texts import overlaps
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from privbandit_agents.audits.claims import AuditResult, Claim, Game
from privbandit_agents.cli.audit import FACTORS, Found, picture
from privbandit_agents.experiments.results.statistics import Floats, Interval
from privbandit_agents.experiments.schema.figures import FigureSpec
from privbandit_agents.experiments.views.figures import composed, label_numbers
from privbandit_agents.experiments.views.layout import Panel
from privbandit_agents.experiments.views.lines import frontier_of, panels_of, with_budgets
from privbandit_agents.experiments.views.plots import plot_along, plot_frontier, plot_regret
from privbandit_agents.experiments.views.style import (
    DASHES,
    PALETTE,
    Line,
    luminance,
    readable,
    save,
    shades,
    styles_of,
)


def around(mean: list[float], half_width: list[float]) -> Interval[Floats]:
    return Interval(np.array(mean), np.subtract(mean, half_width), np.add(mean, half_width))


def made_up(
    agents: dict[str, Any], seeds: int = 6, horizon: int = 1000, envs: tuple[str, ...] = ("a/World-v0",)
) -> pl.DataFrame:
    """Return a table of results; agents are labels with notion, epsilon, rho and the regret at the end."""
    rng, rows = np.random.default_rng(0), []
    for env in envs:
        for label, (notion, epsilon, rho, regret) in agents.items():
            for seed in range(seeds):
                end = regret * np.exp(0.1 * rng.standard_normal())
                for share in (0.25, 0.5, 0.75, 1.0):
                    rows.append(
                        {
                            "env": env,
                            "horizon": horizon,
                            "agent": label.partition(" ")[0],
                            "label": label,
                            "notion": notion,
                            "epsilon": epsilon,
                            "rho": rho,
                            "seed": seed,
                            "checkpoint": int(share * horizon),
                            "regret": end * share,
                            "agent.calibration": "published" if "published" in label else "correct",
                        }
                    )
    return pl.DataFrame(rows, schema_overrides={"epsilon": pl.Float64, "rho": pl.Float64})


NONE = ("none", None, None)
SWEEP = {
    "uniform": (*NONE, 900.0),
    "linucb alpha=0.5": (*NONE, 90.0),
    "greedy": (*NONE, 130.0),
    "ldp-greedy epsilon=1": ("local", 1.0, None, 800.0),
    **{f"jdp-linucb epsilon={e}": ("joint", float(e), None, 700.0 / e**0.5) for e in (0.1, 0.5, 1, 4, 8)},
    **{f"fliphat epsilon={e}, calibration=published": ("joint", float(e), None, 300.0) for e in (0.5, 4)},
    **{f"dpmnl rho={r}": ("joint", None, r, 600.0) for r in (0.01, 1.0)},
}  # fmt: skip
MANY = {f"agent-{i}": (*NONE, 100.0 + i % 3) for i in range(24)}
LONG = {
    f"a-package-of-somebody-else-agent-{i} with_a_long_setting={i}, and_another=2": (*NONE, 50.0 + i) for i in range(3)
}


ONE, THREE = ("a/World-v0",), ("a/World-v0", "a/Other-v0(dim=5)", "a/Third-v0")
WHO = {"sweep": SWEEP, "many": MANY, "long": LONG}
QUICK = {("sweep", 3, ONE), ("many", 3, THREE), ("long", 3, THREE)}


def shape(who: str, seeds: int, envs: tuple[str, ...]) -> Any:
    name, quick = f"{who}-{seeds}-{len(envs)}", (who, seeds, envs) in QUICK
    return pytest.param(WHO[who], seeds, envs, id=name, marks=() if quick else pytest.mark.slow)


SHAPES = [shape(who, seeds, envs) for who in WHO for seeds in (1, 3, 8) for envs in (ONE, THREE)]


@pytest.mark.parametrize(("agents", "seeds", "envs"), SHAPES)
@pytest.mark.wide
def test_no_text_lies_over_another(agents: dict[str, Any], seeds: int, envs: tuple[str, ...]) -> None:
    frame = made_up(agents, seeds, 5 * 10**8 if seeds == 3 else 1000, envs)
    assert overlaps(plot_regret(frame, title="A title")) == []
    if agents is SWEEP:
        assert overlaps(plot_frontier(frame)) == []


def test_the_check_of_texts_notices_one_over_another() -> None:
    figure = Figure()
    figure.text(0.5, 0.5, "one")
    figure.text(0.51, 0.5, "two")
    assert overlaps(figure) == [("one", "two")]
    figure.texts[1].set_position((0.99, 0.5))
    assert overlaps(figure) == [("two", "the edge")]


class OneGame(Game):
    name = "somebody-s-long-name, all releases"
    pair = "two records"

    def play(self, world: int, runs: int, rng: Any) -> Any:
        raise NotImplementedError


@pytest.mark.wide_but("claim0-*-False", "claim0-0.9-True", "claim1-2.5-True")
@pytest.mark.parametrize("curve", [False, True])
@pytest.mark.parametrize("found", [0.0, 0.9, 2.5, np.inf])
@pytest.mark.parametrize("claim", [Claim(0.01), Claim.gaussian(1.0, 1e-5), Claim(np.inf, 0.01, 2.0)])
def test_the_picture_of_an_audit_has_no_text_over_another(claim: Claim, found: float, curve: bool) -> None:
    shares = np.linspace(0, 1, 50)
    bound = found * min(claim.epsilon, 1e3) if claim.rho is None else claim.rho * found**2
    result = AuditResult(OneGame.name, claim, bound, 0.999, "an event", 500, np.stack([shares, shares**0.7]))
    power = None if result.refuted else dict(zip(FACTORS, (0.01, 0.9, 1.0), strict=True))
    figure = picture(Found(OneGame(), result, power), curve)
    assert overlaps(figure) == []
    assert ("REFUTED" in figure.get_suptitle()) == (found > 1) and len(figure.axes) == 1 + curve
    (bar,) = figure.axes[0].patches
    assert bar.get_extents().transformed(figure.axes[0].transData.inverted()).x1 == pytest.approx(
        min(found, 52.5)
    )  # in shares of the claim, as far as is drawn
    assert len(figure.axes[0].lines) == 1 + 3 * (found < 1)  # the claim, and a dot for each power


def test_final_regret_along_a_setting_has_a_line_per_agent_and_a_panel_per_world() -> None:
    frame = pl.concat(
        made_up(
            {"uniform": (*NONE, 10.0 * dim), "greedy alpha=2": (*NONE, dim)}, 3, envs=(f"a/W-v0(dim={dim}, m=2)",)
        ).with_columns(pl.lit(dim).alias("env.dim"), pl.lit(2.0).alias("agent.alpha"))
        for dim in (2, 4, 8)
    )
    figure = plot_along(frame, "env.dim")
    (axis,) = figure.axes
    assert axis.get_title("left") == "W-v0 (m=2)" and axis.get_xlabel() == "dim" and overlaps(figure) == []
    uniform = next(line for line in axis.lines if line.get_label() == "uniform" or line.get_color() == "#777777")
    assert np.asarray(uniform.get_xdata()).tolist() == [2, 4, 8]
    assert len(plot_along(frame, "agent.alpha").axes) == 3  # the worlds stay apart
    with pytest.raises(ValueError, match=r"x must be one of .*'env.dmi' \(did you mean 'env.dim'\?\)"):
        plot_along(frame, "env.dmi")
    with pytest.raises(ValueError, match="'epsilon' has none"):
        plot_along(frame, "epsilon")


def test_a_frontier_has_lines_along_epsilon_and_two_levels() -> None:
    ((_, rows),) = panels_of(with_budgets(made_up(SWEEP).filter(checkpoint=1000))).items()
    lines = {line.label: line for line in frontier_of(rows)}
    assert lines["jdp-linucb"].x.tolist() == [0.1, 0.5, 1, 4, 8] and not lines["jdp-linucb"].level
    assert lines["fliphat, as published, no proof"].x.tolist() == [0.5, 4]
    assert lines["dpmnl"].x == pytest.approx([0.54573, 7.07720], abs=1e-4)  # rho of 0.01 and 1 at delta = 1e-5
    levels = {name for name, line in lines.items() if line.level}
    assert levels == {"uniform", "best without privacy: linucb alpha=0.5"}
    own = rows.filter(label="jdp-linucb epsilon=4")["regret"].to_numpy()
    assert lines["jdp-linucb"].mean.value[3] == pytest.approx(own.mean())
    assert lines["jdp-linucb"].mean.half_width[3] == pytest.approx(2.570582 * own.std(ddof=1) / 6**0.5, rel=1e-5)


def test_a_frontier_needs_a_private_agent() -> None:
    with pytest.raises(ValueError, match="needs an agent that promises privacy; these results have none"):
        plot_frontier(made_up(MANY, 2))


def test_intervals_on_logarithmic_axes_stay_above_zero_and_all_within_what_is_possible() -> None:
    line = Line("a", "a", np.array([1.0, 2.0]), around([10.0, 0.5], [30.0, 0.8]), 3)
    low, high = line.interval(log=True)
    assert (low > 0).all() and low * high == pytest.approx(line.mean.value**2)
    low, high = line.interval(False, 0.0, 1.0)
    assert low.tolist() == [0, 0] and high.tolist() == [1, 1]
    assert line.interval(False)[0].tolist() == pytest.approx([-20, -0.3])


def test_numbers_of_one_setting_are_shades_in_its_order_and_dashes_tell_the_privacy() -> None:
    figure = plot_regret(made_up(SWEEP))
    assert len(figure.axes) == 1
    labels = [f"jdp-linucb epsilon={e}" for e in (4, 0.1, 8, 0.5, 1)]
    lines = [Line(label, "jdp-linucb", np.ones(1), around([1], [1]), 5, notion="joint") for label in labels]
    styles = styles_of([lines])
    order = [f"jdp-linucb epsilon={e}" for e in (0.1, 0.5, 1, 4, 8)]
    light = [luminance(np.array(to_rgb(styles[label]["color"]))) for label in order]
    assert light == sorted(light, reverse=True) and len(set(light)) == 5
    assert {styles[label]["linestyle"] for label in order} == {DASHES["joint"]}


@pytest.mark.parametrize("color", PALETTE)
def test_labels_are_dark_enough_to_read(color: str) -> None:
    for shade in shades(color, 5):
        assert 1.05 / (luminance(np.array(to_rgb(readable(shade)))) + 0.05) >= 4.5


def test_few_seeds_are_thin_lines_and_many_have_a_band() -> None:
    for seeds, thin, bands in ((3, 3, 0), (6, 0, 1)):
        axis = plot_regret(made_up({"greedy": SWEEP["greedy"]}, seeds)).axes[0]
        widths = [line.get_linewidth() for line in axis.lines]
        assert sum(width < 1 for width in widths) == thin and len(axis.collections) == bands
    assert plot_regret(made_up(MANY, 3)).get_supxlabel().startswith("mean, and each of 3 seeds thin")
    assert plot_regret(made_up(SWEEP, 3)).legends[0].get_title().get_text().startswith("mean, and each of 3 seeds")


@pytest.mark.parametrize(
    ("most", "label", "text"),
    [(5e5, "users", "250,000"), (5e6, "users (millions)", "0.25"), (1e9, "users (billions)", "0.00025")],
)
def test_axes_from_a_million_on_have_a_scale(most: float, label: str, text: str) -> None:
    axis = Figure().subplots()
    axis.set_xlabel("users")
    axis.set_xlim(0, most)
    label_numbers(axis.xaxis, most)
    assert axis.get_xlabel() == label and axis.xaxis.get_major_formatter()(250_000) == text


@pytest.mark.wide_at("World-*")
@pytest.mark.parametrize("title", ["", "Regret", "Mean squared error of ten million users, and its power of epsilon"])
@pytest.mark.parametrize("panel", ["World", "Linear-v0 (design=ill, dim=2, n_arms=3, support=200)"])
def test_what_decides_nothing_says_so_on_the_figure(panel: str, title: str) -> None:
    spec = FigureSpec(name="f", x="users", y="regret", title=title)
    line = Line("greedy", "greedy", np.array([1.0, 2.0]), around([1.0, 2.0], [0.1, 0.1]), 8)
    stamped = composed(spec, [(Panel(panel, []), [line])], stamp="smoke: decides nothing")
    assert "smoke: decides nothing" in [text.get_text() for text in stamped.texts] and overlaps(stamped) == []


@pytest.mark.wide
def test_every_figure_is_to_be_had_for_print(tmp_path: Path) -> None:
    save(plot_regret(made_up(SWEEP, 2)), tmp_path / "f.png", ("pdf", "svg"))
    starts = {path.suffix: path.read_bytes()[:5] for path in tmp_path.iterdir()}
    assert starts == {".png": b"\x89PNG\r", ".pdf": b"%PDF-", ".svg": b"<?xml"}
    assert "jdp-linucb epsilon=0.5" in (tmp_path / "f.svg").read_text()  # text stays text
