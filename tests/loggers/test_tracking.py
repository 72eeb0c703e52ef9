"""The tracking tools themselves read what is logged: TensorBoard, Weights & Biases (offline), MLflow (SQLite)."""

import json
import struct
import time

import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.loggers import Logging, MlflowLogger, WandbLogger
from ddopg.storage.exports import read_table
from tests.probes import Follow
from tests.recorded import SMALL, everything, quick

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # what these libraries warn of is not ours to repair
]

OPTIONS = ["--seed", "3", *SMALL]


def in_pieces(out, *log):
    """A run of 8, then 10, then 12 rollouts; only the first is told where to log."""
    assert (
        main(["train", "cartpole", "--episodes", "8", "--out", str(out), *OPTIONS, "--log", *log, "--quiet"])
        == 0
    )
    for episodes in ("10", "12"):
        assert main(["resume", str(out), "--episodes", episodes, "--quiet"]) == 0
    return read_table(out / "progress.csv")


def records(data):
    """Of a .wandb file: after 7 bytes, LevelDB's log, in blocks of 32 KiB that may cut a record into pieces."""
    at, pieces = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768  # padding
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        pieces, at = pieces + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield pieces
            pieces = b""


def history(files):
    """step → values, of offline runs of Weights & Biases in the order they were made."""
    from wandb.proto.wandb_internal_pb2 import Record

    found, config = [], {}
    for file in files:
        for data in records(file.read_bytes()):
            record = Record.FromString(data)
            for update in record.run.config.update:
                config[update.key] = json.loads(update.value_json)
            if record.WhichOneof("record_type") == "history":
                values = {
                    item.key or ".".join(item.nested_key): json.loads(item.value_json)
                    for item in record.history.item
                }
                found.append((record.history.step.num, values))
    return found, config


def offline_runs(directory, number):
    """The files of the offline runs and their history, once it has that many rows: a helper process writes them."""
    files = sorted(directory.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.parent.name)
    end = time.monotonic() + 60
    while len(history(files)[0]) < number and time.monotonic() < end:
        time.sleep(0.1)
    return files, *history(files)


def test_tensorboard_reads_the_curves(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    progress = in_pieces(tmp_path / "run", "tensorboard")
    reader = EventAccumulator(str(tmp_path / "run"))
    reader.Reload()
    curve = reader.Scalars("ddopg/return")
    assert [point.step for point in curve] == progress["steps"]
    assert [point.value for point in curve] == pytest.approx(progress["return"], rel=1e-6)
    assert "_hparams_/session_start_info" in reader.summary_metadata


def test_weights_and_biases_keeps_one_run_over_resumes(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    out = tmp_path / "run"
    progress = in_pieces(out, "wandb")
    files, found, config = offline_runs(out, 12)
    assert len(files) == 3
    assert len({file.name for file in files}) == 1, "the same id"
    assert [step for step, _ in found] == progress["steps"]
    assert [values["ddopg/return"] for _, values in found] == pytest.approx(progress["return"])
    assert found[0][1]["rollout/ep_rew_mean"] == pytest.approx(progress["return"][0])
    assert config["seed"] == 3
    assert config["search"]["steps"] == 5


def test_mlflow_keeps_one_run_over_resumes(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    address = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    progress = in_pieces(tmp_path / "run", "mlflow")
    client = MlflowClient(address)
    (run,) = client.search_runs([client.get_experiment_by_name("ddopg").experiment_id])
    curve = client.get_metric_history(run.info.run_id, "ddopg/return")
    assert [point.step for point in curve] == progress["steps"]
    assert [point.value for point in curve] == pytest.approx(progress["return"])
    assert run.data.params["search.steps"] == "5"
    assert run.info.run_name == "cartpole seed 3"
    assert run.info.status == "FINISHED"
    assert len(client.get_metric_history(run.info.run_id, "eval/mean_reward")) == len(
        read_table(tmp_path / "run" / "evaluation.csv")["mean"]
    )
    client.delete_run(run.info.run_id)


def test_an_mlflow_run_that_is_gone_is_written_anew_from_the_store(tmp_path, monkeypatch):
    from mlflow.tracking import MlflowClient

    out = tmp_path / "run"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/one.db")
    progress = in_pieces(out, "mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/two.db")
    assert main(["resume", str(out), "--quiet"]) == 0
    client = MlflowClient(f"sqlite:///{tmp_path}/two.db")
    (run,) = client.search_runs([client.get_experiment_by_name("ddopg").experiment_id])
    curve = client.get_metric_history(run.info.run_id, "ddopg/return")
    assert [point.step for point in curve] == progress["steps"]


def test_a_server_that_is_not_there_costs_the_run_nothing(tmp_path, monkeypatch, caplog):
    import wandb

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    learner = ddopg.DDOPG(Follow(), config=quick(), seed=3, run_directory=tmp_path / "run")
    settings = wandb.Settings(base_url="http://127.0.0.1:9", api_key="0" * 40, init_timeout=5)
    loggers = (
        MlflowLogger(tmp_path / "run", tracking_uri="http://127.0.0.1:9"),
        WandbLogger(tmp_path / "run", mode="online", settings=settings),
    )
    learner.learn(total_episodes=9, callback=Logging(*loggers))
    learner.close()
    messages = [record.getMessage() for record in caplog.records if record.name == "ddopg"]
    assert [message.split(" failed")[0] for message in messages] == [
        "ddopg: MlflowLogger",
        "ddopg: WandbLogger",
    ]
    alone = ddopg.DDOPG(Follow(), config=quick(), seed=3, run_directory=tmp_path / "alone")
    alone.learn(total_episodes=9)
    alone.close()
    assert everything(tmp_path / "run") == everything(tmp_path / "alone")


def test_two_calls_of_learn_go_on_in_the_same_run(tmp_path):
    logger = WandbLogger(tmp_path, mode="offline")
    learner = ddopg.DDOPG(Follow(), config=quick(), seed=3)
    for _ in range(2):
        learner.learn(total_episodes=5, callback=Logging(logger))
    files, found, _ = offline_runs(tmp_path, 10)
    assert len({file.name for file in files}) == 1
    assert [step for step, _ in found] == list(range(3, 31, 3))
