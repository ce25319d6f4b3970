"""What is tried out before a run, so that nothing fails in the middle of it."""
