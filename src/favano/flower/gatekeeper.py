"""The gatekeeper: what comes from a node becomes an answer, or is refused by name."""

from __future__ import annotations

from typing import NamedTuple

from favano.errors import BadInput
from favano.flower.deal import DEAL, Deal
from favano.flower.ledger import Ledger
from favano.flower.mailbox import Arrival
from favano.flower.private import NODE_GONE
from favano.flower.server_link import ServerLink
from favano.flower.wire import Reply, read_reply
from favano.gates import NormGate, Refusal, wrong_job, wrong_model, wrong_steps
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
        norm: a bound of the progress; by default there is none.
        fastest: seconds that a step takes at least.
        deal: how data are dealt; None: that is not known.
    """

    def __init__(
        self,
        run: str,
        link: ServerLink,
        *,
        norm: NormGate | None = None,
        fastest: float = 0.0,
        deal: Deal | None = None,
    ) -> None:
        self._run, self._link, self._fastest, self._deal = run, link, fastest, deal
        self.norm = norm or NormGate()

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
        if arrival.too_large:
            return Verdict(refusal=Refusal.TOO_LARGE)
        if arrival.message is None or arrival.message.has_error():
            return _failure(arrival)
        try:
            reply = read_reply(arrival.message)
        except BadInput as error:
            return Verdict(refusal=Refusal.UNREADABLE, detail=str(error))
        if refusal := self._wrong_call(reply, job, ledger):
            return Verdict(refusal=refusal)
        if (deal := self._deal) and reply.metrics.get(DEAL, deal.number) != deal.number:
            return Verdict(refusal=Refusal.DATA, detail=f"need a share of {deal}")
        assert start is not None
        try:
            model = self._link.read(reply.model, start, server)
        except BadInput as error:
            return Verdict(refusal=Refusal.SHAPE, detail=str(error))
        parameters = self._link.shape.parameters
        refusal = (
            wrong_model(start, model)
            or wrong_steps(
                reply.steps,
                ledger.local_steps,
                reply.seconds,
                elapsed,
                fastest=self._fastest,
            )
            or self.norm.judge(start[:parameters], model[:parameters])
        )
        return Verdict(refusal=refusal) if refusal else Verdict(reply)

    def _wrong_call(self, reply: Reply, job: int, ledger: Ledger) -> Refusal | None:
        """Refuse replies to other calls than the one that was asked about."""
        known = ledger.course.known
        found = wrong_job(
            reply.job, open_jobs=ledger.open, given_up=ledger.given_up, handed_out=ledger.jobs
        )
        if found is not None:
            return found
        if reply.job != job:
            return Refusal.REPLAYED
        client, version = int(known.client[job]), int(known.base[job])
        mine = (reply.run, reply.client, reply.version) == (self._run, client, version)
        return None if mine else Refusal.UNKNOWN


def _failure(arrival: Arrival) -> Verdict:
    if arrival.message is None:
        return Verdict(detail=arrival.failure)
    error = arrival.message.error
    detail = f"Flower's error {error.code}: {error.reason}"
    return Verdict(detail=detail, gone=error.code == NODE_GONE)
