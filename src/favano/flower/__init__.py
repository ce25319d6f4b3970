"""A federation over a network, on Flower: the simulator's methods in real time."""
