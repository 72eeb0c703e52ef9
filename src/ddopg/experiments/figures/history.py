"""Fig. 3: from REINFORCE to DD-OPG, by one gradient step on a memory, more memory, and full optimisation."""

from __future__ import annotations

from ddopg.experiments.figures.ablation import Ablation, Variant
from ddopg.experiments.figures.curves import BLUE, GREEN, ORANGE, PINK, RED, Look

COLOURS = {5: BLUE, 20: GREEN, 50: ORANGE}

SETTINGS = Ablation(
    "ablation-history",
    "cartpole: from REINFORCE to DD-OPG",
    (
        *(
            Variant(Look(f"all steps, $N_{{max}}$ = {n}", colour), {"selection.size": n} if n != 50 else {})
            for n, colour in reversed(COLOURS.items())
        ),
        *(
            Variant(
                Look(f"one step, $N_{{max}}$ = {n}", colour, ":"), {"selection.size": n, "search.steps": 1}
            )
            for n, colour in reversed(COLOURS.items())
        ),
        Variant(Look("REINFORCE, batch 500", PINK, "--"), {"batch": 500}, "reinforce-paper"),
        Variant(Look("REINFORCE, batch 5000", RED, "--"), {}, "reinforce-paper"),
    ),
)
plan_jobs, run, plot = SETTINGS.plan_jobs, SETTINGS.run, SETTINGS.plot
