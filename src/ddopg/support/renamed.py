"""Names that fields of the configuration once had."""

RENAMED = {
    "exploration.fresh": "exploration.random",
    "surrogate.normalisation": "surrogate.estimator",
    "surrogate.baseline": "surrogate.estimator",
    "surrogate.start_correction": "surrogate.initial_state_correction",
    "surrogate.unit": "surrogate.objective_scale",
    "search.noise": "search.sghmc_temperature",
    "search.carry": "search.keep_opt_state",
    "search.effect_units": "search.scale_by_sensitivity",
    "search.natural": "search.fisher_damping",
    "search.decay": "search.saturation_penalty",
    "search.jump": "restart.threshold",
    "search.follow": "incumbent.ema_rate",
    "search.check": "incumbent.recheck_share",
    "search.cooling": "annealing.episodes",
}
"""Old name of a field → its name now: errors about an old name say the new one."""
