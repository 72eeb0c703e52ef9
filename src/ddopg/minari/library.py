"""What writing and reading share: the import of Minari, names of data sets, and names of our metadata."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from ddopg.errors import MissingPackageError, require

KEY = "ddopg"  # of what we say about a data set in its metadata
ANSWER = "policy_output"  # info: what the policy answered, before it was clipped to the action range
HOME = "MINARI_DATASETS_PATH"  # where Minari keeps its data sets
NAME = re.compile(r"([-\w]+/)*[-\w]+-v\d+")


def require_name(name: str) -> None:
    """Refuse what Minari would not take for the name of a data set.

    Raises:
        ConfigError: with the form of a valid name.
    """
    require(
        NAME.fullmatch(name) is not None,
        f"a Minari data set is called namespace/name-v0 (letters, digits, - and _, and a version), got {name!r}",
    )


def import_minari() -> Any:
    """Import Minari, and make its directory of data sets absolute.

    Raises:
        MissingPackageError: without the extra `minari`.
    """
    try:
        import h5py  # noqa: F401
        import minari
    except ImportError as error:
        raise MissingPackageError("data sets need the package minari[hdf5]", "minari") from error
    if HOME in os.environ:  # Minari 0.5 loses its way in a relative one
        os.environ[HOME] = os.path.abspath(os.environ[HOME])
    return minari


def find_home() -> Path:
    """The directory in which Minari keeps its data sets; it is made if it is not there."""
    from minari.storage import get_dataset_path

    return Path(get_dataset_path())


def find_place(name: str) -> Path:
    """The directory in which Minari keeps the data of a data set, whether it is there or not."""
    return heal_dataset(name) / "data"


def locate_old(path: Path) -> Path:
    """Where a data set waits while another one takes its place."""
    return path.with_name(f".{path.name}.old")


def heal_dataset(name: str) -> Path:
    """Finish what a kill interrupted while one data set took the place of another: only one of them is left, whole.

    Returns:
        The directory of the data set, whether it is there or not.
    """
    path = find_home() / name
    old = locate_old(path)
    if old.exists() and path.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(path)
    return path


def create_namespace(name: str) -> None:
    """Let Minari know the namespace of a data set, if it does not."""
    from minari import namespace

    space = name.rpartition("/")[0]
    if space and space not in namespace.list_local_namespaces():
        namespace.create_namespace(space)
