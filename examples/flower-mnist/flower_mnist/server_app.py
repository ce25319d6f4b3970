"""The server: FAVANO in real time. At each tick it uses what two clients send."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import favano
from favano.flower import AsyncStrategy, LocalTraining
from flower_mnist.task import network, share

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation."""
    config = context.run_config
    model = network(str(config["dataset"]))
    images, labels = share(config).test_data()

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            right = model(images).argmax(dim=1) == labels
        accuracy = right.double().mean().item()
        print(f"round {number}: accuracy {accuracy:.3f}", flush=True)
        return MetricRecord({"accuracy": accuracy})

    strategy = AsyncStrategy(
        favano.Favano(),
        clients=int(config["clients"]),
        selected=int(config["selected"]),
        tick=float(config["tick"]),
        grace=float(config["grace"]),
        local_steps=int(config["local-steps"]),
        learning_rate=float(config["learning-rate"]),
        local=LocalTraining(batch_size=int(config["batch-size"])),
        folder=str(config["folder"]) or None,
        operator=str(config["operator-key"]) or None,
    )
    arrays = ArrayRecord(model.state_dict())
    result = strategy.start(grid, arrays, int(config["rounds"]), evaluate_fn=evaluate)
    for node in result.nodes:
        print(node, flush=True)
