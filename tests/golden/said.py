"""What a command says, without what depends on the machine, its load, and the release."""

from __future__ import annotations

import re
from typing import Final

from tests.golden.comparison import Value
from tests.golden.front_door import Output
from tests.golden.records import made_with

_PROGRESS: Final = re.compile(r"^ *\d+ %: .*\n", re.MULTILINE)
_SECONDS: Final = re.compile(r"[\d.,]+ (s|min|h|Wh|g CO2e)\b")


def said(output: Output) -> dict[str, Value]:
    """The exit code, and the lines."""
    text = _PROGRESS.sub("", f"{output.err}{output.out}")
    text = _SECONDS.sub(r"... \1", text)
    names = {made_with()["processor"]: "PROCESSOR", made_with()["torch"]: "TORCH"}
    for name, word in {**names, made_with()["favano"]: "RELEASE"}.items():
        text = text.replace(name, word)
    return {"exit code": output.code, "lines": list(text.splitlines())}
