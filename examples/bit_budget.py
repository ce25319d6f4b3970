"""A budget of bits: every run ends when its clients and server have sent so many.

    python examples/bit_budget.py

A codec packs what is sent. The same budget buys more rounds of coarse messages than of exact ones;
which is better is what the comparison is about.
"""

import favano

BUDGET = 20e6  # bits, sent and received by all clients


def within(budget):
    """An observer that ends a run after the first evaluation beyond the budget."""

    def observe(row):
        spent = row["bits_up"] + row["bits_down"]
        return favano.STOP if spent >= budget else None

    return observe


def main(budget=BUDGET):
    fleet = favano.Fleet.two_speeds(20, fast=0.5)
    codecs = {
        "float32": {},
        "8 bits": {"codec": "qsgd", "codec_bits": 8},
        "6 bits": {"codec": "qsgd", "codec_bits": 6},
    }
    for name, codec in codecs.items():
        keys = {
            "selected": 5,
            "learning_rate": 0.5,
            "horizon": 8000,
            "evaluate_every": 100,
            **codec,
        }
        result = favano.simulate("favano", "digits", fleet, on_evaluate=within(budget), **keys)
        last = result.rows[-1]
        spent = (last.bits_up + last.bits_down) / 1e6
        print(f"{name:8} {last.accuracy:.0%} at time {last.time:,.0f} with {spent:.0f} Mbit")


if __name__ == "__main__":
    main()
