"""Mountaincar."""
