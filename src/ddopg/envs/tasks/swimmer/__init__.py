"""Swimmer."""
