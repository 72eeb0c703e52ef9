"""Cartpole."""
