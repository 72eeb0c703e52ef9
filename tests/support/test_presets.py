"""Preset files: read from TOML and JSON, checked by name and type, and used by `train` and `bench`."""

import dataclasses
import json

import pytest

import ddopg
from ddopg import baselines
from ddopg.cli.main import main, parse
from ddopg.config import preset
from ddopg.errors import ArtefactError, ConfigError
from ddopg.support import presets


def written(tmp_path, text, name="mine.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.fixture
def mine(tmp_path):
    return written(
        tmp_path,
        'preset = "paper"\n[changes]\nsearch.steps = 7\n"surrogate.length_scale" = [2]\ndiscount = 0.5\n'
        '[note]\nwhy = "because"\n',
    )


def test_changes_are_laid_over_the_preset(mine):
    read = presets.read(mine)
    paper = preset("paper")
    assert (read.preset, read.note) == ("paper", {"why": "because"})
    assert read.config == dataclasses.replace(
        paper,
        discount=0.5,
        search=dataclasses.replace(paper.search, steps=7),
        surrogate=dataclasses.replace(paper.surrogate, length_scale=(2.0,)),
    )


def test_json_says_the_same_as_toml(mine, tmp_path):
    changes = {"search.steps": 7, "surrogate": {"length_scale": [2]}, "discount": 0.5}
    text = json.dumps({"preset": "paper", "changes": changes})
    assert ddopg.load_config(written(tmp_path, text, "mine.json")) == ddopg.load_config(mine)


def test_an_empty_file_is_the_default(tmp_path):
    assert ddopg.load_config(written(tmp_path, "")) == preset("default")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[changes]\n"search.radus" = 1', "no setting called 'search.radus'; did you mean 'search.radius'"),
        ("[changes]\nsearch = 1", "no setting called 'search'"),
        ('[changes]\nsearch.radius = "wide"', "radius must be of type float, got 'wide'"),
        ("[changes]\nsearch.radius = -1", "search.radius must be finite and at least 0, got -1"),
        ('preset = "papr"', "no preset called 'papr'; did you mean 'paper'"),
        ("preset = 3", "preset must be a name, got 3"),
        ("change = 3", "no part of a preset file called 'change'; did you mean 'changes'"),
        ("changes = 3", "changes must be a table"),
        ("note = 3", "note must be a table"),
        ("[changes", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(text, message, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=r"mine\.toml") as caught:
        presets.read(path)
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ArtefactError, match=r"cannot read .*nowhere\.toml"):
        presets.read(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match=r"is \.toml or \.json"):
        presets.read(written(tmp_path, "", "mine.yaml"))
    with pytest.raises(ConfigError, match="is not JSON"):
        presets.read(written(tmp_path, "{", "mine.json"))
    with pytest.raises(ConfigError, match="must hold a table, got list"):
        presets.read(written(tmp_path, "[]", "mine.json"))
    with pytest.raises(ArtefactError, match="larger than"):
        presets.read(written(tmp_path, "#" * (presets.LARGEST_FILE + 1)))


class TestCommands:
    def test_train_starts_from_the_file_and_options_change_it(self, mine):
        command = parse(["train", "cartpole", "--config", str(mine), "--search.window", "5"])
        assert command.preset == "paper"
        assert (command.config.search.steps, command.config.search.window) == (7, 5)
        assert command.config.discount == 0.5
        assert parse(["train", "cartpole", f"--config={mine}", "--preset", "paper"]).config.discount == 0.5

    def test_a_preset_that_the_file_contradicts_is_refused(self, mine, capsys):
        assert main(["train", "cartpole", "--config", str(mine), "--preset", "released"]) == 2
        assert "starts from the preset 'paper', --preset says 'released'" in capsys.readouterr().err

    def test_a_run_of_a_file_can_be_resumed_without_it(self, tmp_path):
        text = "[changes]\nsearch.steps = 3\nselection.size = 8\n"
        path, run = written(tmp_path, text), tmp_path / "run"
        options = ["--eval-episodes", "2", "--eval-points", "1", "--quiet", "--out", str(run)]
        assert main(["train", "cartpole", "--config", str(path), "--episodes", "9", *options]) == 0
        path.unlink()
        assert main(["resume", str(run), "--episodes", "10", "--quiet"]) == 0
        assert ddopg.load(run / "policy.safetensors").config.search.steps == 3

    def test_a_file_is_a_method_of_the_benchmark(self, mine):
        method = baselines.find_method(str(mine))
        assert (method.kind, method.settings_for("cartpole")) == ("ddopg", presets.read(mine).config)
