"""Measurements of hybridcc: the suite (``python -m benchmarks``), and scripts that each answer one question."""
