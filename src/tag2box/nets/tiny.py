"""The demo's trunk: small enough to ship inside the package, quick on a CPU, pretrained on drawn categories.

Stride 8, 128 channels, 350,000 parameters, 0.7 MB in half precision; a cell of its map sees 87 pixels, about an object
of the demo. While it is pretrained it has batch norm (`tiny_body(batch_norm=True)`); `fold_batch_norm` then puts that
into the convolutions, and the package ships and runs those alone.
"""

from copy import deepcopy

from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

CHANNELS, STRIDE = 128, 8


class Residual(nn.Sequential):
    """Layers with the identity added: [N, C, H, W] → the same shape."""

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, H, W] → [N, C, H, W]."""
        output = input
        for layer in self:
            output = layer(output)
        return input + output


def tiny_body(*, batch_norm: bool = False) -> nn.Sequential:
    """The convolutions, with or without batch norm after each: [N, 3, H, W] → [N, 128, H/8, W/8]."""
    body = nn.Sequential()
    body.add_module("stem", _layer(3, 24, stride=2, batch_norm=batch_norm))
    body.add_module("down4", _layer(24, 48, stride=2, batch_norm=batch_norm))
    body.add_module("at4", Residual(*_layer(48, 48, batch_norm=batch_norm)))
    body.add_module("down8", _layer(48, 96, stride=2, batch_norm=batch_norm))
    body.add_module("at8", Residual(*_layer(96, 96, batch_norm=batch_norm)))
    body.add_module("wide8", Residual(*_layer(96, 96, dilation=2, batch_norm=batch_norm)))
    body.add_module("out", _layer(96, CHANNELS, batch_norm=batch_norm))
    return body


def _layer(before: int, after: int, *, stride: int = 1, dilation: int = 1, batch_norm: bool) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, 3, stride, padding=dilation, dilation=dilation)
    return nn.Sequential(convolution, nn.BatchNorm2d(after) if batch_norm else nn.Identity(), nn.ReLU(inplace=True))


def fold_batch_norm(body: nn.Sequential) -> nn.Sequential:
    """A copy of `tiny_body(batch_norm=True)` as it runs in evaluation, its batch norms folded into the convolutions."""
    body = deepcopy(body).eval()
    for layer in body.children():
        convolution, norm, _ = layer.children()
        if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            layer.add_module("0", fuse_conv_bn_eval(convolution, norm))
            layer.add_module("1", nn.Identity())
    return body
