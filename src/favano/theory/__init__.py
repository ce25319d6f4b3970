"""The paper's mathematics as functions. NumPy and SciPy only."""

import lazy_loader

# Names are listed in `__init__.pyi` and loaded when they are first used: SciPy loads slowly.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
