"""PPO, TRPO, SAC and TQC of the real libraries: copied faithfully, counted, evaluated and learning."""

import gymnasium as gym
import numpy as np
import pytest

from ddopg import baselines
from ddopg.baselines import sb3, sbx
from ddopg.baselines.base import expect_as_libraries_do
from ddopg.baselines.settings import PPOSettings, SACSettings, TQCSettings, TRPOSettings
from ddopg.envs.adapter import make
from ddopg.rollouts.playing import evaluate

pytestmark = pytest.mark.slow

SMALL = {
    "ppo": PPOSettings(batch=200, minibatch=50, hidden=(8, 8)),
    "trpo": TRPOSettings(batch=250, minibatch=125, hidden=(8, 8)),
    "sac": SACSettings(hidden=(8, 8), learning_starts=50),
    "sac-sbx": SACSettings(hidden=(8, 8), learning_starts=50),
    "tqc-sbx": TQCSettings(hidden=(8, 8), learning_starts=50),
}
COMPILED = ("sac-sbx", "tqc-sbx")
EXACT = 1e-5  # of the action range


@pytest.fixture(autouse=True)
def _as_libraries_expect():
    """Tests call the models themselves, too."""
    with expect_as_libraries_do():
        yield


def student_of(kind, env, monkeypatch, **changes):
    """What the module makes of an environment, before it starts."""
    made = []
    for module in (sb3, sbx):
        monkeypatch.setattr(module, "learn", lambda student: made.append(student) or iter([None]))
    from dataclasses import replace

    next(baselines.load_learner(kind)(env, 0, replace(SMALL[kind], **changes)))
    return made[0]


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("task", ["cartpole", "swimmer"])
@pytest.mark.parametrize("kind", SMALL)
def test_our_policy_acts_as_the_model_predicts(kind, task, whiten, monkeypatch):
    env = make(task)
    student = student_of(kind, env, monkeypatch, whiten=whiten)
    student.model.learn(500)
    theta, normaliser = sb3.extract_params(student), student.model.get_vec_normalize_env()
    size = env.observation_space.shape[0]
    observations = np.random.default_rng(0).normal(size=(50, size))
    seen = normaliser.normalize_obs(observations) if whiten else observations
    predicted, _ = student.model.predict(seen, deterministic=True)
    if kind in ("ppo", "trpo"):  # there the libraries act in [−1, 1]; SAC and TQC scale by themselves
        predicted = predicted * env.action_space.high
    ours = student.policy.act(theta, observations.astype(np.float32))
    np.testing.assert_allclose(
        ours, predicted, rtol=0, atol=EXACT * float(np.ptp([env.action_space.low, env.action_space.high]))
    )
    assert np.ptp(ours) > 0


def test_with_state_dependent_noise_large_outputs_are_clipped_as_the_model_does(monkeypatch):
    import torch

    student = student_of("sac", make("cartpole"), monkeypatch, state_dependent=True)
    with torch.no_grad():
        student.model.policy.actor.mu[0].weight.mul_(300)
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    predicted, _ = student.model.predict(observations, deterministic=True)
    ours = student.policy.act(sb3.extract_params(student), observations)
    np.testing.assert_allclose(ours, predicted, rtol=1e-3, atol=0.01)
    assert np.abs(ours).max() == pytest.approx(10 * np.tanh(2.0), rel=1e-3)


def test_entropy_and_noise_reach_the_library(monkeypatch):
    changes = {"entropy": 0.1, "state_dependent": True, "log_std": -1.5}
    model = student_of("sac", make("cartpole"), monkeypatch, **changes).model
    assert float(model.ent_coef_tensor) == pytest.approx(0.1)
    assert model.actor.log_std.detach().numpy() == pytest.approx(-1.5)


@pytest.mark.parametrize("kind", COMPILED)
def test_entropy_noise_quantiles_and_rhythm_reach_the_compiled_library(kind, monkeypatch):
    changes = {"entropy": 0.1, "state_dependent": True, "train_every": 7, "tau": 0.3, "minibatch": 32}
    changes |= {"drop": 5} if kind == "tqc-sbx" else {}
    model = student_of(kind, make("cartpole"), monkeypatch, **changes).model
    assert model.ent_coef_init == 0.1
    assert model.policy.use_sde
    assert (model.train_freq.frequency, model.gradient_steps) == (7, 7)
    assert (model.tau, model.batch_size, model.learning_starts) == (0.3, 32, 50)
    if kind == "tqc-sbx":
        assert model.policy.n_target_quantiles == 2 * (25 - 5)


@pytest.mark.parametrize("kind", COMPILED)
def test_with_state_dependent_noise_our_policy_acts_as_the_compiled_model_predicts(kind, monkeypatch):
    student = student_of(kind, make("cartpole"), monkeypatch, state_dependent=True, train_every=16)
    student.model.learn(200)
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    predicted, _ = student.model.predict(observations, deterministic=True)
    ours = student.policy.act(sb3.extract_params(student), observations)
    np.testing.assert_allclose(ours, predicted, rtol=0, atol=20 * EXACT)


@pytest.mark.parametrize("kind", SMALL)
def test_settings_reach_the_library(kind, monkeypatch):
    changes = {"discount": 0.9, "hidden": (7, 5), "learning_rate": 0.002}
    student = student_of(kind, make("cartpole"), monkeypatch, **changes)
    assert student.model.gamma == 0.9
    assert student.model.learning_rate == 0.002
    assert [layer.weights.shape for layer in student.read_layers()] == [(4, 7), (7, 5), (5, 1)]


def test_the_tables_settings_are_the_papers(monkeypatch):
    monkeypatch.setattr(sb3, "learn", lambda student: student)
    ppo = sb3.ppo(make("cartpole"), 0, baselines.find_method("ppo-paper").settings)
    assert (ppo.model.n_steps, ppo.model.clip_range(1.0)) == (2000, 0.2)
    trpo = sb3.trpo(make("cartpole"), 0, baselines.find_method("trpo-paper").settings)
    assert (trpo.model.n_steps, trpo.model.target_kl) == (5000, 0.1)


@pytest.mark.parametrize("kind", ["ppo", "trpo"])
def test_actions_stay_in_the_range_and_the_horizon_is_the_environments(kind):
    sent, ends = [], []

    class Watched(gym.Wrapper):
        def step(self, action):
            sent.append(np.array(action))
            result = self.env.step(action)
            ends.append(result[3])
            return result

    learner = baselines.load_learner(kind)(Watched(make("swimmer")), 0, SMALL[kind])
    for checkpoint in learner:
        if checkpoint.steps >= 2000:
            break
    assert np.abs(sent).max() <= 50
    assert np.abs(sent).max() > 25
    assert np.flatnonzero(ends).tolist() == [999, 1999]


@pytest.mark.parametrize("kind", ["ppo", "trpo"])
def test_a_policy_counts_after_its_update_not_before(kind):
    steps = []
    for checkpoint in baselines.load_learner(kind)(make("cartpole"), 0, SMALL[kind]):
        steps.append((checkpoint.steps, checkpoint.theta))
        if len(steps) == 3:
            break
    batch = SMALL[kind].batch
    assert [s for s, _ in steps] == [0, batch, 2 * batch]
    assert not np.array_equal(steps[0][1], steps[1][1])


@pytest.mark.parametrize("kind", SMALL)
def test_learning_writes_no_files(kind, tmp_path, monkeypatch):
    """The libraries' own logger makes a temporary directory at every piece."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for checkpoint in baselines.load_learner(kind)(make("cartpole"), 0, SMALL[kind]):
        if checkpoint.steps >= 500:
            break
    assert list(tmp_path.iterdir()) == []


def test_one_thread_per_worker(monkeypatch):
    import torch

    torch.set_num_threads(2)
    student_of("ppo", make("cartpole"), monkeypatch)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("name", "steps", "worth"),
    [
        ("ppo-tuned", 12_000, 700),
        ("trpo-tuned", 12_000, 700),
        ("sac-tuned", 5000, 400),
    ],
)
def test_it_learns_to_balance(name, steps, worth):
    method, env = baselines.find_method(name), make("cartpole")
    for checkpoint in baselines.load_learner(method.kind)(env, 1, method.settings_for("cartpole")):
        if checkpoint.steps >= steps:
            break
    assert np.mean(evaluate(env, checkpoint.policy, checkpoint.theta, range(2**31, 2**31 + 50))) > worth


@pytest.mark.parametrize(("kind", "settings"), [("sac-sbx", SACSettings), ("tqc-sbx", TQCSettings)])
def test_compiled_learners_learn_to_balance(kind, settings):
    """With the settings of the tuned SAC, which are cheap."""
    cheap = settings(learning_rate=3e-3, hidden=(64, 64), minibatch=64, discount=0.98, tau=0.02, whiten=True)
    env = make("cartpole")
    for checkpoint in baselines.load_learner(kind)(env, 1, cheap):
        if checkpoint.steps >= 3000:
            break
    assert np.mean(evaluate(env, checkpoint.policy, checkpoint.theta, range(2**31, 2**31 + 50))) > 400
