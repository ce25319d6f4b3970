"""Worker processes are forked; two of them work on one core as well, only slower."""

import sys

import pytest

FORKS = pytest.mark.skipif(sys.platform != "linux", reason="needs processes that can be forked")
