"""How a data set is dealt to clients, so that nodes with shares of another deal are noticed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

DEAL = "deal"  # among the numbers of a reply, that of the deal which its share is from


@dataclass(frozen=True)
class Partitioning:
    """One way to deal a data set; server and nodes must agree on it."""

    dataset: str
    split: str
    parts: int
    seed: int

    @property
    def number(self) -> int:
        """Differs for other deals; wherever the files are."""
        files = Path(self.dataset).name, Path(self.split).name
        text = " ".join([*files, str(self.parts), str(self.seed)])
        return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)  # exact as a float

    def __str__(self) -> str:
        return f"dataset={self.dataset}, split={self.split}, seed={self.seed}, {self.parts} parts"
