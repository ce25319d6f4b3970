"""Runs before anything is trained: fleets, schedules, and who trains the model. NumPy only."""
