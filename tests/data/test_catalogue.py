from pathlib import Path

from favano.data.catalogue import KNOWN, NAMES
from favano.data.preprocessing import Preprocessing
from favano.options import options_of
from favano.specification.parts import ProblemPart

DOCUMENTED = Path(__file__).parents[2] / "docs" / "how-to" / "data.md"


def test_names_are_those_of_the_command_line() -> None:
    assert NAMES == ("digits", "mnist", "cifar10", "tiny-imagenet", "femnist", "shakespeare")


def test_preprocessing_is_the_papers() -> None:
    assert KNOWN["mnist"].preprocessing == Preprocessing(scale=255.0)
    assert KNOWN["mnist"].normalised.mean == (0.1307,)
    assert KNOWN["mnist"].normalised.std == (0.3081,)
    cifar10 = KNOWN["cifar10"].preprocessing
    assert (cifar10.crop_padding, cifar10.flip) == (4, True)
    assert cifar10.mean == (0.4914, 0.4822, 0.4465)
    assert cifar10.std == (0.2023, 0.1994, 0.2010)
    tiny = KNOWN["tiny-imagenet"].preprocessing
    assert (tiny.crop_padding, tiny.flip) == (0, True)
    assert tiny.mean == (0.4802, 0.4481, 0.3975)
    assert tiny.std == (0.2302, 0.2265, 0.2262)


def test_what_normalise_does_to_each_data_set_is_documented() -> None:
    assert (
        options_of(ProblemPart)["normalise"].text
        == "scale images to mean 0 and standard deviation 1"
    )
    documented = DOCUMENTED.read_text(encoding="utf-8")
    said = documented[documented.index("**`--normalise`**") : documented.index("## Limits")]
    for name, known in KNOWN.items():
        if known.preprocessing.tokens:
            continue
        always = known.normalised == known.preprocessing
        assert f"`{name}`" in said.partition("are always normalised")[0]
        numbers = (*known.normalised.mean, *known.normalised.std)
        assert always != all(str(number) in said for number in numbers)
