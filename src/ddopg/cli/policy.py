"""The commands `evaluate`, `play` and `export`: what can be done with a policy that was saved."""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import numpy as np

from ddopg._version import __version__
from ddopg.cli.options import Evaluate, Export, Play
from ddopg.cli.own_policy import import_own_policy
from ddopg.core.seeding import FIRST_EVALUATION_SEED
from ddopg.envs.adapter import make, require_registered
from ddopg.errors import ArtefactError, require, require_given
from ddopg.evaluation import describe_differences, evaluate_policy, require_fitting
from ddopg.rollouts import video
from ddopg.storage import numpy_form, onnx
from ddopg.storage.exports import find_policy_file
from ddopg.storage.policy_file import TrainedPolicy, load
from ddopg.support.compilation import keep_compiled_programs
from ddopg.support.display import ROUNDING
from ddopg.support.showing import show_count


def evaluate(command: Evaluate) -> None:
    """Print the returns of a saved policy on fresh episodes."""
    require(command.episodes >= 1, f"--episodes must be at least 1, got {command.episodes}")
    keep_compiled_programs()
    trained = _load(command)
    env = _make_environment(trained, command.env)
    returns = evaluate_policy(env, trained, command.episodes, command.seed)
    if command.json:
        print(json.dumps(_summarise(env, returns) | _parameters_of(trained)))
        return
    print(
        f"mean return {returns.mean():.6g} ± {measure_spread(returns):.4g} (sd), worst {returns.min():.6g}, "
        f"best {returns.max():.6g}, over {show_count(len(returns), 'fresh episode')}"
    )
    print_parameters(trained)


def play(command: Play) -> None:
    """Show one episode, as a video file or in a window."""
    trained = _load(command)
    video.render_without_a_display()
    env = _make_environment(trained, command.env, render_mode="rgb_array")
    seed = FIRST_EVALUATION_SEED + command.seed
    pictures = video.draw_episode(env, trained.policy, trained.theta, seed, trained.problem.horizon)
    if command.video is None:
        video.show(pictures, video.choose_frame_rate(env))
    else:
        print(video.write(command.video, pictures, video.choose_frame_rate(env)))


def export(command: Export) -> None:
    """Write the policy in the format that the file's name asks for, or the rollouts as a data set."""
    what_to_say = (
        "say what to write: a file, as in ddopg export DIR policy.onnx, or a data set, as in "
        "ddopg export DIR --minari mine/cartpole-v0"
    )
    require(command.target is None or command.minari is None, what_to_say)
    if command.minari is not None:
        _export_rollouts(command, command.minari)
        return
    target = require_given(command.target, what_to_say)
    require(
        target.suffix in (".onnx", ".json"),
        f"the file's name must end in .onnx, or in .json for numpy_controller.py, got {target}; a machine with only "
        "NumPy reads the policy file of a network itself with numpy_policy.py",
    )
    write = onnx.to_onnx if target.suffix == ".onnx" else numpy_form.to_numpy
    path = write(_load(command), target)
    print(f"policy: {path}")


def _export_rollouts(command: Export, name: str) -> None:
    from ddopg import minari
    from ddopg.minari.library import KEY

    require(
        command.source.is_dir(),
        f"a data set is made of the rollouts of a run, got {command.source}; give the directory of a run",
        ArtefactError,
    )
    dataset = minari.export(
        command.source, name, command.env, overwrite=command.overwrite, author=command.author
    )
    last = dataset.storage.metadata[KEY]["last_observations"]
    print(
        f"{dataset.total_episodes:,} episodes, {dataset.total_steps:,} steps; last observations: "
        f"{last['replayed']:,} replayed, {last['repeated']:,} repeated\n"
        f"data set: {name} in {dataset.spec.data_path}"
    )


def _summarise(env: gym.Env, returns: np.ndarray) -> dict[str, object]:
    return {
        "environment": env.spec.id if env.spec else None,
        "episodes": len(returns),
        "mean": returns.mean(),
        "std": returns.std(),
        "worst": returns.min(),
        "best": returns.max(),
        "returns": returns.tolist(),
        "version": __version__,
    }


def measure_spread(returns: np.ndarray) -> float:
    """The standard deviation of returns; 0 where they differ by rounding alone."""
    spread = float(returns.std())
    return spread if spread > ROUNDING * abs(float(returns.mean())) else 0.0


def print_parameters(trained: TrainedPolicy) -> None:
    """Print the parameters of a controller, one a line, with their units; nothing for a network."""
    width = max(map(len, trained.parameters), default=0)
    for each, value in zip(trained.policy.parameters, trained.parameters.values(), strict=True):
        print(
            f"  {each.name:<{width}} = {value:.6g} {each.unit}".rstrip() + (" (fixed)" if each.fixed else "")
        )


def _load(command: Evaluate | Play | Export) -> TrainedPolicy:
    return load(find_policy_file(command.source), import_own_policy(command.policy))


def _parameters_of(trained: TrainedPolicy) -> dict[str, object]:
    return {"parameters": trained.parameters} if trained.parameters else {}


def _make_environment(trained: TrainedPolicy, name: str | None, **options: str) -> gym.Env:
    """The environment the policy was learnt on, or another one whose spaces fit."""
    chosen = require_given(
        name or trained.environment,
        "the policy does not say which environment it was learnt on; give one with --env",
        ArtefactError,
    )
    env = make(name or require_registered(chosen, "--env {}"), **options)
    require_fitting(trained, env, chosen)
    for difference in describe_differences(trained, env):
        print(f"ddopg: the policy was learnt {difference} now", file=sys.stderr)
    return env
