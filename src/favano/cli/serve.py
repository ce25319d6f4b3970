"""`favano serve`: the server of a federation, in one command."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from favano.cli.flags import Config, DataDir, Values, spec_with_data
from favano.cli.shell import keep_to, leave, need_flower, say
from favano.methods import measured
from favano.specification.presets import resolve

Rounds = Annotated[int, typer.Option(metavar="N", help="updates of the model")]
Tick = Annotated[float | None, typer.Option(metavar="S", help="seconds between two ticks")]
Grace = Annotated[
    float, typer.Option(metavar="S", help="seconds that a tick waits for client updates")
]
Host = Annotated[str, typer.Option(help="address that nodes join at")]
Port = Annotated[int, typer.Option(help="port that nodes join at")]
StatusHost = Annotated[str, typer.Option(help="address of the status page")]
StatusPort = Annotated[int, typer.Option(help="port of the status page; 0: any that is free")]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="of favano keys: TLS, registered nodes, signed calls"),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="no keys, though others can reach --host: they can read and change all"
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="folder for everything that is written")]
Resume = Annotated[bool, typer.Option("--resume", help="go on with the federation in the folder")]
Patience = Annotated[
    float, typer.Option(metavar="S", help="seconds that a client update may be late")
]
StepSeconds = Annotated[float, typer.Option(metavar="S", help="a first guess of a step's duration")]
Influence = Annotated[
    float | None,
    typer.Option(
        metavar="F", help="for nodes that may lie: none moves the model F times the median"
    ),
]
Norm = Annotated[
    float | None, typer.Option(metavar="X", help="longest contribution that is accepted")
]
NormQuantile = Annotated[
    float | None,
    typer.Option(metavar="Q", help="refuse thrice this quantile of the lengths so far"),
]

_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    rounds: Rounds = 100,
    tick: Tick = None,
    grace: Grace = 0.0,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    status_host: StatusHost = "127.0.0.1",
    status_port: StatusPort = 0,
    keys: Keys = None,
    insecure: Insecure = False,
    out: Out = Path("favano-federation"),
    resume: Resume = False,
    patience: Patience = 600.0,
    step_seconds: StepSeconds = 1.0,
    influence: Influence = None,
    norm: Norm = None,
    norm_quantile: NormQuantile = None,
) -> None:
    """Serve a federation: nodes join it with favano join."""
    need_flower()
    asked = spec_with_data(config, flags, data_dir)
    spec = resolve(replace(asked, method=measured(asked.method)))
    keep_to("cpu")
    from favano.flower.serve import Serving, serve
    from favano.flower.superlink import SuperLink

    folder = out.absolute()
    trusted = None if keys is None else keys.absolute()
    link = SuperLink(folder, host, port, trusted, insecure)
    serving = Serving(
        rounds=rounds,
        tick=tick,
        folder=folder,
        grace=grace,
        step_seconds=step_seconds,
        patience=patience,
        resume=resume,
        status_host=status_host,
        status_port=status_port,
        data_dir=data_dir,
        influence=None if influence == inf else influence,
        norm=norm,
        norm_quantile=norm_quantile,
    )
    told = list[int]()  # signals

    def end(number: int, frame: FrameType | None) -> None:
        for ended in _ENDS:  # once is enough: its SuperLink must be ended, too
            signal.signal(ended, signal.SIG_IGN)
        told.append(number)
        raise KeyboardInterrupt

    for ended in _ENDS:
        if signal.getsignal(ended) is not signal.SIG_IGN:  # as nohup says
            signal.signal(ended, end)
    try:
        result = serve(spec, serving, link, _tell)
    except KeyboardInterrupt:
        words = f"stopped; go on with: favano serve --resume --out {out} ..."
        leave(words, 128 + (told or [signal.SIGINT])[0])
    leave("; ".join(filter(None, [f"done: {out}", result.bound])), int(result.used_nothing))


def _tell(sentence: str) -> None:
    """Say something; a log on a full disk is no reason to end."""
    with suppress(OSError):
        say(sentence)
