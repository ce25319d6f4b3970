"""`favano theory advise`: how to run FAVANO so that a target is reached soonest."""

from __future__ import annotations

from dataclasses import asdict

from favano.cli.constants import (
    Dissimilarity,
    Gap,
    Growth,
    Noise,
    Pilot,
    Smoothness,
    Target,
    number,
    table_of,
)
from favano.cli.flags import Config, DataDir, Json, Values, spec_from
from favano.cli.shell import keep_to, notes, print_json, screen
from favano.studies.guarantees import advice_of, make_case
from favano.theory import Problem, estimates_of


def advise_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    smoothness: Smoothness = 1.0,
    noise: Noise = 1.0,
    dissimilarity: Dissimilarity = 1.0,
    growth: Growth = 1.0,
    gap: Gap = 1.0,
    target: Target = 0.1,
    pilot: Pilot = False,
    json: Json = False,
) -> None:
    """The s, K, tick and learning rate with the shortest guaranteed time to a target."""
    problem = Problem(
        smoothness=smoothness, noise=noise, dissimilarity=dissimilarity, growth=growth, gap=gap
    )
    case = make_case(spec_from(config, flags))
    known = estimates_of(problem)
    if pilot:
        keep_to(case.spec.run.device)
        from favano.studies.pilot import estimate

        with notes.status("measuring"):
            known = estimate(case.spec, data_dir)
    with notes.status("searching"):
        found = advice_of(case, known, target)
    if json:
        print_json({"target": target, "estimates": asdict(known), "advice": asdict(found)})
        return
    rows = {
        "clients a step s": (found.selected,),
        "local steps K": (found.local_steps,),
        "tick I + V": (found.tick,),
        "learning rate": (found.learning_rate,),
        "server steps": (found.rounds,),
        "time": (found.time,),
        "time as you have it": (found.present_time,),
    }
    screen.print(f"To a mean of ||grad f||^2 of {number(target)} soonest:")
    screen.print(table_of("", ("", ""), rows))
    for line in found.how_sure:
        screen.print(line, soft_wrap=True)
