"""The hand-written kernel `kernel.c`, compiled here if there is a compiler."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from hot_loop.problem import PENALTY, RATE

FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]


def compiler():
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@cache
def library():
    place = Path(tempfile.mkdtemp()) / "kernel.so"
    source = Path(__file__).with_name("kernel.c")
    subprocess.run([compiler(), *FLAGS, str(source), "-o", str(place), "-lm"], check=True)
    return ctypes.CDLL(str(place))


def fused(size):
    call = library().climb
    sizes = np.array([size.observation, *size.hidden, size.action], np.int32)

    def pointer(array):
        return array.ctypes.data_as(ctypes.c_void_p)

    def run(theta, observations, actions, returns, log_q, scale, steps):
        point = theta.copy()
        work = np.empty(size.trajectories + size.parameters, np.float32)
        call(
            *map(pointer, (point, observations, actions, returns, log_q)),
            ctypes.c_float(scale),
            pointer(sizes),
            *map(ctypes.c_int, (len(sizes) - 1, size.trajectories, size.horizon, size.parameters, steps)),
            *map(ctypes.c_float, (PENALTY, RATE)),
            pointer(work),
        )
        return point

    return run
