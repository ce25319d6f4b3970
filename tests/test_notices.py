"""Notices go to standard error, or wherever the program has its logs."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """import logging
{setup}
from favano.notices import notice
notice('first')
notice('100 %')"""


@pytest.mark.parametrize(
    ("setup", "written"),
    [
        ("", "favano: first\nfavano: 100 %\n"),
        ("logging.basicConfig(format='%(name)s|%(message)s')", "favano|first\nfavano|100 %\n"),
        ("logging.getLogger('favano').setLevel(logging.ERROR)", ""),
    ],
)
def test_a_program_has_them_as_it_likes(setup: str, written: str) -> None:
    code = CODE.format(setup=setup)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", written)
