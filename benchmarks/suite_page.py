"""The results on the suite `small-budget`, from saved records: two pictures, and the tables of docs/benchmark.md.

    python benchmarks/suite_page.py            # draw both pictures, and write the tables into the page
    python benchmarks/suite_page.py print      # print the tables only

ddopg's runs are those of benchmarks/default/report, the rivals' those of benchmarks/small-budget. Nothing is run.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
from small_budget import OUT, SUITE

from ddopg import baselines
from ddopg.experiments.bench import benchmark
from ddopg.experiments.bench.overall import (
    collect_scores,
    compare_at,
    compare_scores,
    find_covered,
    find_median_steps,
    summarise_scores,
)
from ddopg.experiments.bench.stats import (
    REFERENCES,
    SOLVED,
    bootstrap_profile,
    iqm,
    performance_profile,
    resample_curve,
    stratified_bootstrap,
)
from ddopg.experiments.bench.suites import find_suite
from ddopg.experiments.figures import curves
from ddopg.experiments.figures.curves import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, YELLOW, Band, Look

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmark.md"
IMAGES = HERE.parent / "docs" / "images"
OURS = HERE / "default" / "report"
LOOKS = {
    "ddopg": Look("ddopg, default", RED, "-", 2.8),
    "sac-zoo": Look("SAC (RL-Zoo)", BLACK),
    "tqc-zoo": Look("TQC (RL-Zoo)", BLACK, ":"),
    "ppo-tuned": Look("PPO", PINK, ":"),
    "trpo-tuned": Look("TRPO", PINK),
    "cmaes": Look("CMA-ES", BLUE),
    "pgpe": Look("PGPE", BLUE, ":"),
    "ars": Look("ARS", GREEN),
    "random": Look("random search", ORANGE),
    "turbo": Look("TuRBO", SKY),
    "optuna-gp": Look("Optuna GP", YELLOW),
}
FLOOR = -0.3  # score: what lies below is not drawn


def read_groups():
    """Task → method → records, in the order of the suite and of `LOOKS`; one budget per task and method."""
    found = [*benchmark.read_finished(OURS).values(), *benchmark.read_finished(OUT).values()]
    groups = {}
    for task in find_suite(SUITE):
        methods = {}
        for method in LOOKS:
            rows = [r for r in found if (r["env"], r["method"]) == (task.env, method) and is_present(r)]
            budgets = [r["budget"] for r in rows if r["budget"] <= task.budget]
            rows = [r for r in rows if r["budget"] == max(budgets, default=0)]
            if rows:
                methods[method] = rows
        if methods:
            groups[task.env] = methods
    return groups


def is_present(record):
    """Whether a record is of the algorithm that the method is now: one run of SAC is of stable-baselines3."""
    kind = record["kind"].partition(baselines.OWN)[0]
    return kind == baselines.find_method(record["method"]).kind


def find_fields(groups):
    """Sets of tasks and the methods that have run on all of them: those of ddopg, and those that SAC has, too."""
    ours = find_covered(groups, "ddopg")
    fields = []
    for rival in ("random", "sac-zoo"):
        tasks = [env for env in ours if groups[env].get(rival)]
        methods = [m for m in LOOKS if all(groups[env].get(m) for env in tasks)]
        if tasks and tasks not in [field[0] for field in fields]:
            fields.append((tasks, methods))
    return fields


def draw_suite(groups):
    """Score against the share of the budget, and performance profiles, for each set of tasks."""
    fields = find_fields(groups)
    picture = curves.make_picture(11, 0.7 + 3.4 * len(fields))
    for row, (tasks, methods) in zip(picture.subplots(len(fields), 2, squeeze=False), fields, strict=True):
        scores = {m: collect_scores(groups, m, tasks) for m in methods}
        for method, found in scores.items():
            draw_scores(row[0], found, LOOKS[method])
            draw_profile(row[1], found, LOOKS[method])
        names = (
            f"{len(tasks)} tasks" if len(tasks) > 5 else ", ".join(name.partition("-v")[0] for name in tasks)
        )
        row[0].set_title(names, fontsize=9, loc="left")
        row[0].set(xlabel="share of the budget", ylabel="IQM of scores", ylim=(FLOOR, 1.05))
        row[1].set(
            xlabel="score at the end", ylabel="share of runs above it", xlim=(FLOOR, 1.1), ylim=(0, 1.02)
        )
        for axes in row:
            axes.grid(alpha=0.25)
    handles = {}
    for axes in picture.axes:
        handles.update(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    picture.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False)
    return curves.save(picture, IMAGES / "suite.png")


def draw_scores(axes, found, look):
    every = list(found.by_task.values())
    marks = np.linspace(0, 1, every[0].shape[1] + 1)[1:]
    rng = np.random.default_rng(0)
    middle = [iqm(np.concatenate([v[:, k] for v in every])) for k in range(len(marks))]
    around = [stratified_bootstrap([v[:, k] for v in every], iqm, rng, draws=300) for k in range(len(marks))]
    curves.draw(axes, Band(marks, np.array(middle), *np.transpose(around)), look, 0.12)


def draw_profile(axes, found, look):
    thresholds = np.linspace(FLOOR, 1.1, 141)
    low, high = bootstrap_profile(found.last, thresholds, np.random.default_rng(0), draws=300)
    axes.fill_between(thresholds, low, high, color=look.colour, alpha=0.12, lw=0)
    shares = performance_profile(found.last, thresholds)
    axes.plot(thresholds, shares, look.line, color=look.colour, lw=look.width, label=look.label)


def draw_tasks(groups):
    """One small panel per task: the median over the runs, and the middle half of ddopg's."""
    tasks = find_suite(SUITE)
    picture = curves.make_picture(12, 10.6)
    panels = np.ravel(picture.subplots(4, 4))
    for axes, task in zip(panels, tasks, strict=False):
        for method, rows in groups.get(task.env, {}).items():
            steps, values = curves.stack_curves(rows)
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
            curves.draw(
                axes, Band(steps, middle, low, high), LOOKS[method], 0.2 if method == "ddopg" else 0.0
            )
        span = task.best - task.nothing
        axes.set_ylim(task.nothing + FLOOR * span, task.best + 0.06 * span)
        axes.set_xlim(0, task.budget)
        curves.draw_threshold(axes, task.solved)
        axes.axhline(task.nothing, color="0.8", lw=0.8)
        axes.set_title(task.env.removeprefix("ddopg/"), fontsize=9)
        axes.xaxis.set_major_formatter(curves.format_thousands)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
    for axes in panels[len(tasks) :]:
        axes.remove()
    handles = {}
    for axes in panels[: len(tasks)]:
        handles.update(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    picture.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False)
    return curves.save(picture, IMAGES / "suite-tasks.png")


def write_pairs(groups):
    """One row per rival, on the tasks that it shares with ddopg."""
    lines = [
        "| rival | tasks | runs per task | its score | ddopg's score there | its area | ddopg's area "
        "| solved: it, ddopg | worst runs: it, ddopg | P(ddopg better) |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for method in list(LOOKS)[1:]:
        tasks = [env for env in find_covered(groups, "ddopg") if groups[env].get(method)]
        if not tasks:
            continue
        its, ours = (collect_scores(groups, m, tasks) for m in (method, "ddopg"))
        a, b = summarise_scores(its), summarise_scores(ours)
        chance, (low, high) = compare_scores(ours, its)
        runs = f"{a.runs[0]}" if a.runs[0] == a.runs[1] else f"{a.runs[0]} to {a.runs[1]}"
        # Of single runs nothing can be redrawn: an interval would look certain.
        its_score = of(a.iqm, a.interval) if a.runs[1] > 1 else f"{a.iqm:.2f}"
        lines.append(
            f"| `{method}` | {a.tasks} | {runs} | {its_score} | {of(b.iqm, b.interval)} | {a.area:.2f} | "
            f"{b.area:.2f} | {a.solved:.2f}, {b.solved:.2f} | {a.worst_mean:.2f}, {b.worst_mean:.2f} | "
            f"{of(chance, (low, high))} |"
        )
    return "\n".join(lines).replace("-0.", "−0.").replace("-1.", "−1.")


def of(value, interval):
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]"


def write_returns(groups):
    """One row per task: IQM of the last returns, the number of runs where it is not ten, and steps to solved."""
    methods = [m for m in LOOKS if any(m in found for found in groups.values())]
    ends = compare_at(groups)
    lines = [
        "| task | compared at | " + " | ".join(f"`{m}`" for m in methods) + " |",
        "|---|---|" + "---|" * len(methods),
    ]
    for env, found in groups.items():
        cells = [describe_runs(found[m], ends[env], SOLVED.get(env)) if m in found else "–" for m in methods]
        lines.append(f"| {env.removeprefix('ddopg/')} | {ends[env]:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def describe_runs(rows, end, threshold):
    last = np.array([resample_curve(row["curve"], [end], np.nan)[0] for row in rows])
    digits = 0 if abs(iqm(last)) >= 20 else 1
    text = f"{float(iqm(last)):,.{digits}f}".replace("-", "−")
    solved = sum(any(step <= end and value >= threshold for step, value in row["curve"]) for row in rows)
    return f"{text} ({solved}/{len(rows)})"


def write_steps(groups):
    """One row per task: the median of the steps to solved, over all runs."""
    methods = [m for m in LOOKS if any(m in found for found in groups.values())]
    lines = ["| task | " + " | ".join(f"`{m}`" for m in methods) + " |", "|---|" + "---|" * len(methods)]
    for env, found in groups.items():
        steps = [
            find_median_steps(collect_scores({env: found}, m, [env]), env) if m in found else None
            for m in methods
        ]
        cells = ["–" if s is None else f"{s:,.0f}" if np.isfinite(s) else "never" for s in steps]
        lines.append(f"| {env.removeprefix('ddopg/')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_costs():
    """CPU seconds per 1,000 steps of every method, measured side by side; nothing before they are measured."""
    path = OUT / "cost.json"
    if not path.exists():
        return "Not measured yet: `python benchmarks/small_budget.py cost`."
    found = json.loads(path.read_text())
    lines = ["| method | first 1,000 steps | each 1,000 after |", "|---|---|---|"]
    for method, row in found["methods"].items():
        lines.append(f"| `{method}` | {row['first']:.1f} s | {row['later']:.2f} s |")
    return "\n".join([f"{found['what']}", "", *lines])


def write_wall_clock(groups):
    """Seconds of learning per run, without its evaluations: the median over the runs."""
    methods = [m for m in LOOKS if any(m in found for found in groups.values())]
    lines = ["| task | " + " | ".join(f"`{m}`" for m in methods) + " |", "|---|" + "---|" * len(methods)]
    for env, found in groups.items():
        cells = []
        for m in methods:
            seconds = [row["seconds"] - row["evaluation_seconds"] for row in found.get(m, [])]
            cells.append(f"{np.median(seconds):,.0f}" if seconds else "–")
        lines.append(f"| {env.removeprefix('ddopg/')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_tables(groups):
    return {
        "pairs": write_pairs(groups),
        "returns": write_returns(groups),
        "steps": write_steps(groups),
        "seconds": write_wall_clock(groups),
        "costs": write_costs(),
    }


def insert(page, name, text):
    """Put a table between its two marks."""
    begin, end = f"<!-- {name}: written by benchmarks/suite_page.py -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
    assert pattern.search(page), f"the page has no marks for {name}"
    return pattern.sub(lambda _: f"{begin}\n\n{text}\n\n{end}", page)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["print"])
    options = parser.parse_args()
    groups = {env: found for env, found in read_groups().items() if env in REFERENCES}
    tables = write_tables(groups)
    if options.what == "print":
        print("\n\n".join(tables.values()))
        return
    page = PAGE.read_text()
    for name, text in tables.items():
        page = insert(page, name, text)
    PAGE.write_text(page)
    print(draw_suite(groups), draw_tasks(groups), PAGE)


if __name__ == "__main__":
    main()
