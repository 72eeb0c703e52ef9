"""Updates per second of the critic beside SAC of stable-baselines3, on the same sizes and the same transitions.

    python benchmarks/critic_updates.py [--rounds 9] [--out critic/updates.json]

Both have the hidden layers of the default preset, batches of 128, Adam and one thread, and learn from 10,000 stored
random steps; nothing is rolled out. An update is one step of both Q networks and of their slow copies. We update the
actor with every second one and have layer norms in the networks, SAC updates the actor with each; so we are measured
in both ways. Candidates take turns; the median round counts, in seconds of the processor,
because the machine may be in use. Needs PyTorch and stable-baselines3 (the extra `baselines`).
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import jax
import numpy as np
import stable_baselines3 as sb3
import torch

import ddopg
from ddopg.core import algorithm
from ddopg.core import critic as critics
from ddopg.core.memory import Memory, add
from ddopg.core.policy_building import build_policy
from ddopg.core.problem import Problem
from ddopg.core.transitions import collect_transitions

OUT = Path(__file__).parent / "critic" / "updates.json"
SIZES = {"Pendulum-v1": (3, 1), "InvertedDoublePendulum-v5": (9, 1), "HalfCheetah-v5": (17, 6)}
SAC = "SAC of stable-baselines3"
STEPS, EPISODE, UPDATES = 10_000, 200, 200


def draw(observations, actions, seed=0):
    """Random steps in episodes that a time limit ends."""
    rng, shape = np.random.default_rng(seed), (STEPS // EPISODE, EPISODE)
    return (
        rng.standard_normal((*shape, observations)).astype(np.float32),
        rng.uniform(-1, 1, (*shape, actions)).astype(np.float32),
        rng.standard_normal(shape),
    )


def ours(observations, actions, actor_every=critics.ACTOR_EVERY):
    """A round of `critic.update`, one compiled program."""
    config = ddopg.preset("default")
    problem = Problem(observations, (-1.0,) * actions, (1.0,) * actions, EPISODE)
    policy, memory = build_policy(problem, config), Memory()
    theta = np.asarray(policy.init(jax.random.key(0)))
    for seen, answered, rewards in zip(*draw(observations, actions), strict=True):
        memory = add(memory, ddopg.make_trajectory(theta, seen, answered, rewards, horizon=EPISODE))
    transitions = jax.device_put(collect_transitions(memory, config.critic.discount))
    critic = critics.init(jax.random.key(1), theta, observations, actions, config.critic)

    @jax.jit
    def update(critic, transitions, number):
        return critics.update.__wrapped__(critic, transitions, 0, number, policy, config.critic)

    def run():
        critics.ACTOR_EVERY = actor_every  # it is read where the program is traced, the first time
        jax.block_until_ready(update(critic, transitions, UPDATES))

    return run


class Nowhere(gym.Env):
    def __init__(self, observations, actions):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (observations,))
        self.action_space = gym.spaces.Box(-1, 1, (actions,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.float32), {}


def sac(observations, actions):
    """`SAC.train` on a filled replay buffer."""
    config = ddopg.preset("default")
    model = sb3.SAC(
        "MlpPolicy",
        Nowhere(observations, actions),
        learning_rate=config.critic.learning_rate,
        buffer_size=STEPS,
        batch_size=critics.BATCH,
        policy_kwargs={"net_arch": {"pi": list(config.policy.hidden), "qf": list(config.critic.hidden)}},
        device="cpu",
        seed=0,
    )
    model.set_logger(sb3.common.logger.Logger(None, []))
    for seen, answered, rewards in zip(*draw(observations, actions), strict=True):
        for t in range(EPISODE - 1):
            done = np.array([False])
            model.replay_buffer.add(seen[t], seen[t + 1], answered[t], rewards[t], done, [{}])
    return lambda: model.train(gradient_steps=UPDATES, batch_size=critics.BATCH)


def measure(name, rounds):
    """Updates per second of the processor, and how many times faster we are, round by round."""
    sizes = SIZES[name]
    runs = {
        "ddopg": ours(*sizes),
        "ddopg, actor with each": ours(*sizes, actor_every=1),
        SAC: sac(*sizes),
    }
    spent = {what: [] for what in runs}
    for run in runs.values():
        run()  # compiles, and fills caches
    for _ in range(rounds):
        for what, run in runs.items():
            begun = time.process_time()
            run()
            spent[what].append(time.process_time() - begun)
    rates = {what: round(UPDATES / median(some)) for what, some in spent.items()}
    faster = {
        what: round(median(theirs / mine for mine, theirs in zip(some, spent[SAC], strict=True)), 2)
        for what, some in spent.items()
        if what != SAC
    }
    return {"env": name, "updates_per_second": rates, "times_faster": faster}


def share(env="Pendulum-v1", rollouts=14):
    """What the critic's rounds are of an iteration with the default preset, compilation left out."""
    agent, spent, original = ddopg.DDOPG(env, preset="default", seed=0), [], algorithm.learn_values

    def clocked(*arguments):
        begun = time.process_time()
        critic = jax.block_until_ready(original(*arguments))
        spent.append(time.process_time() - begun)
        return critic

    algorithm.learn_values = clocked
    try:
        agent.learn(total_episodes=rollouts)
        spent.clear()
        begun = time.process_time()
        agent.learn(total_episodes=rollouts)
        return {"env": env, "share_of_iteration": round(sum(spent) / (time.process_time() - begun), 3)}
    finally:
        algorithm.learn_values = original


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    config = ddopg.preset("default")
    rows = [measure(name, options.rounds) for name in SIZES]
    rows.append(share())
    for row in rows:
        print(row)
    about = {
        "version": ddopg.__version__,
        "machine": f"{platform.machine()}, in use: load {os.getloadavg()[0]:.1f}",
        "packages": {
            "jax": jax.__version__,
            "torch": torch.__version__,
            "stable_baselines3": sb3.__version__,
        },
        "hidden": {"actor": config.policy.hidden, "critic": config.critic.hidden},
        "batch": critics.BATCH,
        "rounds": options.rounds,
    }
    options.out.write_text(json.dumps(about | {"sizes": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
