"""The page in a real browser: it loads in silence, its slider computes what ddopg computes, it can be read."""

import itertools
import os
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ddopg import report
from ddopg.cli.reproduce import make_recipe
from ddopg.core import estimators
from ddopg.core.algorithm import build_surrogate_data
from ddopg.core.policy_building import build_policy
from ddopg.core.surrogate import ESTIMATORS, estimate, log_weights, weighted
from ddopg.report import section
from ddopg.report.page import build_page
from tests.report import conftest
from tests.report.conftest import data_of, unpacked, with_estimator

pytestmark = pytest.mark.long

WIDTHS = {"phone": 360, "desktop": 1280}
EVIL = "</script><img src=x onerror=alert(1)>{{script}}"
CURVE = "chosen.curve.map((b) => [b.mean, b.deviation, b.ess, b.lower, ...b.weights])"
PROBLEMS = """() => {
  const shown = (node) => node.getClientRects().length > 0;
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => c.slice(0, 3).map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const c = colour(getComputedStyle(node).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const host = node.parentElement, style = getComputedStyle(host);
    if (!node.data.trim() || !shown(host) || host.closest("script, style, noscript, option, :disabled")) continue;
    const size = parseFloat(style.fontSize);
    if (size < 12) found.push(`${size} px: ${node.data}`);
    const ink = light(colour(host.closest("svg") ? style.fill : style.color)), ground = light(behind(host));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(1)}: ${node.data}`);
  }
  for (const text of document.querySelectorAll("svg text")) {
    const frame = text.ownerSVGElement.getBoundingClientRect(), box = text.getBoundingClientRect();
    const cut = box.left < frame.left - 1 || box.right > frame.right + 1;
    if (shown(text) && cut) found.push(`cut: ${text.textContent}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push("wider than the screen");
  return found;
}"""


STRICT = """
  const guard = (values, name) => new Proxy(values, { get(target, key) {
    if (typeof key === "string" && !(key in target)) console.error(`no setting ${name}.${key}`);
    return target[key];
  } });
  const parse = JSON.parse;
  JSON.parse = (text) => {
    const data = parse(text);
    for (const run of data.runs) {
      for (const [part, values] of Object.entries(run.config)) {
        if (typeof values === "object") run.config[part] = guard(values, part);
      }
      run.config = guard(run.config, "config");
    }
    return data;
  };
"""


class Visit:
    """A page that was opened, and what was heard meanwhile."""

    def __init__(self, browser, path, width=1280, scheme="light", first=""):
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page.add_init_script(first)
        self.heard, self.requests = [], []
        self.page.on("console", lambda message: self.heard.append(message.text))
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.heard.append("dialog"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def drawn(self, curve="mean"):
        return self.page.get_attribute(f"#{curve}-curve", "d")

    def slide(self, name, value):
        self.page.locator(f"#{name}").evaluate(
            "(node, value) => { node.value = value; node.dispatchEvent(new Event('input')); }", str(value)
        )


@pytest.fixture
def visit(browser, report):
    opened = []

    def open_page(path=report, **options):
        opened.append(Visit(browser, path, **options))
        return opened[-1]

    yield open_page
    for each in opened:
        each.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_it_loads_in_silence_and_can_be_read(visit, report, width, scheme):
    seen = visit(width=width, scheme=scheme)
    seen.page.evaluate("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    for run in range(len(data_of(report)["runs"])):
        seen.page.select_option("#run", str(run))
        assert seen.page.evaluate(PROBLEMS) == []
    assert seen.heard == []
    assert seen.requests == [report.as_uri()]


def test_every_setting_that_the_page_reads_is_one_of_the_configuration(visit, report):
    seen = visit(first=STRICT)
    for run in range(len(data_of(report)["runs"])):
        seen.page.select_option("#run", str(run))
    assert seen.heard == []


def test_the_parameters_of_a_controller_are_shown_with_their_units_and_a_network_has_none(visit, report):
    seen = visit()
    assert not seen.page.is_visible("#controller")
    seen.page.select_option("#run", "5")
    rows = seen.page.locator("#controller-table tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    shown = data_of(report)["runs"][5]["controller"]["parameters"]
    incumbent = seen.page.evaluate(f"{[each['value'] for each in shown]}.map(text)")
    assert [row[1] for row in rows] == incumbent
    assert [row[:1] + row[2:] for row in rows] == [
        ["position", "N/m", "1", "0.1 to 4", "free, log"],
        ["factor", "–", "1", "none", "fixed"],
        ["angle", "N/rad", "−40", "−∞ to 0", "free"],
    ]
    charts = seen.page.locator("#controller-charts svg")
    assert charts.count() == 2
    assert charts.nth(1).locator(".dot").count() == 12
    charts.nth(1).focus()
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.inner_text("#tip").splitlines()[1] == "angle = −40 N/rad"
    seen.page.select_option("#run", "0")
    assert not seen.page.is_visible("#controller")
    assert seen.heard == []


def test_rollouts_of_the_gaussian_process_are_named_as_such_and_others_are_not(visit):
    seen = visit()
    assert "around the centre" in seen.page.inner_text("#rollouts-legend")
    seen.page.select_option("#run", "5")
    for legend in ("#rollouts-legend", "#controller-legend"):
        named = seen.page.inner_text(legend)
        assert "proposed by the Gaussian process" in named
        assert "centre" not in named
    assert "Gaussian process" in seen.page.inner_text("#rollouts-words")


def test_the_page_says_how_the_surrogate_of_the_run_differs(visit):
    seen = visit()
    words = seen.page.inner_text("#section-fine")
    assert "with weights per decision, on rewards less the effect of the start" in words
    assert "by what parameters change of the policy’s raw output" in words
    seen.page.select_option("#run", "3")
    words = seen.page.inner_text("#section-fine")
    assert "The run itself uses this very estimator." in words
    assert "in plain parameters" in words


def test_an_estimator_that_the_page_does_not_know_is_its_dotted_line(visit, readings, tmp_path, monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "doubled", lambda log_w, data, config: 2 * weighted(log_w, data, config))
    path = tmp_path / "page.html"
    doubled = with_estimator(readings[3], "doubled")
    path.write_text(
        build_page(report.collect_data([doubled], "now", make_recipe) | {"command": "ddopg report"})
    )
    seen = visit(path)
    assert "The run itself estimates otherwise, with the estimator “doubled”;" in seen.page.inner_text(
        "#section-fine"
    )
    assert seen.page.locator("#section-chart .line.own").count() == 1
    assert seen.heard == []


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_slider_and_curve_are_on_the_screen_together(visit, width):
    seen = visit(width=width)
    top = seen.page.locator("#sigma").bounding_box()["y"]
    chart = seen.page.locator("#section-chart").bounding_box()
    assert 0 < chart["y"] + chart["height"] - top < 700


def test_light_and_dark_differ(visit):
    backgrounds = {
        visit(scheme=scheme).page.evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert len(backgrounds) == 2


def test_the_slider_changes_the_curves_and_the_button_brings_them_back(visit):
    seen = visit()
    before = [seen.drawn(curve) for curve in ("mean", "lower", "ess")]
    seen.slide("sigma", 40)
    after = [seen.drawn(curve) for curve in ("mean", "lower", "ess")]
    assert all(a != b for a, b in zip(before, after, strict=True))
    seen.page.click("#sigma-back")
    assert [seen.drawn(curve) for curve in ("mean", "lower", "ess")] == before


def test_the_slider_answers_to_the_keyboard_and_says_its_value(visit, report):
    seen = visit()
    before, weights = seen.drawn(), seen.page.inner_html("#weights-chart")
    seen.page.focus("#sigma")
    for _ in range(5):
        seen.page.keyboard.press("ArrowRight")
    sigma = data_of(report)["runs"][0]["section"]["sigma"] * np.exp(5 / 20)
    assert seen.page.evaluate("chosen.sigma") == pytest.approx(sigma, rel=1e-12)
    assert seen.drawn() != before
    assert seen.page.inner_html("#weights-chart") != weights
    said = seen.page.get_attribute("#sigma", "aria-valuetext")
    assert said == seen.page.inner_text("#sigma-said")
    assert float(said.split()[2].replace(",", "")) == pytest.approx(sigma, rel=1e-3)


@pytest.mark.parametrize("run", [0, 3, 4], ids=["trajectory", "paper", "robot"])
def test_the_page_computes_what_our_estimators_compute(visit, report, float64, run):
    seen, data = visit(), data_of(report)["runs"][run]["section"]
    counts, returns = np.array(data["counts"], float), np.array(data["returns"])
    n = len(counts)
    seen.page.select_option("#run", str(run))
    for slider, (k, line) in itertools.product((-60, 0, 35), enumerate(data["lines"])):
        sigma = data["sigma"] * np.exp(slider / 20)
        seen.page.select_option("#direction", str(k))
        seen.slide("sigma", slider)
        between, distances = unpacked(data["between"], n), unpacked(line["distances"], n)
        expected = believed(between, distances, counts, returns, sigma, data["bound"], data["delta"])
        found = np.array(seen.page.evaluate(CURVE))
        assert found.shape == (81, 4 + n)
        assert np.allclose(found, expected, rtol=1e-6, atol=1e-6)


@jax.jit
def believed(between, distances, counts, returns, sigma, bound, delta):
    """(mean, deviation, ESS, lower bound, weights) at every point (P, N) of a line, by the package's functions."""
    log_q = estimators.log_mixture(-between / (2 * sigma**2), counts)

    def at(row):
        log_w = -row / (2 * sigma**2) - log_q
        mean = estimators.weighted_importance_sampling_return(log_w, returns, counts)
        deviation = jnp.sqrt(estimators.return_variance(log_w, returns, counts))
        ess = estimators.effective_sample_size(log_w, counts)
        numbers = (mean, deviation, ess, estimators.lower_bound(mean, ess, bound, delta))
        return jnp.concatenate([jnp.stack(numbers), estimators.normalised_weights(log_w, counts)])

    return jax.vmap(at)(distances)


def test_at_the_runs_sigma_it_is_the_surrogate_of_a_run_with_the_papers_estimator(visit, readings):
    reading, seen = readings[3], visit()
    seen.page.select_option("#run", "3")
    policy, config = build_policy(reading.about.problem, reading.about.config), reading.about.config.surrogate
    data = build_surrogate_data(reading.state, policy, reading.about.config).data
    sample = section.choose_sample(reading, policy)
    (line, *_) = section.choose_lines(reading, sample)
    thetas = section.place_policies(line, reading.state.incumbent.theta, sample.param_scale).astype(
        np.float32
    )
    found = np.array(seen.page.evaluate(CURVE))
    bound = reading.state.return_bound
    believe = jax.jit(lambda at: estimate(log_weights(policy, at, data, config), data, bound, config))
    own = jax.vmap(believe)(thetas)
    for column, expected in enumerate((own.mean, np.sqrt(own.variance), own.ess, own.lower_bound)):
        assert np.allclose(found[:, column], expected, rtol=1e-3, atol=1e-3 * bound)


def test_the_weights_of_the_memory_are_those_of_the_run_itself(visit, readings):
    reading, seen = readings[0], visit()
    policy, config = build_policy(reading.about.problem, reading.about.config), reading.about.config.surrogate
    surrogate = build_surrogate_data(reading.state, policy, reading.about.config)
    data, selection = surrogate.data, surrogate.sample.selection
    log_w = jax.jit(log_weights, static_argnums=(0, 3))(policy, reading.state.incumbent.theta, data, config)
    own = estimate(log_w, data, 1.0, config)
    top = int(np.argmax(own.weights))
    first = seen.page.locator("#memory-table tbody tr").first.inner_text().split("\t")
    assert int(first[0]) == selection.indices[top] + 1
    assert float(first[3].removesuffix(" %")) == pytest.approx(100 * float(own.weights[top]), abs=0.11)


def test_the_numbers_beside_the_curve_belong_to_the_place_chosen(visit):
    seen = visit()
    seen.slide("place", 55)
    mean, ess = seen.page.evaluate("[text(chosen.curve[55].mean), formatEss(chosen.curve[55].ess)]")
    assert (seen.page.inner_text("#said-mean"), seen.page.inner_text("#said-ess")) == (mean, ess)


def test_points_say_what_they_are_to_the_pointer_and_to_the_keyboard(visit):
    seen = visit()
    chart = seen.page.locator("#rollouts-chart svg")
    chart.scroll_into_view_if_needed()
    assert chart.get_attribute("tabindex") == "0"
    chart.focus()
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.inner_text("#tip").startswith("rollout 1: initial design\nreturn")
    seen.page.keyboard.press("Escape")
    assert not seen.page.is_visible("#tip")
    seen.page.locator("#rollouts-chart .dot").nth(4).hover()
    assert seen.page.inner_text("#tip").startswith("rollout")


def test_seeds_have_colours_of_their_own(visit):
    seen = visit()
    of = "[...document.querySelectorAll('#groups > div')].map((card) => [...card.querySelectorAll('path[data-run]')]"
    groups = seen.page.evaluate(f"{of}.map((node) => getComputedStyle(node).stroke))")
    assert len(groups[0]) == 3
    assert all(len(set(strokes)) == len(strokes) for strokes in groups)


def test_a_button_switches_a_seed_off_and_pointing_at_it_makes_the_others_pale(visit):
    seen = visit()
    curves = seen.page.locator("#groups > div").first.locator("path[data-run]")
    button = seen.page.locator(".seed-switch").first
    button.hover()
    pale = curves.evaluate_all("(nodes) => nodes.map((node) => node.classList.contains('pale'))")
    assert pale == [False, True, True]
    button.click()
    assert curves.count() == 2
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    assert curves.count() == 3


def test_the_filter_keeps_what_has_all_its_words(visit):
    seen = visit()
    runs = seen.page.locator("#run option").count()
    seen.page.fill("#filter", "cartpole SEED 2")
    assert seen.page.locator("#groups path[data-run]:visible").count() == 1
    assert seen.page.inner_text("#filter-said") == f"1 of {runs} runs"
    assert seen.page.locator("#run option").count() == seen.page.locator("#runs-table tbody tr").count() == 1
    assert seen.page.evaluate("chosen.run.seed") == 2
    seen.page.fill("#filter", "")
    assert seen.page.locator("#run option").count() == runs


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("withError(812.3456, 3.1234)", "812.3 ± 3.1"),
        ("withError(-1051.4, 216.2)", "−1,051 ± 216"),
        ("withError(1000, 0)", "1,000 ± 0"),
        ("withError(null, 3)", "–"),
        ("tickTexts([0, 500, 1000]).join(' ')", "0 500 1,000"),
        ("tickTexts([999.9, 999.95, 1000]).join(' ')", "999.90 999.95 1,000.00"),
        ("tickTexts([12340, 12340.2]).join(' ')", "12,340.0 12,340.2"),
        ("withInterval(969.123, [557.2, 1000])", "969 [557, 1,000]"),
        ("formatEss(7.7693)", "7.8"),
    ],
)
def test_numbers_have_the_digits_that_their_errors_leave(visit, expression, expected):
    assert visit().page.evaluate(expression) == expected


def test_a_hostile_name_stays_a_name(visit, readings, tmp_path):
    about = readings[0].about._replace(environment=EVIL, version=EVIL)
    hostile = readings[0]._replace(about=about, purposes=[EVIL, *readings[0].purposes[1:]])
    path = tmp_path / "hostile.html"
    path.write_text(build_page(report.collect_data([hostile], EVIL, make_recipe) | {"command": EVIL}))
    seen = visit(path)
    assert EVIL in seen.page.inner_text("h1")
    assert seen.page.locator("img").count() == 0
    assert (seen.heard, seen.requests) == ([], [path.as_uri()])


def test_the_page_may_fetch_nothing_and_run_nothing_else(visit):
    seen = visit()
    seen.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.caught = 1'}))"
    )
    seen.page.evaluate("fetch('http://localhost/').catch(() => 0)")
    assert seen.page.evaluate("window.caught") is None
    assert len(seen.heard) >= 2
    assert all("Content Security Policy" in text for text in seen.heard[:2])


def test_a_video_in_the_directory_plays(visit, directories, tmp_path):
    run = shutil.copytree(directories.seeds[0], tmp_path / "run")
    words = ("play", run, "--video", run / "policy.mp4")
    subprocess.run([sys.executable, "-m", "ddopg", *map(str, words)], check=True, capture_output=True)
    path = tmp_path / "page.html"
    report.write([run], path, "now", make_recipe)
    seen = visit(path)
    seen.page.wait_for_function("document.querySelector('video').readyState >= 2")
    assert seen.page.evaluate("document.querySelector('video').videoWidth") > 0
    assert seen.heard == []


def test_a_run_without_a_surrogate_or_a_video_says_so(visit, readings, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MOST_SECTIONS", 0)
    path = tmp_path / "page.html"
    path.write_text(
        build_page(report.collect_data(readings[:1], "now", make_recipe) | {"command": "ddopg report"})
    )
    seen = visit(path)
    assert "Only the first 0 runs" in seen.page.inner_text("#section-words")
    assert not seen.page.is_visible("#sigma")
    assert f"ddopg play {readings[0].directory} --video" in seen.page.inner_text("#video")
    assert seen.heard == []


def test_without_a_browser_these_tests_fail_in_ci_and_say_why_elsewhere(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(os.environ, "CI", "true")
    with pytest.raises(pytest.fail.Exception, match="install chromium"):
        conftest.browser_path()
    monkeypatch.delitem(os.environ, "CI")
    with pytest.raises(pytest.skip.Exception, match="install chromium"):
        conftest.browser_path()
