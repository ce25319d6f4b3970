"""Files of strangers are looked at before they are read."""

from __future__ import annotations

import hashlib
import resource
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from favano.data.natural import read_owners
from favano.errors import BadInput
from favano.records import history_from_csv, read_file
from favano.records.checkpoint import checkpoint_from_bytes, checkpoint_to_bytes
from favano.results.model_file import read_models
from favano.schedule.contact_trace import load_trace
from favano.specification.config import read_config
from favano.timing.laws import read_trace

MEBIBYTE = 1 << 20


def memory() -> int:
    """The most bytes that this process has ever held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_an_archive_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """Some 150 KiB of zeros are 160 MiB in memory."""
    path = tmp_path / "trace.npz"
    header = BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (20 * MEBIBYTE,)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("time.npy", "w") as file,
    ):
        file.write(header.getvalue())
        for _ in range(160):
            file.write(bytes(MEBIBYTE))
    assert path.stat().st_size < MEBIBYTE
    before = memory()
    with pytest.raises(BadInput, match="is damaged: its arrays take 160 MiB, need 128 at most"):
        load_trace(path)
    assert memory() - before < 64 * MEBIBYTE


def claimed(shape: tuple[int, ...], kind: str) -> bytes:
    """An array whose header claims more than there is."""
    file = BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + bytes(8)


@pytest.mark.parametrize("kind", ["<f8", "<U0"])
def test_an_array_that_claims_too_much(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("time.npy", claimed((10**12,), kind))
    with pytest.raises(BadInput, match=r"is damaged: an array claims .* more than its"):
        load_trace(path)
    alone = tmp_path / "clients.npy"
    alone.write_bytes(claimed((10**12,), kind))
    with pytest.raises(BadInput, match="cannot be read"):
        read_owners(alone, f"file:{alone}")


def test_texts_that_are_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(65 * MEBIBYTE)
    rule = "has 65 MiB, need 64 at most"
    for read in (
        lambda: read_file(path, str),
        lambda: read_config(path),
        lambda: read_trace(path),
        lambda: read_owners(path, f"file:{path}"),
    ):
        with pytest.raises(BadInput, match=rule):
            read()


def test_short_rows_are_refused_at_the_first_one() -> None:
    before = memory()
    with pytest.raises(ValueError, match="no column 'seed'"):
        history_from_csv("a\n" + "1\n" * (4 * MEBIBYTE))
    assert memory() - before < 256 * MEBIBYTE


def test_a_model_file_that_names_a_tensor_twice(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    about = '{"order": ["weight", "weight"]}'
    save_file({"weight": torch.zeros(3)}, path, metadata={"favano": about})
    with pytest.raises(BadInput, match="holds a damaged"):
        read_models(path, [0])


def test_a_checkpoint_that_names_an_array_twice() -> None:
    content = checkpoint_to_bytes([np.zeros(3), np.ones(3)])
    body = content.partition(b"\n")[2].replace(rb"\"array\": \"1\"", rb"\"array\": \"0\"")
    assert body != content.partition(b"\n")[2]
    first = f"favano-checkpoint 1 {hashlib.sha256(body).hexdigest()}\n".encode()
    with pytest.raises(ValueError, match="is damaged"):
        checkpoint_from_bytes(first + body)
