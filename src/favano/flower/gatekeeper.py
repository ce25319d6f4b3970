"""The gatekeeper: what comes from a node becomes an answer, or is refused by name."""

from __future__ import annotations

from typing import NamedTuple

from favano.errors import BadInput, one_line
from favano.flower.deal import DEAL, Deal
from favano.flower.ledger import Ledger
from favano.flower.mailbox import Arrival
from favano.flower.private import NODE_GONE
from favano.flower.server_link import ServerLink
from favano.flower.wire import Reply, read_reply
from favano.gates import (
    Refusal,
    unlikely_steps,
    wrong_change,
    wrong_job,
    wrong_model,
    wrong_steps,
)
from favano.types import Vector


class Verdict(NamedTuple):
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
        fastest: seconds that a step takes at least.
        deal: how data are dealt; None: that is not known.
    """

    def __init__(
        self,
        run: str,
        link: ServerLink,
        *,
        fastest: float = 0.0,
        deal: Deal | None = None,
    ) -> None:
        self._run, self._link, self._fastest, self._deal = run, link, fastest, deal

    def judge(
        self,
        job: int,
        arrival: Arrival,
        ledger: Ledger,
        start: Vector | None,
        server: Vector,
        elapsed: float,
    ) -> Verdict:
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
        if isinstance(reply, Verdict):
            return reply
        refusal = wrong_job(
            reply.job, open_jobs=ledger.open, given_up=ledger.given_up, handed_out=ledger.jobs
        )
        if refusal is not None:
            return Verdict(refusal=refusal)
        if reply.job != job:
            return Verdict(refusal=Refusal.REPLAYED)
        assert start is not None
        model = self._model(reply, job, ledger, start, server)
        if isinstance(model, Verdict):
            return model
        if self._link.codec is None and wrong_change(reply.steps, start, model):  # codecs round
            return Verdict(refusal=Refusal.STEPS, detail="no step, and another model")
        usual = ledger.usual_speed(reply.client)
        refusal = wrong_steps(
            reply.steps, ledger.local_steps, reply.seconds, elapsed, fastest=self._fastest
        ) or unlikely_steps(reply.steps, elapsed, usual)
        if refusal is Refusal.UNLIKELY:
            detail = f"{reply.steps} in {elapsed:.3g} s, at {usual:.3g} a second as a rule"
            return Verdict(refusal=refusal, detail=detail)
        return Verdict(refusal=refusal) if refusal else Verdict(reply)

    def again(
        self, job: int, arrival: Arrival, ledger: Ledger, start: Vector, server: Vector
    ) -> Verdict:
        """Read a reply that was accepted before; who knows what has happened to its file."""
        reply = _parsed(arrival)
        if isinstance(reply, Verdict):
            return reply
        model = self._model(reply, job, ledger, start, server)
        return model if isinstance(model, Verdict) else Verdict(reply)

    def _model(
        self, reply: Reply, job: int, ledger: Ledger, start: Vector, server: Vector
    ) -> Vector | Verdict:
        """The model of a reply to this job, or why it cannot be used."""
        known, deal = ledger.course.known, self._deal
        mine = (self._run, job, int(known.client[job]), int(known.base[job]))
        if (reply.run, reply.job, reply.client, reply.version) != mine:
            return Verdict(refusal=Refusal.UNKNOWN)
        if deal is not None and reply.metrics.get(DEAL, deal.number) != deal.number:
            return Verdict(refusal=Refusal.DATA, detail=f"need a share of {deal}")
        if deal is not None and reply.partition >= deal.parts:
            detail = f"part {reply.partition}, where parts are 0..{deal.parts - 1}"
            return Verdict(refusal=Refusal.DATA, detail=detail)
        try:
            model = self._link.read(reply.model, start, server)
        except BadInput as error:
            return Verdict(refusal=Refusal.SHAPE, detail=str(error))
        refusal = wrong_model(start, model)
        return model if refusal is None else Verdict(refusal=refusal)


def _parsed(arrival: Arrival) -> Reply | Verdict:
    """The reply that came, or why there is none."""
    if arrival.too_large:
        return Verdict(refusal=Refusal.TOO_LARGE)
    if arrival.message is None:
        return Verdict(detail=one_line(arrival.failure))
    if arrival.message.has_error():
        error = arrival.message.error
        detail = one_line(f"Flower's error {error.code}: {error.reason}")
        return Verdict(detail=detail, gone=error.code == NODE_GONE)
    try:
        return read_reply(arrival.message)
    except BadInput as error:
        return Verdict(refusal=Refusal.UNREADABLE, detail=str(error))
