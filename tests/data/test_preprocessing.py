import pytest

from favano.data.preprocessing import Preprocessing
from favano.errors import BadInput


@pytest.mark.parametrize(
    ("preprocessing", "augments"),
    [
        (Preprocessing(scale=255.0), False),
        (Preprocessing(scale=255.0, flip=True), True),
        (Preprocessing(scale=255.0, crop_padding=4), True),
        (Preprocessing(scale=255.0, mean=(0.5,), std=(0.2,)), False),
    ],
)
def test_augments_when_something_random_happens(
    preprocessing: Preprocessing, augments: bool
) -> None:
    assert preprocessing.augments is augments


def test_bad_values_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^scale=0: need a number > 0$"):
        Preprocessing(scale=0)
    with pytest.raises(BadInput, match=r"^std=\(\): need 1 numbers$"):
        Preprocessing(scale=1, mean=(0.5,))
    with pytest.raises(BadInput, match=r"^std=\(0\.0,\): need numbers > 0$"):
        Preprocessing(scale=1, mean=(0.5,), std=(0.0,))
    with pytest.raises(BadInput, match=r"^crop_padding=-1: need 0 or more$"):
        Preprocessing(scale=1, crop_padding=-1)
