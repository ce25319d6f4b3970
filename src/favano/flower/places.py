"""Places: which node is which client. Nodes join late, leave, and come back."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from favano.flower.ledger import Joined, Ledger, Left


def changes(
    ledger: Ledger, online: Collection[int], hung: Collection[int], now: float
) -> Iterator[Joined | Left]:
    """What follows from the nodes that are online; each event is to be applied before the next.

    A node keeps its number. A new one gets the first number that nobody has had, and if there is
    none, that of the client that has been away for longest: a node without a registered key comes
    back as a new one. Clients that hang are not called until they give a sign of life, those whose
    client updates are refused not before their pause is over.
    """
    for client in sorted(ledger.present):
        if ledger.node_of[client] not in online:
            yield Left(now, client)
    for node in sorted(online):
        known = ledger.client_of.get(node)
        place = _free_place(ledger, online) if known is None else known
        waits = place in hung or (known is not None and now < ledger.paused.get(known, now))
        if place is not None and place not in ledger.present and not waits:
            yield Joined(now, place, node)


def _free_place(ledger: Ledger, online: Collection[int]) -> int | None:
    """A place for a new node; None: all are taken."""
    clients = range(ledger.clients)
    new = next((client for client in clients if client not in ledger.node_of), None)
    if new is not None:
        return new
    away = [client for client in ledger.away_since if ledger.node_of[client] not in online]
    return min(away, key=lambda client: (ledger.away_since[client], client), default=None)
