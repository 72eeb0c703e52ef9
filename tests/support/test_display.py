"""The display of a run: what it says, in terminals of any width and in files."""

import math
import re
import subprocess
import sys

import pytest

from ddopg.core.algorithm import Info
from ddopg.core.types import Evaluation
from ddopg.support.display import describe_rollout, fit_parts, format_with_error, show_progress

LATER = Info(316, 20_096, 951.2, 100, 944.3, 26.4, 950.0, 700.0, 5.8, 4.69, 15, "step_limit", "")
EVALUATED = Evaluation(315, 20_000, 930.12, 20.0, 871.0, 100)
DESIGN = LATER._replace(rollout=2, steps=31, incumbent=49.99, incumbent_error=math.nan, ess=math.nan)


@pytest.fixture
def terminal(monkeypatch):
    def of(width):
        for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
            monkeypatch.setenv(name, value)

    return of


def lines(text):
    """What a terminal showed last, without its control codes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (944.33, 26.4, "944 ± 26"),
        (714.12, 346.1, "714 ± 346"),
        (-0.123456, 0.00213, "-0.1235 ± 0.0021"),
        (5.0, 1.26, "5.0 ± 1.3"),
        (3.2e9, 1.5e7, "3.2e+09 ± 1.5e+07"),
        (1.0, 1e-9, "1 ± 1e-09"),
        (812.3456, math.nan, "812.3"),
        (812.3456, 0.0, "812.3"),
        (-21.4442, 7.9e-16, "-21.44"),
        (-math.inf, math.nan, "-inf"),
    ],
)
def test_the_error_says_how_many_digits_the_value_deserves(value, error, text):
    assert format_with_error(value, error) == text


def test_everything_is_there_and_the_unit_of_the_budget_is_not_said_twice():
    known = ["return 951.2", "estimate 944 ± 26", "ESS 5.8", "√Σ 4.69"]
    assert describe_rollout(LATER, "steps") == ["rollout 316", *known]
    assert describe_rollout(LATER, "episodes")[:2] == ["rollout 316", "20,096 steps"]
    assert describe_rollout(DESIGN, "steps") == [
        "rollout 2",
        "return 951.2",
        "estimate 49.99",
        "initial design",
    ]
    of_critic = DESIGN._replace(outcome="not_searched")
    assert describe_rollout(of_critic, "steps")[-1] == "actor of the critic"
    of_process = DESIGN._replace(outcome="gaussian_process")
    assert describe_rollout(of_process, "steps")[-1] == "Gaussian process"


def test_what_was_measured_stands_before_what_is_estimated():
    shown = describe_rollout(LATER, "steps", EVALUATED)
    assert shown[1:4] == ["return 951.2", "evaluation 930.1 ± 2.0 at 20,000 steps", "estimate 944 ± 26"]


@pytest.mark.parametrize("width", range(1, 120))
def test_no_part_is_cut_and_none_is_left_out_that_would_fit(width):
    parts = describe_rollout(LATER, "episodes", EVALUATED)
    shown = fit_parts(parts, width).split(" · ")
    assert shown == parts[: len(shown)]
    assert len(" · ".join(shown)) <= width or len(shown) == 1
    assert len(shown) == len(parts) or len(" · ".join(parts[: len(shown) + 1])) > width


@pytest.mark.parametrize(
    ("width", "last"), [(30, "return 951.2"), (60, "ESS 5.8"), (80, "√Σ 4.69"), (120, "√Σ 4.69")]
)
def test_a_terminal_shows_two_lines_that_fit(width, last, terminal, capsys):
    terminal(width)
    with show_progress(True, 30_000, "steps") as show:
        show(31, DESIGN, None)
        show(20_096, LATER, None)
    text = capsys.readouterr().err
    assert "\x1b[" in text
    bar, known = [line for line in lines(text) if line.strip()][-2:]
    assert bar.startswith("20,096/30,000 steps ")
    assert "left" in bar
    assert known.startswith("rollout 316")
    assert known.endswith(last)
    assert max(map(len, lines(text))) <= width


def test_a_file_gets_plain_lines_now_and_then(capsys):
    with show_progress(True, 200, "episodes") as show:
        for k in range(1, 201):
            show(k, LATER._replace(rollout=k), EVALUATED)
    text = capsys.readouterr().err
    assert "\x1b" not in text
    assert "\r" not in text
    shown = text.splitlines()
    assert [line.split("/")[0] for line in shown] == ["1", *map(str, range(20, 201, 20))]
    parts = "rollout 200 · 20,096 steps · return 951.2 · evaluation 930.1 ± 2.0 at 20,000 steps · estimate 944 ± 26"
    assert shown[-1] == f"200/200 episodes · {parts} · ESS 5.8 · √Σ 4.69 · left 0:00:00"


def test_a_resumed_run_is_counted_from_its_beginning_and_its_time_from_now(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("ddopg.support.display.time.monotonic", lambda: now[0])
    with show_progress(True, 5000, "steps", first=4000) as show:
        now[0] += 10
        show(4012, LATER, None)
    line = capsys.readouterr().err
    assert line.startswith("4,012/5,000 steps · ")
    assert line.endswith("left 0:13:43\n")  # 10 s for 12 steps, 988 to go


def test_a_terminal_counts_a_resumed_run_from_its_beginning(terminal, capsys):
    terminal(80)
    with show_progress(True, 5000, "steps", first=4000) as show:
        show(4012, LATER, EVALUATED)
    shown = [line for line in lines(capsys.readouterr().err) if line.strip()]
    assert shown[-2].startswith("4,012/5,000 steps ")
    assert shown[-1] == "rollout 316 · return 951.2 · evaluation 930.1 ± 2.0 at 20,000 steps"


NOTEBOOK = """
import builtins, importlib.util
class ZMQInteractiveShell: pass  # by this name, rich knows a notebook
builtins.get_ipython = ZMQInteractiveShell
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "ipywidgets" else find(name, *rest)
from ddopg.support.display import show_progress
from tests.support.test_display import LATER
with show_progress(True, 100, "steps") as show:
    show(10, LATER, None)
    show(100, LATER, None)
"""


@pytest.mark.long
def test_a_notebook_without_ipywidgets_gets_lines():
    command = [sys.executable, "-W", "error::UserWarning", "-c", NOTEBOOK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split(" · ")[0] for line in done.stderr.splitlines()] == ["10/100 steps", "100/100 steps"]


def test_a_slow_run_gets_a_line_a_minute_and_says_how_long_it_will_take(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("ddopg.support.display.time.monotonic", lambda: now[0])
    with show_progress(True, 1000, "steps") as show:
        for k in range(1, 8):
            now[0] += 25
            show(k, LATER, None)
    shown = capsys.readouterr().err.splitlines()
    assert [line.split("/")[0] for line in shown] == ["1", "4", "7"]
    assert shown[0].endswith("left 6:56:15")


def test_quiet_is_quiet(capsys):
    with show_progress(False, 10, "steps") as show:
        show(5, LATER, None)
    assert capsys.readouterr() == ("", "")
