"""The checkpoint files of one run: the newest two, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from favano.errors import require
from favano.records import Identity, differing
from favano.records.checkpoint import Tree, checkpoint_from_bytes, checkpoint_to_bytes
from favano.records.folder import write_together

SUFFIX = ".checkpoint"
_KEPT = 2

Say = Callable[[str], None]


@dataclass(frozen=True)
class CheckpointFiles:
    """The checkpoints of one seed in a folder, `seed-S.VERSION.checkpoint`."""

    folder: Path
    seed: int

    def paths(self) -> list[Path]:
        """All checkpoints of the run, the newest first."""
        paths = self.folder.glob(f"seed-{self.seed}.*{SUFFIX}")
        ours = (path for path in paths if _version(path) is not None and path.is_file())
        return sorted(ours, key=_order)

    def write(self, version: int, identity: Identity, content: Tree) -> Path:
        """Write a checkpoint, and remove all but the newest two."""
        name = f"seed-{self.seed}.{version}{SUFFIX}"
        data = checkpoint_to_bytes([json.dumps(dict(identity)), content])
        return self.put(name, data)

    def put(self, name: str, data: bytes) -> Path:
        """Write the content of a checkpoint file, and remove all but the newest two."""
        write_together(self.folder, {name: data})
        self.keep(_KEPT)
        return self.folder / name

    def keep(self, count: int) -> None:
        """Remove all but the newest ones, and what a killed process did not finish."""
        unfinished = self.folder.glob(f".seed-{self.seed}.*{SUFFIX}.*")
        for path in [*self.paths()[count:], *unfinished]:
            path.unlink(missing_ok=True)

    def newest(self, identity: Callable[[], Identity], say: Say) -> Tree:
        """The newest checkpoint that is not damaged; None if there is none.

        A checkpoint of another run is refused.
        """
        for path in (paths := self.paths()):
            try:
                held, content = _parts(checkpoint_from_bytes(path.read_bytes()))
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                last = path == paths[-1]
                instead = "the run begins anew" if last else "the one before it is used"
                say(f"{path} {reason}; {instead}")
                path.unlink(missing_ok=True)
                continue
            self._check(held, identity())
            return content
        return None

    def _check(self, held: Identity, mine: Identity) -> None:
        names = differing(held, mine)
        rule = (
            f"of another run (differs in {', '.join(names)}); remove them, or choose a new folder"
        )
        require(not names, "checkpoints", self.folder, rule)


def _parts(tree: Tree) -> tuple[Identity, Tree]:
    """Whose checkpoint it is, and its content."""
    if not (isinstance(tree, list) and len(tree) == 2 and isinstance(tree[0], str)):
        raise ValueError("is damaged: it does not say whose it is")
    held = json.loads(tree[0])
    if not isinstance(held, dict):
        raise ValueError("is damaged: it does not say whose it is")
    return held, tree[1]


def _version(path: Path) -> int | None:
    number = path.name.removesuffix(SUFFIX).rpartition(".")[2]
    return int(number) if number.isdecimal() else None


def _order(path: Path) -> int:
    return -(_version(path) or 0)
