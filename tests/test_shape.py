"""The architecture as tests: direction of imports, the table of equations, documentation, no pickle, file sizes."""

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import ddopg

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ddopg"
MODULES = sorted(SOURCE.rglob("*.py"))

BASE = {"_version", "errors"}
SETTINGS = BASE | {"config", "parameters", "policies", "controllers"}
LEARNER = SETTINGS | {"core", "envs", "rollouts", "storage", "support", "callbacks"}

LAYERS = {
    "_version": set(),
    "errors": set(),
    "numpy_policy": set(),  # one file that a robot can have alone
    "numpy_controller": set(),  # another one
    "config": BASE,
    "parameters": BASE,
    "policies": BASE | {"config", "parameters", "support"},
    "controllers": BASE | {"config", "parameters", "policies", "support"},
    "support": BASE | {"config"},
    "core": SETTINGS | {"support"},
    "envs": BASE | {"core", "support"},
    "rollouts": SETTINGS | {"core", "envs", "support"},
    "storage": SETTINGS | {"core", "numpy_controller", "support"},
    "deploy": {"storage"},
    "callbacks": SETTINGS | {"core", "rollouts", "storage", "support"},
    "proposal": LEARNER,
    "agent": LEARNER | {"proposal"},
    "evaluation": LEARNER | {"agent"},
    "controller_tuning": LEARNER | {"agent"},
    "loggers": LEARNER,
    "minari": LEARNER,
    "baselines": LEARNER | {"agent"},
    "experiments": LEARNER | {"agent", "baselines"},
    "report": LEARNER | {"experiments"},
    "cli": LEARNER
    | {
        "agent",
        "proposal",
        "baselines",
        "deploy",
        "evaluation",
        "experiments",
        "loggers",
        "minari",
        "report",
    },
    "__main__": {"cli"},
    "__init__": LEARNER
    | {
        "agent",
        "deploy",
        "controller_tuning",
        "evaluation",
        "proposal",
    },  # the public names, loaded on first use
}
"""Layer → layers that it may import. A layer is a folder, or a public module of the top level."""

NUMBERED_EQUATIONS = set(range(1, 29))  # of the paper and its appendix


@cache
def parse(path):
    return ast.parse(path.read_text())


def imports_of(path):
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def lines_of_docstring(node):
    """Of a string that stands alone: the docstring of a module, class, function or field."""
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return node.end_lineno - node.lineno + 1 if alone else 0


def functions_of(tree):
    """(function, docstring) of all functions; what builds an object is described by its class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (
                (each, ast.get_docstring(node) or "")
                for each in node.body
                if isinstance(each, ast.FunctionDef) and each.name == "__init__"
            )
        elif isinstance(node, ast.FunctionDef) and node.name != "__init__":
            yield node, ast.get_docstring(node) or ""


def part_of(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
class TestEveryModule:
    def test_it_imports_only_layers_that_its_own_may_import(self, path):
        layer = part_of(path)
        for name in imports_of(path):
            if name.startswith("ddopg.") and (imported := name.split(".")[1]) in LAYERS:
                assert imported in LAYERS[layer] | {layer}, f"{layer} imports {imported}"

    def test_it_never_touches_pickle_or_evaluates_text(self, path):
        for name in imports_of(path):
            assert name.split(".")[0] not in {
                "pickle",
                "cPickle",
                "dill",
                "cloudpickle",
                "marshal",
                "shelve",
                "joblib",
            }
        text = path.read_text()
        assert "allow_pickle=True" not in text
        assert not re.search(r"(?<![.\w])(eval|exec)\(", text)

    def test_it_stays_near_one_concept(self, path):
        tree = parse(path)
        assert ast.get_docstring(tree), "a module says what it is about"
        docs = sum(lines_of_docstring(node) for node in ast.walk(tree))
        assert len(path.read_text().splitlines()) - docs <= 300

    def test_a_function_with_many_parameters_says_why(self, path):
        for node, said in functions_of(parse(path)):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            number = len([name for name in names if name not in ("self", "cls")])
            assert number <= 7 or "More than seven parameters:" in said, (
                f"{node.name} has {number} parameters"
            )

    def test_its_functions_are_short(self, path):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                doc = node.body[0] if ast.get_docstring(node) else None
                lines = node.end_lineno - node.body[0].lineno + 1
                lines -= (doc.end_lineno - doc.lineno + 1) if doc else 0
                assert lines <= 45, f"{node.name} has {lines} lines"


def test_every_module_belongs_to_a_layer():
    assert {part_of(path) for path in MODULES} == set(LAYERS)


def test_the_layers_form_no_circle():
    left = {layer: set(imported) for layer, imported in LAYERS.items()}
    while left:
        free = [layer for layer, imported in left.items() if not imported & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        for layer in free:
            del left[layer]


@pytest.mark.parametrize(
    "folder", sorted(path for path in SOURCE.rglob("*") if (path / "__init__.py").exists())
)
def test_every_folder_says_what_lives_there(folder):
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


def test_the_core_loads_no_environment_no_database_no_process_and_no_signal_handling():
    modules = [
        f"ddopg.core.{path.stem}"
        for path in sorted((SOURCE / "core").glob("*.py"))
        if path.stem != "__init__"
    ]
    assert "ddopg.core.algorithm" in modules
    code = (
        f"import sys, importlib\nfor name in {modules}: importlib.import_module(name)\n"
        "heavy = {'gymnasium', 'sqlite3', 'ddopg.envs', 'ddopg.rollouts', 'ddopg.storage', 'ddopg.support.signals', "
        "'ddopg.support.processes', 'ddopg.support.locks'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TestEquations:
    """docs/equations.md and the docstrings say the same."""

    table = (ROOT / "docs" / "equations.md").read_text()

    def rows(self):
        """(equation numbers, label, functions) of each row of the table."""
        for line in self.table.splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if len(cells) >= 4 and re.match(r"\(\d", cells[0]):
                numbers = [int(n) for n in re.findall(r"\d+", cells[0])]
                if "–" in cells[0]:
                    numbers = list(range(numbers[0], numbers[1] + 1))
                yield numbers, cells[1].strip("`"), re.findall(r"`([\w.]+)`", cells[3])

    @staticmethod
    def function(path):
        module, name = path.rsplit(".", 1)
        return getattr(import_module(f"ddopg.core.{module}"), name)

    def test_every_numbered_equation_of_the_paper_is_in_the_table(self):
        assert {n for numbers, _, _ in self.rows() for n in numbers} == NUMBERED_EQUATIONS

    def test_every_function_of_the_table_carries_the_number_and_the_label(self):
        for numbers, label, functions in self.rows():
            assert functions, f"equation {numbers} has no function"
            for path in functions:
                text = inspect.getdoc(self.function(path))
                assert set(numbers) & set(equation_numbers(text)), f"{path} does not name {numbers}"
                if label.startswith("eq:"):
                    assert label in text, f"{path} does not carry {label}"

    def test_every_docstring_that_opens_with_an_equation_is_in_the_table(self):
        listed = {path for _, _, functions in self.rows() for path in functions}
        for module in ("core.estimators", "core.surrogate", "core.selection"):
            for name, value in vars(import_module(f"ddopg.{module}")).items():
                own = inspect.isfunction(value) and value.__module__ == f"ddopg.{module}"
                if own and "eq:" in (value.__doc__ or ""):
                    assert f"{module.removeprefix('core.')}.{name}" in listed


def equation_numbers(text):
    for first, last in re.findall(r"Eqs?\. \((\d+)\)(?: (?:and|to) \((\d+)\))?", text):
        yield from range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("name", [name for name in ddopg.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name):
    value = getattr(ddopg, name)
    assert inspect.getdoc(value)
    assert (
        f"`{name}" in (ROOT / "docs" / "api.md").read_text()
        or f"`ddopg.{name}" in (ROOT / "docs" / "api.md").read_text()
    )


def test_importing_ddopg_registers_the_tasks_and_stays_light():
    code = (
        "import sys, ddopg, gymnasium as gym\n"
        "assert {'ddopg/Cartpole-v0', 'ddopg/MountainCar-v0', 'ddopg/Swimmer-v0'} <= set(gym.registry)\n"
        "assert not {'jax', 'mujoco', 'Box2D', 'matplotlib'} & set(sys.modules)\n"
        "assert set(ddopg.__all__) <= set(dir(ddopg))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'DDPG'"):
        _ = ddopg.DDPG
