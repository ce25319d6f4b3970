"""What is known before training: fleets, schedules, and who trains the model. NumPy only."""
