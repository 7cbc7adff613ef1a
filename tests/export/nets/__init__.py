"""Whole networks, one file for each kind of input."""
