"""Learn to balance a pole from a few hundred short rollouts, look at the result, save it and load it again."""

import sys

import gymnasium as gym

import ddopg

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 4000

env = gym.make("ddopg/Cartpole-v0")
agent = ddopg.DDOPG(env, seed=16)
agent.learn(total_timesteps=steps, progress_bar=True)

returns = ddopg.evaluate(agent)
print(f"incumbent: mean return {returns.mean():.1f} over {len(returns)} fresh episodes (the most is 1000)")

agent.save("cartpole.safetensors")
action, _ = ddopg.load("cartpole.safetensors").predict([0.0, 0.0, 0.05, 0.0])
print(f"with the pole leaning by 0.05 rad it pushes with {action[0]:.2f} N")
