"""The client: it trains when it is called, until its appointment, and replies."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from favano.flower import Client
from favano.flower.memory import StateStore
from flower_mnist.task import local_data, network

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one call."""
    model = network(str(context.run_config["dataset"]))
    pace = float(context.node_config.get("pace", 0.0))  # to try nodes of different speeds
    part = {"partition": int(context.node_config["partition-id"])}
    store = StateStore(context.state)
    client = Client(model, local_data(context), pace=pace, store=store, notes=part)
    return client.answer(message)
