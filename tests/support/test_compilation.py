"""The persistent cache: a second process finds its programs compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

CODE = """
import jax, ddopg, os, sys
if os.environ.pop("NOBODY", None):  # `docker run --user`: a number that is no user
    import pwd
    pwd.getpwuid = {{}}.__getitem__
sys.path.insert(0, {root!r})
from tests.probes import Follow
agent = ddopg.DDOPG(Follow(), seed=0).learn(total_episodes={episodes})
print(jax.config.jax_compilation_cache_dir)
"""


FOLDER = "python{}.{}".format(*sys.version_info)  # compressed programs of one are no programs to another


def learn(episodes=1, before="", **environment):
    root = str(Path(__file__).parents[2])
    clean = {k: v for k, v in os.environ.items() if k not in ("DDOPG_CACHE", "JAX_COMPILATION_CACHE_DIR")}
    done = subprocess.run(
        [sys.executable, "-c", before + CODE.strip().format(root=root, episodes=episodes)],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "compilation cache" not in done.stderr
    return done.stdout.strip()


def programs(path):
    return {name for name in os.listdir(path) if name.endswith("-cache")}


def test_a_second_run_compiles_nothing_new(tmp_path):
    place = tmp_path / "cache" / FOLDER
    assert learn(9, DDOPG_CACHE=str(place.parent)) == str(place)
    first = programs(place)
    assert first
    learn(9, DDOPG_CACHE=str(place.parent))
    assert programs(place) == first


def test_the_cache_can_be_turned_off_and_a_place_given_to_jax_is_respected(tmp_path):
    assert learn(DDOPG_CACHE="") == "None"
    other = str(tmp_path / "jax")
    assert learn(JAX_COMPILATION_CACHE_DIR=other) == other


def test_the_default_place_is_the_user_s_cache_directory(tmp_path):
    place = tmp_path / "ddopg" / "compiled" / FOLDER
    assert learn(XDG_CACHE_HOME=str(tmp_path)) == str(place)
    assert programs(place)


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("")
    assert learn(DDOPG_CACHE=str(tmp_path / "file" / "cache")) == "None"


@pytest.mark.parametrize("cache", [{}, {"DDOPG_CACHE": ""}])
def test_a_user_without_a_home_works_without_a_cache(cache, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert learn(NOBODY="1", **cache) == "None"


def test_a_program_that_could_not_be_written_whole_is_not_there(tmp_path):
    """What a full disk leaves of a file would be read, with a warning, at every start from then on."""
    place = str(tmp_path / FOLDER)
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3000, -1)); "
    learn(before=small, DDOPG_CACHE=str(tmp_path))
    kept = {name: os.path.getsize(os.path.join(place, name)) for name in os.listdir(place)}
    assert kept
    assert all(name.endswith("-cache") and size < 3000 for name, size in kept.items())
    assert learn(DDOPG_CACHE=str(tmp_path)) == place
    assert len(programs(place)) > len(kept)


def test_programs_have_the_names_that_jax_looks_for(tmp_path):
    """JAX may rename the files of its cache; under another name none would be found again."""
    renamed = "import jax._src.lru_cache as cache; cache._CACHE_SUFFIX = '-program'; "
    learn(before=renamed, DDOPG_CACHE=str(tmp_path))
    names = os.listdir(tmp_path / FOLDER)
    assert names
    assert all(name.endswith("-program") for name in names)


def test_a_cache_of_jax_with_other_parts_keeps_its_own_way(tmp_path):
    place = tmp_path / FOLDER
    other = """
import jax._src.lru_cache as module
def begin(self, *_, **__):
    pass
module.LRUCache.__init__, module.LRUCache._path = begin, None
module.LRUCache.get = lambda self, key: None
module.LRUCache.put = lambda self, key, value: open({path!r}, "a").write("program ")
"""
    learn(before=other.format(path=str(tmp_path / "put")), DDOPG_CACHE=str(tmp_path))
    assert (tmp_path / "put").read_text().split() != []
    assert not programs(place)
