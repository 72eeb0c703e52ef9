"""README and docs: every code block is run, in order, by one page after the other.

A block says its language. `python` is executed; the blocks of a page share their names, and one whose first line is
`# NAME.py` is saved under that name, as the reader does. `bash` is run line by line, `ddopg` in this process. `toml`
is read, and loaded if it is a preset file. `text` is no code. Everything happens in a directory that looks like a
clone.

Budgets are cut (`smaller`): the pages are checked for being true, not for how well they learn. What is not run for
a reason is listed below with the reason, and at least parsed.
"""

import logging
import re
import shlex
import shutil
import sqlite3
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import pytest

import ddopg
from ddopg import baselines
from ddopg.cli.main import main, parse
from ddopg.cli.options import Bench
from ddopg.core.acquisitions import OBJECTIVES
from ddopg.core.optimisers import OPTIMISERS
from ddopg.core.selection import RULES
from ddopg.core.surrogate import ESTIMATORS

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
QUICK = {
    "train": ["--eval-episodes", "2", "--eval-points", "2", "--quiet"],
    "tune": ["--no-compare", "--quiet"],
}
SMALL = {"--trials": "1", "--workers": "1"}

PARSED_ONLY = {  # beginning of a command: why it is not run
    "ddopg bench --envs cartpole --methods ddopg cmaes random ppo-tuned": "needs PyTorch",
    "ddopg bench --envs cartpole --methods ddopg random": "twenty runs; the page has a small one, which is run",
    "ddopg bench --envs Swimmer-v5": "hours",
    "ddopg bench --suite small-budget": "days",
    "ddopg train cartpole --log tensorboard wandb": "needs Weights & Biases",
    "WANDB_MODE=offline ddopg train cartpole --log wandb": "needs Weights & Biases",
    "ddopg train cartpole --log mlflow": "needs MLflow",
    "ddopg tune swimmer": "needs a database server",
    "ddopg figure surrogate --quick": "computes for a while; tests/experiments has it smaller still",
    "ddopg figure bias --quick": "the same",
}
NOT_FOR_TESTS = {  # whole lines that make the surroundings in which the tests already run
    "python3 -m venv .venv",
    "tensorboard --logdir runs",
    ". .venv/bin/activate",
}


class Block(NamedTuple):
    line: int  # of the page, where its text begins
    language: str
    text: str


def blocks_of(page):
    text = page.read_text()
    for found in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.S | re.M):
        yield Block(text.count("\n", 0, found.start(2)), found[1].strip(), found[2])


def commands_of(block):
    """The command lines of a `bash` block, without comments."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield " ".join(words), words


def smaller(number):
    return max(10, int(number) // 40)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A directory like a clone, in which modules are found, and nothing of which is left behind."""
    (tmp_path / "src").symlink_to(ROOT / "src")
    for figure in ("surrogate", "bias"):  # committed: a clone computes them no more
        place = f"benchmarks/figures/{figure}"
        shutil.copytree(ROOT / place, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    tables = (baselines.KINDS, baselines.METHODS, RULES, ESTIMATORS, OBJECTIVES, OPTIMISERS)
    before = [dict(table) for table in tables]
    known = set(gym.registry)
    root, own = logging.getLogger(), logging.getLogger("ddopg")
    handlers, level = list(root.handlers), own.level
    yield tmp_path
    root.handlers[:] = handlers  # pages configure the logging module as a user does
    own.setLevel(level)
    for table, was in zip(tables, before, strict=True):
        table.clear()
        table.update(was)
    for name in set(gym.registry) - known:
        del gym.registry[name]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_page_runs(page, clone):
    names = {"__name__": "__main__"}
    for block in blocks_of(page):
        assert block.language in LANGUAGES, (
            f"{page.name}:{block.line}: say whether the block is one of {sorted(LANGUAGES)}, got {block.language!r}"
        )
        LANGUAGES[block.language](page, block, names)


def run_python(page, block, names):
    text = re.sub(
        r"(total_(?:timesteps|episodes))=([\d_]+)",
        lambda found: f"{found[1]}={smaller(found[2])}",
        block.text,
    )
    if file := re.match(r"# (\w+\.py)\n", text):
        Path(file[1]).write_text(text)
        return
    lines_as_in_the_page = "\n" * block.line + text
    exec(compile(lines_as_in_the_page, page, "exec"), names)


def run_commands(page, block, names):
    for command, words in commands_of(block):
        if command in NOT_FOR_TESTS:
            continue
        if words[:3] == ["python", "-m", "ddopg"]:
            words = words[2:]
        while re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # set for one command, all of which are only parsed
            assert any(command.startswith(beginning) for beginning in PARSED_ONLY), command
            words = words[1:]
        assert words[0] in PROGRAMS, f"{page.name}: no test knows how to run {command!r}"
        PROGRAMS[words[0]](command, words[1:])


def run_ddopg(command, arguments):
    if any(command.startswith(beginning) for beginning in PARSED_ONLY):
        parsed = parse(arguments)
        if isinstance(parsed, Bench):
            assert [baselines.find_method(name) for name in parsed.methods]
        return
    if arguments[0] == "train" and not {"--steps", "--episodes"} & set(arguments):
        arguments += ["--steps", "10000"]  # as the command takes it
    for i, word in enumerate(arguments[:-1]):
        if word in ("--steps", "--episodes"):
            arguments[i + 1] = str(smaller(arguments[i + 1]))
        arguments[i + 1] = SMALL.get(word, arguments[i + 1])
    assert main([*arguments, *QUICK.get(arguments[0], [])]) == 0, command


def check_make(command, arguments):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(arguments) <= set(targets), command


def check_pip(command, arguments):
    assert arguments[0] == "install", command
    for extras in re.findall(r"\[([\w,-]+)\]", command):
        assert set(extras.split(",")) <= set(EXTRAS), command


def check_script(command, arguments):
    """Scripts of the repository take hours: they exist, and know the words that they are given."""
    script, *words = arguments
    text = (ROOT / script).read_text()
    subcommand = [word for word in words[:1] if word.isalpha()]
    for word in (*subcommand, *(word for word in words if word.startswith("--"))):
        assert f'"{word}"' in text, f"{command}: {script} does not know {word}"


def run_sqlite(command, arguments):
    path, query = arguments
    with closing(sqlite3.connect(path)) as database:
        assert database.execute(query).fetchall(), command


def copy(command, arguments):
    *sources, target = arguments
    for source in sources:
        shutil.copy(source, target)


def read_toml(page, block, names):
    if "changes" in tomllib.loads(block.text):
        Path("preset.toml").write_text(block.text)
        ddopg.load_config("preset.toml")


LANGUAGES = {
    "python": run_python,
    "bash": run_commands,
    "toml": read_toml,
    "text": lambda page, block, names: None,
}
PROGRAMS = {
    "ddopg": run_ddopg,
    "make": check_make,
    "pip": check_pip,
    "python": check_script,
    "sqlite3": run_sqlite,
    "cp": copy,
}


def test_every_exception_is_still_needed():
    commands = [
        command
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "bash"
        for command, _ in commands_of(block)
    ]
    for beginning in (*PARSED_ONLY, *NOT_FOR_TESTS):
        assert any(command.startswith(beginning) for command in commands), beginning


def mentions_of(page):
    """Commands in the prose and in synopses: `ddopg NAME … --option …`."""
    text = page.read_text()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    yield from re.findall(r"`(ddopg [^`]+)`", prose)
    for block in blocks_of(page):
        if block.language == "text":
            yield from re.findall(r"^ddopg .*$", block.text, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_that_the_page_mentions_exists(page, capsys):
    for mention in mentions_of(page):
        command = mention.split()[1]
        wanted = set(re.findall(r"(?<=[\s\[])--[a-z][\w.-]*", mention)) - {"--version"}
        if command.startswith("-"):
            continue
        with pytest.raises(SystemExit) as ended:
            parse([command, "--help"])
        assert ended.value.code == 0, mention
        assert wanted <= set(re.findall(r"--[\w.-]+", capsys.readouterr().out)), mention


def test_every_local_link_of_the_pages_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_of_the_docs_is_reachable_from_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    for page in (ROOT / "docs").rglob("*.md"):
        assert f": {page.relative_to(ROOT / 'docs')}\n" in navigation, f"{page.name} is not in mkdocs.yml"
