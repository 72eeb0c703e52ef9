"""Rollouts as Minari data sets, the offline standard of the Farama Foundation, and back (extra `minari`).

May import the callbacks, `storage`, `rollouts` and what these import.
"""

from ddopg.minari.reading import Episode, episodes, trajectories
from ddopg.minari.writing import export

__all__ = ["Episode", "episodes", "export", "trajectories"]
