"""Benchmarks: jobs, where they run, their records, and the statistics over them."""
