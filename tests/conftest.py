"""Strict numerics for all tests: rank promotion raises, and nothing is compiled twice across the suite."""

import gc
import os
import signal

import jax
import pytest
from hypothesis import settings

from ddopg.support.compilation import keep_compiled_programs
from tests.traps import Trap, ray_cluster

# Most of the suite's time is compiling, and most programs run once: XLA compiles quickly instead of well, here and in
# every process that a test starts. `XLA_FLAGS= make test` has the programs of users.
FLAGS = "--xla_backend_optimization_level=1"
if jax.__version_info__ < (0, 11):  # later there is no such choice
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
QUICKLY = os.environ.setdefault("XLA_FLAGS", FLAGS) == FLAGS
if QUICKLY:
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
jax.config.update("jax_disable_most_optimizations", QUICKLY)
jax.config.update("jax_numpy_rank_promotion", "raise")
keep_compiled_programs()
gc.set_threshold(100_000, 50, 50)  # compiled programs are a million objects that live to the end
settings.register_profile("ddopg", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("ddopg")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it


@pytest.fixture
def float64():
    """Run the fast code in float64, to compare it with the oracle digit by digit."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def compiled_well():
    """Programs that run for seconds are worth compiling well.

    They round differently, and runs are compared bit by bit: no other test meets them, nor they those of before.
    """
    jax.clear_caches()
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", QUICKLY)
    jax.clear_caches()


@pytest.fixture(scope="session")
def trap(tmp_path_factory):
    """For one rollout of a `Trapped` world, in whatever process it is played."""
    path = tmp_path_factory.mktemp("trap")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAP", str(path))
        yield Trap(path)


@pytest.fixture(scope="session")
def cluster(trap, tmp_path_factory):
    """The address of a real Ray cluster."""
    with ray_cluster(tmp_path_factory.mktemp("ray") / "log") as address:
        yield address
