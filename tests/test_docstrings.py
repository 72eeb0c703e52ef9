"""The reference: every public name says its arguments, its result and its errors, and shows an example that runs."""

import dataclasses
import doctest
import inspect
import os
from importlib import import_module

import pytest

import ddopg
from ddopg.loggers import Logger

MODULES = {
    "ddopg": [name for name in ddopg.__all__ if name != "__version__"],
    "ddopg.policies": [
        "BlackBox",
        "Policy",
        "Recurrence",
        "clipped",
        "custom",
        "functional",
        "import_policy",
        "limited",
        "linear",
        "make_policy",
        "mlp",
        "normalised",
        "squashed",
    ],
    "ddopg.parameters": [
        "Parameter",
        "check_parameters",
        "decode_parameters",
        "encode_parameters",
        "free_parameters",
        "parameters_from_dict",
        "parameters_to_dict",
        "reflect",
        "search_limits",
    ],
    "ddopg.controllers": [
        "Loop",
        "Parameter",
        "black_box",
        "controller",
        "for_planar_robot",
        "gain_scheduled",
        "linear_feedback",
        "low_passed",
        "movement_primitive",
        "oscillator",
        "pid",
        "rate_limited",
        "returns_only",
        "theta_of",
    ],
    "ddopg.controller_tuning": ["Tuned", "tune_controller"],
    "ddopg.envs.failures": ["EndOnFailure"],
    "ddopg.envs.smoothness": ["PenaliseChanges"],
    "ddopg.callbacks": [
        "BaseCallback",
        "CallbackList",
        "CheckpointCallback",
        "EvalCallback",
        "EveryNTimesteps",
        "StopTrainingOnMaxEpisodes",
        "StopTrainingOnNoModelImprovement",
        "StopTrainingOnRewardThreshold",
    ],
    "ddopg.deploy": ["to_numpy", "to_onnx"],
    "ddopg.baselines": [
        "AlgorithmSpec",
        "Method",
        "check_packages",
        "find_algorithm",
        "find_method",
        "find_missing_packages",
        "load_learner",
        "own_kind",
        "read_settings",
    ],
    "ddopg.envs": ["TaskSpec", "from_functional", "initial_observation", "register"],
    "ddopg.loggers": [
        "CsvLogger",
        "Logger",
        "Logging",
        "MlflowLogger",
        "TensorBoardLogger",
        "WandbLogger",
        "loggers_for",
        "scalars",
    ],
    "ddopg.minari": ["episodes", "export", "trajectories"],
    "ddopg.numpy_policy": ["Policy", "load"],
    "ddopg.numpy_controller": ["Controller", "load"],
    "ddopg.rollouts": ["Here", "Locally", "OnRay", "evaluate", "rollout"],
}
"""The public names: what the documentation tells people to import."""

PUBLIC = {f"{module}.{name}": (module, name) for module, names in MODULES.items() for name in names}


def public(label):
    module, name = PUBLIC[label]
    return getattr(import_module(module), name)


def is_record(value):
    """Its fields are described where they stand; nobody needs arguments of it."""
    return dataclasses.is_dataclass(value) or hasattr(value, "_fields")


def parameters_of(function):
    own = inspect.signature(function).parameters.values()
    return [
        p.name
        for p in own
        if p.name not in ("self", "cls") and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def section(text, title):
    """The lines below `Args:`, `Returns:` and the like."""
    _, found, rest = text.partition(f"\n{title}:\n")
    return rest.split("\n\n")[0] if found else ""


def missing_of(function, text):
    """Parameters that the section `Args` does not name, and whether a result is not described."""
    said = section(text, "Args")
    lost = [name for name in parameters_of(function) if f"    {name}: " not in f"\n{said}"]
    result = inspect.signature(function).return_annotation
    gives = result not in (None, "None", inspect.Signature.empty) and not inspect.isclass(function)
    return lost + (["the result"] if gives and not section(text, "Returns") else [])


@pytest.mark.parametrize("label", PUBLIC)
class TestEveryPublicName:
    def test_it_says_its_arguments_and_its_result(self, label):
        value = public(label)
        if is_record(value) or (inspect.isclass(value) and issubclass(value, Exception)):
            assert inspect.getdoc(value)
            return
        assert missing_of(value, inspect.getdoc(value)) == []

    def test_its_methods_do_too(self, label):
        value = public(label)
        if not inspect.isclass(value):
            return
        for name, method in vars(value).items():
            method = method.__func__ if isinstance(method, classmethod | staticmethod) else method
            described = label.startswith("ddopg.loggers") and name in vars(Logger)  # once, in the protocol
            if name.startswith("_") or not inspect.isfunction(method) or described:
                continue
            lost = missing_of(method, inspect.getdoc(method) or "")
            assert not parameters_of(method) or lost == [], f"{label}.{name} does not say {lost}"

    def test_it_shows_an_example(self, label):
        value = public(label)
        if inspect.isclass(value) and issubclass(value, Exception):
            return
        assert ">>> " in inspect.getdoc(value)


@pytest.mark.parametrize("label", PUBLIC)
def test_its_example_runs(label, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    value = public(label)
    names = vars(import_module(value.__module__)) | {"ddopg": ddopg}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(recurse=True).find(value, label, globs=dict(names)):
        said = []
        runner.run(test, out=said.append)
        assert not said, "".join(said)
    assert os.getcwd() == str(tmp_path)
