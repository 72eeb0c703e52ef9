"""Settings found by `benchmarks/tune_peers.py` on seeds of their own: one for any task, and one per known task.

`docs/benchmark.md` says how much was tried. The network variants of the searches (`…_MLP`) and ARS V1 were not tuned.
"""

from __future__ import annotations

from dataclasses import replace

from ddopg.baselines.settings import (
    ARSSettings,
    CMAESSettings,
    PPOSettings,
    RandomSettings,
    ReinforceSettings,
    SACSettings,
    TRPOSettings,
)

ARMS = ("ddopg/TwoJointArm-v0", "ddopg/SevenJointArm-v0")

REINFORCE = ReinforceSettings(batch=500, discount=0.999)
REINFORCE_BY_TASK = {
    "cartpole": ReinforceSettings(batch=500, squash=True, std=0.5, scaling="quantile"),
    "mountaincar": ReinforceSettings(batch=2000, learning_rate=0.1, hidden=(), scaling="whiten"),
    "swimmer": ReinforceSettings(squash=True, scaling="whiten"),
}

PPO = PPOSettings(batch=500, clip=0.4, hidden=(64, 64), discount=0.999, std=0.5, whiten=True)
PPO_BY_TASK = {
    "swimmer": PPOSettings(learning_rate=1e-3, hidden=(64, 64), discount=0.999, trace=0.9),
}

TRPO = TRPOSettings(batch=1000, discount=0.999, std=0.5, whiten=True)
TRPO_BY_TASK = {
    "cartpole": replace(TRPO, batch=500),
    "mountaincar": replace(TRPO, batch=500, max_kl=0.03, hidden=(64, 64)),
    "swimmer": TRPOSettings(max_kl=0.01, hidden=(64, 64), trace=0.9),
}

SAC = SACSettings(learning_rate=3e-3, hidden=(64, 64), minibatch=64, discount=0.98, tau=0.02, whiten=True)
SAC_BY_TASK: dict[str, SACSettings] = {}

CMAES = CMAESSettings(step=0.5, population=6, scaling="whiten")
CMAES_BY_TASK = {
    "cartpole": CMAESSettings(population=6),
    "mountaincar": CMAESSettings(step=2.0, population=6, scaling="whiten", probes=0),
    "swimmer": CMAESSettings(step=2.0, population=6, scaling="none", probes=0),
}
# Controllers: a quarter of each range as the first deviation, as the package advises; not tuned.
CMAES_BY_TASK |= dict.fromkeys(ARMS, CMAESSettings(step=1.0))
CMAES_MLP = CMAESSettings(step=0.5, scaling="whiten", hidden=(16, 16))

ARS = ARSSettings(directions=2, top=1, step=0.3, noise=1.0)
ARS_BY_TASK = {"swimmer": replace(ARS, scaling="quantile")}
ARS_V1 = replace(ARS, scaling="none")
ARS_MLP = ARSSettings(hidden=(16, 16))

RANDOM = RandomSettings(spread=3.0, probes=0)
RANDOM_BY_TASK = {
    "cartpole": RandomSettings(spread=3.0),
    "mountaincar": RandomSettings(spread=0.7, scaling="whiten", probes=0),
}
RANDOM_BY_TASK |= dict.fromkeys(ARMS, RandomSettings(spread=1.0))
RANDOM_MLP = RandomSettings(hidden=(16, 16))
