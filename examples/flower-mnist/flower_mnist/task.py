"""The network, and who has which images: what server and clients agree on."""

from flwr.app import Context, UserConfig
from torch import Tensor, nn

from favano.flower import DataPartition


def network(dataset: str) -> nn.Module:
    """A small network for images of 28 x 28 or 8 x 8 pixels."""
    pixels = 8 * 8 if dataset == "digits" else 28 * 28
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 128), nn.ReLU(), nn.Linear(128, 10))


def share(config: UserConfig, partition: int = 0) -> DataPartition:
    """One client's part of the data."""
    return DataPartition(
        partition,
        int(config["clients"]),
        dataset=str(config["dataset"]),
        split=str(config["split"]),
        data_dir=str(config["data-dir"]) or None,
    )


def local_data(context: Context) -> tuple[Tensor, Tensor]:
    """The images of this node. Replace it by your own: any pair of tensors, or a data set."""
    return share(context.run_config, int(context.node_config["partition-id"])).data()
