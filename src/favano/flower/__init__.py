"""A federation over a network, on Flower: the simulator's methods in real time."""

import lazy_loader

# Names are listed in `__init__.pyi` and loaded when they are first used: Flower loads slowly.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
