"""FAVANO on Flower."""
