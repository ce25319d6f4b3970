"""The gatekeeper: what comes from a node becomes a client update, or is refused by name."""

from __future__ import annotations

from typing import NamedTuple

from favano.errors import BadInput, one_line
from favano.flower.flat_arrays import FlatArrays
from favano.flower.ledger import Ledger
from favano.flower.mailbox import Delivery
from favano.flower.partitioning import DEAL, Partitioning
from favano.flower.private import NODE_GONE
from favano.flower.server_link import ServerLink
from favano.flower.wire import Reply, read_reply
from favano.screening import (
    MOST_COUNTED,
    Refusal,
    unlikely_steps,
    wrong_change,
    wrong_counters,
    wrong_job,
    wrong_model,
    wrong_steps,
)
from favano.types import Vector


class ScreeningVerdict(NamedTuple):
    """A reply, or why it is refused, or why there is none."""

    reply: Reply | None = None
    refusal: Refusal | None = None
    detail: str = ""  # of a refusal, or of a failure
    gone: bool = False  # there is none because the node has left


class Gatekeeper:
    """Lets through what an honest client could have sent.

    Args:
        run: of this federation.
        link: reads its models.
        flat: where their counters are.
        fastest: seconds that a step takes at least.
        deal: how data are dealt; None: that is not known.
    """

    def __init__(
        self,
        run: str,
        link: ServerLink,
        flat: FlatArrays,
        *,
        fastest: float = 0.0,
        deal: Partitioning | None = None,
    ) -> None:
        self._run, self._link, self._flat = run, link, flat
        self._fastest, self._partitioning = fastest, deal

    def judge(
        self,
        job: int,
        arrival: Delivery,
        ledger: Ledger,
        start: Vector | None,
        server: Vector,
        elapsed: float,
    ) -> ScreeningVerdict:
        """Read what came for a job.

        Args:
            job: its number.
            arrival: what came.
            ledger: what has happened so far.
            start: its start model, if it is still awaited.
            server: the newest model.
            elapsed: seconds since the call, at least.
        """
        reply = _parsed(arrival)
        if isinstance(reply, ScreeningVerdict):
            return reply
        refusal = wrong_job(
            reply.job, open_jobs=ledger.open, given_up=ledger.given_up, handed_out=ledger.jobs
        )
        if refusal is not None:
            return ScreeningVerdict(refusal=refusal)
        if reply.job != job:
            return ScreeningVerdict(refusal=Refusal.REPLAYED)
        assert start is not None
        model = self._model(reply, job, ledger, start, server)
        if isinstance(model, ScreeningVerdict):
            return model
        if self._link.codec is None and wrong_change(reply.steps, start, model):  # codecs round
            return ScreeningVerdict(refusal=Refusal.STEPS, detail="no step, and another model")
        usual = ledger.usual_speed(reply.client)
        refusal = wrong_steps(
            reply.steps, ledger.open[job].steps, reply.seconds, elapsed, fastest=self._fastest
        ) or unlikely_steps(reply.steps, elapsed, usual)
        if refusal is Refusal.UNLIKELY:
            detail = f"{reply.steps} in {elapsed:.3g} s, at {usual:.3g} a second as a rule"
            return ScreeningVerdict(refusal=refusal, detail=detail)
        return ScreeningVerdict(refusal=refusal) if refusal else ScreeningVerdict(reply)

    def again(
        self, job: int, arrival: Delivery, ledger: Ledger, start: Vector, server: Vector
    ) -> ScreeningVerdict:
        """Read a reply that was accepted before; who knows what has happened to its file."""
        reply = _parsed(arrival)
        if isinstance(reply, ScreeningVerdict):
            return reply
        model = self._model(reply, job, ledger, start, server)
        return model if isinstance(model, ScreeningVerdict) else ScreeningVerdict(reply)

    def _model(
        self, reply: Reply, job: int, ledger: Ledger, start: Vector, server: Vector
    ) -> Vector | ScreeningVerdict:
        """The model of a reply to this job, or why it cannot be used."""
        known, deal = ledger.timeline.known, self._partitioning
        mine = (self._run, job, int(known.client[job]), int(known.start_version[job]))
        if (reply.run, reply.job, reply.client, reply.version) != mine:
            return ScreeningVerdict(refusal=Refusal.UNKNOWN)
        if deal is not None and reply.metrics.get(DEAL, deal.number) != deal.number:
            return ScreeningVerdict(refusal=Refusal.DATA, detail=f"need a share of {deal}")
        if deal is not None and reply.partition >= deal.parts:
            detail = f"part {reply.partition}, where parts are 0..{deal.parts - 1}"
            return ScreeningVerdict(refusal=Refusal.DATA, detail=detail)
        try:
            model = self._link.read(reply.model, start, server)
        except BadInput as error:
            return ScreeningVerdict(refusal=Refusal.SHAPE, detail=str(error))
        refusal = wrong_model(start, model)
        if refusal is not None:
            return ScreeningVerdict(refusal=refusal)
        detail = self._wrong_counter(reply.steps, start, model)
        return ScreeningVerdict(refusal=Refusal.COUNTERS, detail=detail) if detail else model

    def _wrong_counter(self, steps: int, start: Vector, end: Vector) -> str:
        """The first counter that no training can have left, in words; empty: there is none."""
        before = self._flat.counters(start)
        for name, after in self._flat.counters(end).items():
            wrong = wrong_counters(steps, before[name], after)
            if wrong.any():
                old, new = float(before[name][wrong][0]), float(after[wrong][0])
                rule = f"need whole numbers that grow by 0 to {MOST_COUNTED} a step"
                return f"{name} from {old:.9g} to {new:.9g} in {steps} steps, {rule}"
        return ""


def _parsed(arrival: Delivery) -> Reply | ScreeningVerdict:
    """The reply that came, or why there is none."""
    if arrival.too_large:
        return ScreeningVerdict(refusal=Refusal.TOO_LARGE)
    if arrival.message is None:
        return ScreeningVerdict(detail=one_line(arrival.failure))
    if arrival.message.has_error():
        error = arrival.message.error
        detail = one_line(f"Flower's error {error.code}: {error.reason}")
        return ScreeningVerdict(detail=detail, gone=error.code == NODE_GONE)
    try:
        return read_reply(arrival.message)
    except BadInput as error:
        return ScreeningVerdict(refusal=Refusal.UNREADABLE, detail=str(error))
