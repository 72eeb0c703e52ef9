"""The storage of a study: an SQLAlchemy database that many processes may open at the same instant."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import sqlalchemy
import sqlalchemy.exc
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from ddopg.errors import ConfigError, StoreError

HEARTBEAT = 15  # seconds between two signs of life
GRACE = 60  # seconds of silence after which a process counts as dead
ATTEMPTS, PAUSE = 10, 0.1  # to open a storage whose tables another process is making; seconds between them
# No pool: a connection that a failed attempt leaves in one would never be closed, and Python warns of it since 3.13.
_SQLITE = {"connect_args": {"timeout": 60}, "poolclass": NullPool}
RETRIES = 3  # a trial that takes its process with it is not tried for ever


def connect(url: str) -> RDBStorage:
    """Open a storage; its tables are made if they are not there.

    If another process makes them at the same instant, this one tries again.

    Args:
        url: as SQLAlchemy has it.

    Returns:
        The storage.

    Raises:
        ConfigError: if the URL cannot be used, or its driver is not installed.
        StoreError: if the storage does not answer.
    """
    try:
        with translate_errors(url):
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return _try_to_connect(url)
                except sqlalchemy.exc.DBAPIError as error:
                    made = "already exists" in str(error) or isinstance(error, sqlalchemy.exc.IntegrityError)
                    if not made or attempt == ATTEMPTS:
                        raise
                    time.sleep(PAUSE * attempt)
    except (ImportError, sqlalchemy.exc.ArgumentError, ValueError) as error:
        raise ConfigError(
            f"cannot open the storage {_hide_password(url)}: {error}; expected an SQLAlchemy URL such as "
            "sqlite:///study.sqlite or postgresql://user@host/name, whose driver is installed"
        ) from error
    raise AssertionError("the last attempt returns or raises")


def _try_to_connect(url: str) -> RDBStorage:
    with silence_warnings():
        return RDBStorage(
            url,
            engine_kwargs=_SQLITE if url.startswith("sqlite") else {},
            heartbeat_interval=HEARTBEAT,
            grace_period=GRACE,
            heartbeat_stale_trial_callback=make_retry_callback(),
        )


def find_future_signs(storage: BaseStorage) -> set[int]:
    """Find the trials whose last sign of life is later than now, by the clock of the database."""
    signs = sqlalchemy.table(
        "trial_heartbeats",
        sqlalchemy.column("trial_id"),
        sqlalchemy.column("heartbeat", sqlalchemy.DateTime()),
    )
    database: Any = getattr(storage, "_backend", storage)  # Optuna puts a cache before it
    with database.engine.connect() as connection:
        now = connection.execute(sqlalchemy.select(sqlalchemy.func.now())).scalar_one().replace(tzinfo=None)
        late = signs.c.heartbeat > now + timedelta(seconds=HEARTBEAT)
        return set(connection.execute(sqlalchemy.select(signs.c.trial_id).where(late)).scalars())


def make_retry_callback() -> RetryHeartbeatStaleTrialCallback:
    """Make what puts a trial back into the queue, with the seeds that are finished."""
    return RetryHeartbeatStaleTrialCallback(max_retry=RETRIES, inherit_intermediate_values=True)


@contextmanager
def silence_warnings() -> Iterator[None]:
    """Silence two warnings of Optuna within the block.

    Optuna calls these parts experimental, and heartbeats without `optimize` unusual; tests show that they work.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        warnings.filterwarnings("ignore", message="Heartbeat of storage is supposed")
        yield


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Turn errors of the storage within the block into one of this package, without the password.

    Raises:
        StoreError: instead of the error of SQLAlchemy or Optuna.
    """
    try:
        yield
    except sqlalchemy.exc.ArgumentError:
        raise
    except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
        raise StoreError(
            f"the storage {_hide_password(url)} does not answer as it should: {error}; what was finished is safe, "
            "the same command goes on"
        ) from error


def _hide_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except sqlalchemy.exc.ArgumentError:
        return "that was given"
