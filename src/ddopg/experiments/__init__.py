"""Experiments: jobs and their records, statistics over them, and the runner that makes the one from the other."""
