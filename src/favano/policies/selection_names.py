"""Selection rules by name: ours, and those in a file of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from favano.errors import BadInput, require
from favano.options import did_you_mean, from_text, is_text_of, place_of
from favano.policies.selection import Selection
from favano.policies.selection_rules import BySamples, LeastRecent, Uniform, Weighted
from favano.policies.value_rules import Oort, PowerOfChoice
from favano.user_classes import class_in_file, file_of

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

ASelection: TypeAlias = str | Selection | type[Selection]
_KINDS = (Uniform, Weighted, BySamples, LeastRecent, PowerOfChoice, Oort)
OURS: Final[Mapping[str, type[Selection]]] = {kind.name: kind for kind in _KINDS}
KEY: Final = "selection"


def selection_class(name: str) -> type[Selection]:
    """The rule of a name, or of `path/to/file.py:Name`."""
    if (path := file_of(name)) is not None:
        return class_in_file(name, path, Selection, KEY)
    if name not in OURS:
        raise BadInput(KEY, name, f"unknown; {did_you_mean(name, OURS)}")
    return OURS[name]


def as_selection(given: object) -> Selection:
    """The rule of a text, a class or an object.

    >>> print(as_selection("weighted:3,1"), as_selection(LeastRecent))
    weighted:weights=3.0,1.0 least-recent
    """
    if isinstance(given, str):
        return from_text(selection_class(place_of(given)[0]), given, KEY)
    rule = given() if isinstance(given, type) and issubclass(given, Selection) else given
    text = "need a name, file.py:Name, or an object of favano.Selection"
    require(isinstance(rule, Selection), KEY, type(rule).__name__, text)
    assert isinstance(rule, Selection)
    text = "cannot be written as a text: need options that are numbers or plain words"
    require(is_text_of(rule, str(rule), KEY), KEY, rule, text)
    return rule


class _Given:
    """Lets a rule be given as a text, a class or an object."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(as_selection)


# The type of an option: what is given may be a text, what it holds is a rule.
if TYPE_CHECKING:
    GivenSelection: TypeAlias = Selection
else:
    GivenSelection = Annotated[Selection | str, _Given()]
