"""The server's side of a run, simulated or real: client updates become server steps."""

import lazy_loader

# Names are listed in `__init__.pyi` and loaded when they are first used: PyTorch loads slowly.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
