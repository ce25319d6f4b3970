"""Doctests in docstrings become blocks of code; as Markdown, `>>>` would be a quotation."""

from __future__ import annotations

import re

from griffe import Extension, Object

DOCTEST = re.compile(r"^>>> .+(?:\n.+)*", re.MULTILINE)


class FencedDoctests(Extension):
    """What mkdocstrings reads is changed, never the source."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Put each doctest between fences."""
        if obj.docstring:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
