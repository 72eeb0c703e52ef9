"""Fig. 4: the length-scale of the surrogate, log Σ from 1 to 4.

Σ is read as in the preset `paper`: a covariance, σ = e^{log Σ / 2}, in units of half the action range.
"""

from __future__ import annotations

import math

from ddopg.experiments.figures.ablation import Ablation, sweep
from ddopg.experiments.figures.curves import BLUE, GREEN, ORANGE, RED

COLOURS: dict[float, str] = {4: BLUE, 3: ORANGE, 2: GREEN, 1: RED}
CHOSEN = 3  # of the preset

SETTINGS = Ablation(
    "ablation-lengthscale",
    "cartpole: length-scale Σ of the surrogate",
    sweep("log Σ", "surrogate.length_scale", CHOSEN, COLOURS, lambda log: (math.exp(log / 2),)),
)
plan_jobs, run, plot = SETTINGS.plan_jobs, SETTINGS.run, SETTINGS.plot
