"""Progress of decoding and of reproductions on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.progress import Progress, TaskID, TextColumn

from favano.cli.shell import notes, say
from favano.run.progress import ProgressBar, print_line, tenths


@contextmanager
def decoding(dataset: str) -> Iterator[Callable[[int], None]]:
    """Progress with the images of a data set; call the result with their number after each."""
    words, done = f"decoding {dataset}, once", 0
    name = TextColumn("{task.description}", style="progress.description", markup=False)
    _, *rest = Progress.get_default_columns()
    hidden = not notes.is_terminal
    with Progress(name, *rest, console=notes, transient=True, disable=hidden) as bar:
        tasks: list[TaskID] = []

        def advance(total: int) -> None:
            nonlocal done
            done += 1
            if hidden and tenths(done, total) > tenths(done - 1, total):
                print_line(notes, f"{words}: {10 * tenths(done, total)} %")
            if not tasks:
                tasks.append(bar.add_task(words, total=total))
            bar.advance(tasks[0])

        yield advance


class TerminalWatcher:
    """Shows decoding and training, one after another."""

    def beginning(self, missing: int, there: int) -> None:
        """Print the number of runs left."""
        if missing:
            notes.print(f"{missing} runs to do, {there} already done")

    def say(self, sentence: str) -> None:
        """Print a message."""
        say(sentence)

    def decoding(self, dataset: str) -> AbstractContextManager[Callable[[int], None]]:
        """Progress with the images of a data set."""
        return decoding(dataset)

    def training(self) -> AbstractContextManager[ProgressBar]:
        """Progress with the local steps of the runs."""
        return ProgressBar(notes)
