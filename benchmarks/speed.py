"""What an iteration costs against what is possible: the hot loop, the rollouts, the rest. Ratios, side by side.

    python benchmarks/speed.py [--quick] [--out FILE.json] [--release NAME]

Candidates take turns in every round (but PyTorch), and the best round of each counts: on a shared machine that is the
nearest to an empty one. Times are of one core.
"""

import argparse
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import numpy as np
from hot_loop import around, c_kernel, jax_forms, library, torch_eager
from hot_loop.problem import SIZES, draw
from rich.console import Console
from rich.table import Table

import ddopg

HISTORY = Path(__file__).parent / "history.jsonl"
OURS = "ddopg"
JAX_FORMS = ("JAX, feature-major", "JAX, in blocks")
STEPS = {"default": 200, "A": 100, "C": 5, "D": 2}  # gradient steps per call


def candidates(size):
    """Those that take turns; PyTorch afterwards, because it leaves the process' memory in another order, in which
    programs that had nothing to do with it take up to a third longer."""
    found = {
        OURS: library.ours(size),
        "JAX, feature-major": jax_forms.feature_major(size),
        "JAX, in blocks": jax_forms.blocked(size),
    }
    if c_kernel.compiler():
        found["C, by hand"] = c_kernel.fused(size)
    yield found
    if importlib.util.find_spec("torch"):
        yield {"PyTorch, eager": torch_eager.eager(size)}


def hot_loop(name, rounds):
    """Candidate → microseconds per gradient step; all agree on where the climb ends."""
    size, steps = SIZES[name], STEPS[name]
    data, ends, best = draw(size), {}, {}
    for runs in candidates(size):
        ends |= {what: np.asarray(run(*data, steps=steps)) for what, run in runs.items()}  # compiles, too
        best |= dict.fromkeys(runs, np.inf)
        for _ in range(rounds):
            for what, run in runs.items():
                start = time.perf_counter()
                jax.block_until_ready(run(*data, steps=steps))
                best[what] = min(best[what], (time.perf_counter() - start) / steps)
    for what, end in ends.items():
        np.testing.assert_allclose(end, ends[OURS], rtol=2e-3, atol=2e-5, err_msg=what)
    return {what: 1e6 * seconds for what, seconds in best.items()}


def best_of(columns):
    """The best of each candidate. Programs that just fill a cache depend on where their memory lies, so they are made
    anew and tried again."""
    columns = list(columns)
    return {what: min(column[what] for column in columns) for what in columns[0]}


def ratios(results):
    """What history.jsonl keeps: times the fastest JAX form, and times PyTorch and C where they ran."""
    return {
        name: {
            "of the fastest JAX": round(column[OURS] / min(column[form] for form in JAX_FORMS), 3),
            **{
                f"of {what}": round(column[OURS] / column[what], 3)
                for what in ("PyTorch, eager", "C, by hand")
                if what in column
            },
        }
        for name, column in results.items()
    }


def show(results, console):
    table = Table(title="one gradient step, µs (times the fastest JAX)")
    table.add_column("candidate")
    for name in results:
        table.add_column(f"{name}: {SIZES[name]}", justify="right")
    for what in dict.fromkeys(what for column in results.values() for what in column):
        cells = []
        for column in results.values():
            fastest = min(column[form] for form in JAX_FORMS)
            cells.append(f"{column[what]:,.0f} ({column[what] / fastest:.2f})" if what in column else "–")
        table.add_row(what, *cells)
    console.print(table)


def show_rates(rates, console):
    table = Table("rollouts with a 16×16 network", "steps per second", "seen before", title="rollouts")
    for what, rate in rates.items():
        known = around.KNOWN.get(what)
        table.add_row(what, f"{rate:,}", f"{known:,} ({rate / known:.2f})" if known else "–")
    console.print(table)


def show_divisions(divisions, console):
    parts = list(dict.fromkeys(part for column in divisions.values() for part in column))
    table = Table("part", *divisions, title="an iteration with its run store: ms (share)")
    for part in parts:
        cells = [
            f"{column.get(part, 0):.2f} ({column.get(part, 0) / column['iteration']:.0%})"
            for column in divisions.values()
        ]
        table.add_row(part, *cells)
    console.print(table)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the two small sizes, few rounds")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    parser.add_argument("--release", help="with --out: keep the ratios in history.jsonl under that name")
    options = parser.parse_args()
    names, rounds = (("default", "A"), 5) if options.quick else (tuple(SIZES), 15)
    results = {}
    for name in names:
        print(f"{name}: {SIZES[name]} …", file=sys.stderr)
        small = name in ("default", "A")
        results[name] = best_of(
            hot_loop(name, rounds if small else max(3, rounds // 3)) for _ in range(3 if small else 1)
        )
    console = Console(width=140)
    show(results, console)
    rates = around.rates(0.3 if options.quick else 3.0)
    show_rates(rates, console)
    functional = around.pendulum(10 if options.quick else 60)
    console.print(
        f"1,000 rollouts × 200 steps of the functional pendulum: {functional['ddopg']:.1f} ms, by hand "
        f"{functional['by hand']:.1f} ms ({functional['ddopg'] / functional['by hand']:.2f})"
    )
    presets = ("trajectory",) if options.quick else tuple(around.BUDGETS)
    divisions = {
        f"{preset}, {task}": around.division(task, preset)
        for preset in presets
        for task in around.BUDGETS[preset]
    }
    show_divisions(divisions, console)
    if options.out:
        about = {"version": ddopg.__version__, "jax": jax.__version__, "machine": platform.machine()}
        measured = {
            "gradient_step_us": results,
            "steps_per_second": rates,
            "functional_pendulum_ms": functional,
            "iteration_ms": divisions,
        }
        options.out.write_text(json.dumps(about | measured, indent=2) + "\n")
        if options.release:
            with HISTORY.open("a") as file:
                file.write(json.dumps(about | {"release": options.release} | ratios(results)) + "\n")


if __name__ == "__main__":
    main()
