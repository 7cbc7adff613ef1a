"""The parts of `benches/compare.py`, which compares Ixion with other runtimes."""
