"""Studies over many runs: the paper's tables and figures, tuning, benchmarks, guarantees."""
