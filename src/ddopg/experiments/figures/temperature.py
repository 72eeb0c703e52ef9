"""Fig. 5: the temperature of the softmax that selects trajectories, λ from 0.01 to 2."""

from __future__ import annotations

from ddopg.experiments.figures.ablation import Ablation, sweep
from ddopg.experiments.figures.curves import BLUE, GREEN, ORANGE, RED, SKY

COLOURS = {0.01: BLUE, 0.03: SKY, 0.1: GREEN, 0.5: ORANGE, 2.0: RED}
CHOSEN = 0.1  # of the preset

SETTINGS = Ablation(
    "ablation-temperature",
    "cartpole: temperature λ of the selection",
    sweep("λ", "selection.temperature", CHOSEN, COLOURS, lambda value: value),
)
plan_jobs, run, plot = SETTINGS.plan_jobs, SETTINGS.run, SETTINGS.plot
