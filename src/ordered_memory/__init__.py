"""Ordered Memory: a recurrent layer whose memory is an ordered stack of sub-trees, and the tools around it."""

__version__ = "0.1.0"
