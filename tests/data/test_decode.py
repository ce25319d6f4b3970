from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from favano.data import cache
from favano.data.catalogue import Mode
from favano.data.decode import decode
from favano.data.origins import Folder
from favano.errors import BadInput

from .conftest import ImageEncoder, ParquetWriter


def decoded(
    origin: Folder, folder: Path, mode: Mode | None = None, classes: int | None = None
) -> cache.Arrays:
    folder.mkdir()
    seen: list[int] = []
    decode(origin, folder, name="own", mode=mode, classes=classes, on_image=seen.append)
    assert set(seen) == {len(seen)}
    return cache.read(folder)


def refusal(origin: Folder, folder: Path, classes: int | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        decoded(origin, folder, classes=classes)
    return str(caught.value)


@pytest.fixture
def grey(tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder) -> Folder:
    pictures = [encode(value, (3, 2), "L") for value in (10, 20, 30)]
    train = write_parquet(tmp_path / "train-0.parquet", pictures, [0, 1, 2])
    test = write_parquet(tmp_path / "test-0.parquet", pictures[:1], [1])
    return Folder("own", (train,), (test,))


def test_grey_images_stay_grey(grey: Folder, tmp_path: Path) -> None:
    arrays = decoded(grey, tmp_path / "out")
    assert arrays.train_images.shape == (3, 1, 2, 3)
    assert arrays.train_images[:, 0, 0, 0].tolist() == [10, 20, 30]
    assert arrays.train_labels.tolist() == [0, 1, 2]
    assert arrays.test_images.shape == (1, 1, 2, 3)
    assert arrays.classes == 3
    files = {"train_images", "train_labels", "test_images", "test_labels", "classes"}
    assert {path.stem for path in (tmp_path / "out").iterdir()} == files


def test_grey_images_become_colour_on_request(grey: Folder, tmp_path: Path) -> None:
    arrays = decoded(grey, tmp_path / "out", mode="RGB", classes=7)
    assert arrays.train_images.shape == (3, 3, 2, 3)
    assert arrays.train_images[1].tolist() == np.full((3, 2, 3), 20).tolist()
    assert arrays.classes == 7


def test_one_colour_image_makes_all_colour(
    grey: Folder, tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    test = write_parquet(tmp_path / "test-1.parquet", [encode(9, (3, 2), "RGB")], [0])
    arrays = decoded(Folder("own", grey.train, (test,)), tmp_path / "out")
    assert arrays.train_images.shape == (3, 3, 2, 3)


def test_colours_and_places_are_kept(tmp_path: Path, write_parquet: ParquetWriter) -> None:
    import io

    from PIL import Image

    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)  # (H, W, C)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    path = write_parquet(tmp_path / "train-0.parquet", [buffer.getvalue()], [0])
    arrays = decoded(Folder("own", (path,), (path,)), tmp_path / "out")
    assert np.array_equal(arrays.train_images[0], pixels.transpose(2, 0, 1))


def test_bits_become_black_and_white(
    tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    pictures = [encode(value, (3, 2), "1") for value in (0, 255)]
    path = write_parquet(tmp_path / "train-0.parquet", pictures, [0, 1])
    arrays = decoded(Folder("own", (path,), (path,)), tmp_path / "out")
    assert arrays.train_images[:, 0, 0, 0].tolist() == [0, 255]


@pytest.mark.parametrize(("kind", "numbers"), [("I;16", np.uint16), ("F", np.float32)])
def test_images_that_bytes_cannot_hold_are_refused(
    kind: str, numbers: type[np.generic], tmp_path: Path, write_parquet: ParquetWriter
) -> None:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.full((2, 3), 300, numbers)).save(buffer, format="TIFF")
    path = write_parquet(tmp_path / "train-0.parquet", [buffer.getvalue()], [0])
    message = refusal(Folder("own", (path,), (path,)), tmp_path / "out")
    start = f"dataset=own: image 0 is of Pillow's kind {kind}: need 1 or 8 bits per colour; convert"
    assert message.startswith(start)


def test_class_names_of_the_hubs_files_count(grey: Folder, tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(grey.train[0])
    note = b'{"info": {"features": {"label": {"names": ["a", "b", "c", "d", "e"]}}}}'
    named = table.replace_schema_metadata({b"huggingface": note})
    pyarrow.parquet.write_table(named, grey.train[0])
    assert decoded(grey, tmp_path / "out").classes == 5


def test_images_may_be_plain_bytes_in_a_column_img(tmp_path: Path, encode: ImageEncoder) -> None:
    path = tmp_path / "train-0.parquet"
    columns = {"more": ["x"], "img": [encode(9, (3, 2), "L")], "label": [0]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    arrays = decoded(Folder("own", (path,), (path,)), tmp_path / "out")
    assert arrays.train_images.tolist() == np.full((1, 1, 2, 3), 9).tolist()


def test_columns_of_clients_are_kept(tmp_path: Path, encode: ImageEncoder) -> None:
    """FEMNIST as the hub has it: without a test set, a tenth of each writer's images is one."""
    writers = ["f1"] * 20 + ["f2"] * 9 + ["f3"] * 31
    columns = {
        "image": [encode(value, (3, 2), "L") for value in range(60)],
        "writer_id": writers,
        "hsf_id": [4] * 60,
        "character": list(range(60)),
    }
    path = tmp_path / "train-0.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    out = tmp_path / "out"
    out.mkdir()
    decode(
        Folder("femnist", (path,), ()), out, name="femnist", mode="L", classes=62,
        owner="writer_id", on_image=lambda total: None,
    )  # fmt: skip
    arrays, train, test = cache.read(out), *(cache.read_owners(out, p) for p in ("train", "test"))
    assert sorted(train) == ["hsf_id", "writer_id"]
    assert np.bincount(train["writer_id"]).tolist() == [18, 9, 28]
    assert np.bincount(test["writer_id"]).tolist() == [2, 0, 3]
    for labels, owners in ((arrays.train_labels, train), (arrays.test_labels, test)):
        assert [writers[label] for label in labels] == [f"f{1 + w}" for w in owners["writer_id"]]
    both = np.concatenate([arrays.train_labels, arrays.test_labels])
    assert sorted(both.tolist()) == list(range(60))
    assert arrays.test_images[:, 0, 0, 0].tolist() == arrays.test_labels.tolist()


def test_without_a_test_set_clients_must_be_named(grey: Folder, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInput, match=r"^dataset=femnist: columns image, label: need writer_id$"):
        decode(
            Folder("femnist", grey.train, ()), tmp_path / "out", name="femnist", mode="L",
            classes=62, owner="writer_id", on_image=lambda total: None,
        )  # fmt: skip


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "train-0.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "label": [0]}), path)
    message = refusal(Folder("own", (path,), (path,)), tmp_path / "out")
    assert (
        message == "dataset=own: columns text, label: need image (or img) and label (or character)"
    )


def test_two_sizes_are_refused(
    tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    pictures = [encode(1, (3, 2), "L"), encode(1, (4, 2), "L")]
    path = write_parquet(tmp_path / "train-0.parquet", pictures, [0, 1])
    message = refusal(Folder("own", (path,), (path,)), tmp_path / "out")
    assert message == "dataset=own: images of 3x2 and of 4x2: need one size"


def test_hidden_labels_are_refused(
    grey: Folder, tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    test = write_parquet(tmp_path / "test-1.parquet", [encode(9, (3, 2), "L")], [-1])
    message = refusal(Folder("own", grey.train, (test,)), tmp_path / "out")
    assert message == "dataset=own: test labels run from -1 to -1: need 0..2"


def test_too_few_classes_are_refused(grey: Folder, tmp_path: Path) -> None:
    message = refusal(grey, tmp_path / "out", classes=2)
    assert message == "dataset=own: train labels run from 0 to 2: need 0..1"


def test_words_for_labels_are_refused(
    tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    path = write_parquet(tmp_path / "train-0.parquet", [encode(1, (3, 2), "L")], ["cat"])
    message = refusal(Folder("own", (path,), (path,)), tmp_path / "out")
    assert message == "dataset=own: labels of type <U3: need integers from 0"


@pytest.mark.parametrize("keep", [0, 40])
def test_broken_images_are_named(
    keep: int, tmp_path: Path, write_parquet: ParquetWriter, encode: ImageEncoder
) -> None:
    whole = encode(1, (3, 2), "L")
    path = write_parquet(tmp_path / "train-0.parquet", [whole, whole[:keep]], [0, 1])
    message = refusal(Folder("own", (path,), (path,)), tmp_path / "out")
    assert message == "dataset=own: image 1 cannot be decoded; need whole PNG or JPEG bytes"
