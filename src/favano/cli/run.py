"""`favano run`: one algorithm, one or more seeds."""

from __future__ import annotations

from favano.cli.flags import Config, DataDir, Json, Out, Values, spec_from
from favano.cli.progress import TerminalProgress, counting
from favano.cli.shell import default_folder, json_document, keep, keep_to, notes, print_json, screen
from favano.experiments.planning import check_plan
from favano.experiments.presets import resolve
from favano.experiments.results import check_folder
from favano.report import final_table, read_result


def run_command(
    flags: Values,
    config: Config = None,
    data_dir: DataDir = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Run one algorithm in simulated time, for one or more seeds."""
    spec = resolve(spec_from(config, flags))
    folder = out or default_folder(spec.algorithm, [spec])
    check_plan(spec)
    check_folder(folder, spec)
    keep_to(spec.device)
    from favano.experiments import load_samples, named_model, run

    with counting(notes, f"decoding {spec.dataset}, once") as on_image:
        samples = load_samples(spec, data_dir, on_image)
    with TerminalProgress(notes) as progress:
        result = run(spec, samples, named_model(spec, samples), progress=progress)
    keep([result], [folder])
    if json:
        print_json(json_document([result]))
        return
    screen.print(final_table([read_result(folder)], width=screen.width))
    if result.audit:
        screen.print(f"{spec.algorithm} {result.audit['verdict']}", soft_wrap=True, markup=False)
    screen.print(f"Results: {folder}", soft_wrap=True)
