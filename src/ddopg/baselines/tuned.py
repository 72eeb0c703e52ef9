"""Settings found by `benchmarks/tune_peers.py` on seeds of their own: one for any task, and one per known task.

`docs/benchmark.md` says how much was tried.
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

REINFORCE = ReinforceSettings(batch=1000, scaling="whiten", squash=True)
REINFORCE_BY_TASK: dict[str, ReinforceSettings] = {}

PPO = PPOSettings(batch=1000, learning_rate=1e-3, hidden=(64, 64), whiten=True)
PPO_BY_TASK: dict[str, PPOSettings] = {}

TRPO = TRPOSettings(batch=1000, max_kl=0.05, hidden=(64, 64), whiten=True)
TRPO_BY_TASK: dict[str, TRPOSettings] = {}

SAC = SACSettings(learning_rate=1e-3, hidden=(64, 64))
SAC_BY_TASK: dict[str, SACSettings] = {}

CMAES = CMAESSettings()
CMAES_BY_TASK: dict[str, CMAESSettings] = {}
CMAES_MLP = replace(CMAES, hidden=(16, 16))

ARS = ARSSettings()
ARS_BY_TASK: dict[str, ARSSettings] = {}
ARS_V1 = replace(ARS, scaling="none")
ARS_MLP = replace(ARS, hidden=(16, 16))

RANDOM = RandomSettings()
RANDOM_BY_TASK: dict[str, RandomSettings] = {}
RANDOM_MLP = replace(RANDOM, hidden=(16, 16))
