"""No simulator in the loop: the library proposes a policy, you run it where you like, and tell what happened."""

import sys

import gymnasium as gym
import numpy as np

import ddopg

robot = gym.make("Pendulum-v1")  # stands for the machine in your laboratory


def run_on_robot(act):
    """One episode: the observations before each action, the actions, the rewards."""
    observations, actions, rewards, over = [], [], [], False
    observation, _ = robot.reset()
    while not over:
        action = act(observation)
        observations.append(observation)
        actions.append(action)
        observation, reward, terminated, truncated, _ = robot.step(np.clip(action, -2, 2))
        rewards.append(reward)
        over = terminated or truncated
    return observations, actions, rewards, terminated


agent = ddopg.DDOPG(
    observation_space=gym.spaces.Box(-8, 8, (3,)),
    action_space=gym.spaces.Box(-2, 2, (1,)),
    horizon=200,
    seed=0,
)
rollouts = int(sys.argv[1]) if len(sys.argv) > 1 else 30
while agent.state.memory.size < rollouts:
    for proposal in agent.ask():  # the initial design first, one proposal afterwards
        info = agent.tell(proposal, proposal.trajectory(*run_on_robot(proposal.act)))
        print(f"rollout {info.rollout:3d}: return {info.return_:8.1f}, incumbent {info.incumbent:8.1f}")

agent.incumbent.save("pendulum.safetensors")
