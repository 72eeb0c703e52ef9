r"""The results of a benchmark as a LaTeX table, for `\usepackage{booktabs}`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ddopg.experiments.bench.overall import (
    Groups,
    collect_scores,
    compare_at,
    find_covered,
    summarise_scores,
)
from ddopg.experiments.bench.stats import iqm, resample_curve, stratified_bootstrap

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: "\\" + c for c in "&%$#_{}"},
}


def write_latex(groups: Groups) -> str:
    """Write a table: a row per task, a column per method, IQM of the last returns and its 95 % interval.

    Args:
        groups: records by task and method.

    Returns:
        The table. Its last row has the IQM of the normalised scores of all tasks, for methods that have all of them.
    """
    methods = list(dict.fromkeys(method for found in groups.values() for method in found))
    ends = compare_at(groups)
    rows = [
        " & ".join(
            [escape(env), f"{ends[env]:,}".replace(",", r"\,"), *(_cell(groups, env, m) for m in methods)]
        )
        + r" \\"
        for env in groups
    ]
    head = " & ".join(["task", "steps", *map(escape, methods)]) + r" \\"
    foot = _write_foot(groups, methods)
    lines = [
        r"\begin{tabular}{lr" + "r" * len(methods) + "}",
        r"\toprule",
        head,
        r"\midrule",
        *rows,
        *foot,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines)


def escape(text: str) -> str:
    r"""Write text so that LaTeX prints it as it is.

    Example:
        >>> print(escape("a_b & 5%"))
        a\_b \& 5\%
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def _write_foot(groups: Groups, methods: Sequence[str]) -> list[str]:
    tasks = {method: find_covered(groups, method) for method in methods}
    most = max(map(len, tasks.values()), default=0)
    if most < 2:
        return []
    cells = []
    for method in methods:
        if len(tasks[method]) < most:
            cells.append("--")
            continue
        found = summarise_scores(collect_scores(groups, method, tasks[method]))
        cells.append(_write_number(found.iqm, *found.interval, digits=2))
    return [r"\midrule", " & ".join([f"score, {most} tasks", "", *cells]) + r" \\"]


def _cell(groups: Groups, env: str, method: str) -> str:
    records = groups[env].get(method)
    if not records:
        return "--"
    end = compare_at(groups)[env]
    last = np.array([resample_curve(record["curve"], [end], np.nan)[0] for record in records])
    low, high = stratified_bootstrap([last], iqm, np.random.default_rng(0))
    return _write_number(float(iqm(last)), low, high, digits=1)


def _write_number(value: float, low: float, high: float, digits: int) -> str:
    return rf"${value:.{digits}f}$ {{\scriptsize $[{low:.{digits}f}, {high:.{digits}f}]$}}"
