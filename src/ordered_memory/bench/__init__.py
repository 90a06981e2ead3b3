"""The native engine against `memory.py`, measured side by side in one run: `om bench`."""
