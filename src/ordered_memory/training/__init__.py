"""Batches, the loop, the run's directory, and measuring."""
