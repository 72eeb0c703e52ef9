"""Fig. 3: from REINFORCE to DD-OPG, by one gradient step on a memory, more memory, and full optimisation.

The share of current trajectories stays that of the preset, a fifth of N_max.
"""

from __future__ import annotations

from typing import Any

from ddopg.config import preset
from ddopg.experiments.figures.ablation import Ablation, Variant
from ddopg.experiments.figures.curves import BLUE, GREEN, ORANGE, PINK, RED, Look

COLOURS = {5: BLUE, 20: GREEN, 50: ORANGE}
CHOSEN = preset("paper").selection


def change_size(n: int) -> dict[str, Any]:
    """Change N_max, and with it how many of the latest trajectories are always in.

    Args:
        n: the new N_max.

    Returns:
        Field → value; nothing for the N_max of the preset.
    """
    if n == CHOSEN.size:
        return {}
    return {"selection.size": n, "selection.keep_last": n * CHOSEN.keep_last // CHOSEN.size}


SETTINGS = Ablation(
    "ablation-history",
    "cartpole: from REINFORCE to DD-OPG",
    (
        *(
            Variant(Look(f"all steps, $N_{{max}}$ = {n}", colour), change_size(n))
            for n, colour in reversed(COLOURS.items())
        ),
        *(
            Variant(Look(f"one step, $N_{{max}}$ = {n}", colour, ":"), {**change_size(n), "search.steps": 1})
            for n, colour in reversed(COLOURS.items())
        ),
        Variant(Look("REINFORCE, batch 500", PINK, "--"), {"batch": 500}, "reinforce-paper"),
        Variant(Look("REINFORCE, batch 5000", RED, "--"), {}, "reinforce-paper"),
    ),
)
plan_jobs, run, plot = SETTINGS.plan_jobs, SETTINGS.run, SETTINGS.plot
