"""The parts of `benches/compare.py`, which measures Ixion and other runtimes side by side."""
