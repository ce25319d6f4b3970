"""Keys that a federation has, and those that only simulations have."""

from __future__ import annotations

import pytest

from favano.errors import BadInput
from favano.specification.federation_keys import check_keys
from favano.specification.spec import make_spec
from tests.specs import complete


@pytest.mark.parametrize(
    "keys",
    [
        {"horizon": 5.0}, {"seeds": 2}, {"device": "cuda"}, {"engine": "loop"}, {"holdout": 3},
        {"data_fraction": 0.5}, {"fast_fraction": 0.5}, {"step_law": "exponential"},
        {"rate_decay": True}, {"normalise": True}, {"strict_ties": True},
        {"evaluate_every": 3.0}, {"track_bound": True}, {"variance": "live"},
    ],
)  # fmt: skip
def test_keys_of_simulations_are_refused(keys: dict[str, object]) -> None:
    (key,) = keys
    with pytest.raises(BadInput, match=f"^{key}=.*is a key of simulations, which a federation"):
        check_keys(make_spec(keys))


def test_others_pass_as_do_values_that_were_filled_in() -> None:
    keys = {"dataset": "mnist", "clients": 9, "selected": 3, "seed": 4, "learning_rate": 0.1}
    check_keys(make_spec({**keys, "codec": "qsgd", "codec_bits": 4, "buffers": "local"}))
    check_keys(complete(**keys))
