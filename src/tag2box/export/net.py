"""The prediction net as an ONNX graph: by PyTorch's exporter, and in ONNX's own words where that has none that fit."""

import warnings
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.inference import decode_boxes
from tag2box.nets import PredictionNet, RoIHead
from tag2box.nets.efficientnet_lite import SameConv2d
from tag2box.nets.roi_head import ConvHead, CutHead

OPSET = 18
"""The first whose Resize can smooth as it shrinks a picture."""
# Of odd and unequal sides, lest the exporter take what holds for these for a rule.
PICTURE, BOXES = torch.zeros(1, 3, 161, 203), torch.tensor([[0, 0, 90, 80], [20, 30, 90, 120], [5, 6, 50, 61.0]])


def net_model(net: PredictionNet) -> Any:
    """A net on the CPU as an `onnx.ModelProto`.

    In: `pixels` [1, 3, h, w], RGB in 0–255, and `tried` boxes [B, 4] in them. Out: `probabilities` [B, C + 1] and
    `regressed` boxes [B, C + 1, 4], also in these pixels. Picture size and number of boxes are free.
    """
    return _exported(_Spelled(net), (PICTURE, BOXES), ("pixels", "tried"), ("probabilities", "regressed"))


def proposer_model(net: PredictionNet) -> Any:
    """The first half of one that proposes. In: `pixels`. Out: `map`, `spot_chances` [n], `spots` [n, 4]."""
    return _exported(_SpelledProposer(net), (PICTURE,), ("pixels",), ("map", "spot_chances", "spots"))


def head_model(net: PredictionNet) -> Any:
    """The second half: from `map` and `tried` to `probabilities` and `regressed`."""
    example = torch.zeros(1, net.trunk.channels, 11, 13), BOXES
    return _exported(_SpelledHead(net), example, ("map", "tried"), ("probabilities", "regressed"))


def _exported(module: nn.Module, example: tuple[Tensor, ...], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    free = torch.export.Dim.DYNAMIC
    # Box coding remembers a tensor. Made while the exporter looks on, it would be one without numbers, and stay so.
    decode_boxes(torch.zeros(1, 1, 4), torch.zeros(1, 4))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of PyTorch speak of deprecations of their own
        program = torch.onnx.export(
            module,
            example,
            dynamo=True,
            opset_version=OPSET,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=tuple({2: free, 3: free} if one.dim() == 4 else {0: free} for one in example),
            verbose=False,
        )
    assert program is not None
    return program.model_proto


class _Spelled(nn.Module):
    """The net with pooling and padding spelled in ONNX's operators: it can be exported, and not run."""

    def __init__(self, net: PredictionNet) -> None:
        super().__init__()
        own = {id(tensor): tensor for tensor in (*net.parameters(), *net.buffers())}
        copy = deepcopy(net, own)  # of the layers, not of their numbers
        self.trunk, self.head, self.predictor, self.proposer = copy.trunk, copy.head, copy.predictor, copy.proposer
        _spell_padding(self)
        self.eval()

    def forward(self, pixels: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """[1, 3, h, w] and [B, 4] → [B, C + 1] and [B, C + 1, 4]."""
        return self.from_map(self.trunk.features(pixels), boxes)

    def from_map(self, features: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """The same from the trunk's map [1, C', h', w']."""
        head = self.head
        pooled = _pool(head, features, boxes)
        if isinstance(head, CutHead):
            pooled = head.eye.maps(pooled).half().float()  # as `CutHead.pool`
        # ConvHead goes in pieces, whose number an exporter would fix.
        vectors = head.layers(pooled).mean((2, 3)) if isinstance(head, ConvHead) else head(pooled)
        outputs = self.predictor(vectors)
        return outputs.scores.softmax(-1), decode_boxes(outputs.offsets, boxes)


class _SpelledProposer(_Spelled):
    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """[1, 3, h, w] → [1, C', h', w'], [n], [n, 4]."""
        assert self.proposer is not None
        features = self.trunk.features(pixels)
        return features, *self.proposer.candidates(features)


class _SpelledHead(_Spelled):
    def forward(self, features: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """[1, C', h', w'] and [B, 4] → [B, C + 1] and [B, C + 1, 4]."""
        return self.from_map(features, boxes)


def _pool(head: RoIHead, features: Tensor, boxes: Tensor) -> Tensor:
    """`RoIHead.pool` of one picture, or the regions that `CutHead` cuts out of it.

    The exporter takes torchvision's RoIPool for another function and fails on it.
    """
    count, scale = boxes.shape[0], 1 / head.stride
    cells = head.eye.size if isinstance(head, CutHead) else head.size
    shape = (count, features.shape[1], cells, cells)
    if head.pooling == "align":
        size = {"output_height": cells, "output_width": cells, "spatial_scale": scale}
        how = {"sampling_ratio": 2, "coordinate_transformation_mode": "half_pixel"}
        picture = torch.zeros(count, dtype=torch.long)
        return _operator("RoiAlign", (features, boxes, picture), shape, **size, **how)
    rows = torch.cat([boxes.new_zeros(count, 1), boxes[:, :2], boxes[:, 2:] - 1], dim=1)  # the last pixel counted in
    return _operator("MaxRoiPool", (features, rows), shape, pooled_shape=[head.size] * 2, spatial_scale=scale)


def _spell_padding(module: nn.Module) -> None:
    """TensorFlow's padding depends on the size of the picture, which is free: ONNX knows it by name."""
    for name, child in module.named_children():
        if isinstance(child, SameConv2d):
            setattr(module, name, _NamedPadding(child))
        else:
            _spell_padding(child)


class _NamedPadding(nn.Module):
    """A `SameConv2d` whose padding is not a number."""

    def __init__(self, layer: SameConv2d) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, H, W] → [N, C₂, ⌈H/s⌉, ⌈W/s⌉]."""
        layer = self.layer
        if layer.stride == (1, 1):  # here it is one, the same on both sides
            reach = [(size - 1) * spread for size, spread in zip(layer.kernel_size, layer.dilation, strict=True)]
            padding = (reach[0] // 2, reach[1] // 2)
            return functional.conv2d(input, layer.weight, layer.bias, 1, padding, layer.dilation, layer.groups)
        sides = [-(-side // stride) for side, stride in zip(input.shape[2:], layer.stride, strict=True)]
        return _operator(
            "Conv",
            (input, layer.weight) if layer.bias is None else (input, layer.weight, layer.bias),
            (input.shape[0], layer.out_channels, *sides),
            auto_pad="SAME_UPPER",
            strides=[*layer.stride],
            dilations=[*layer.dilation],
            group=layer.groups,
        )


def _operator(name: str, tensors: Sequence[Tensor], shape: Sequence[int], **how: Any) -> Tensor:
    """A node of the graph, which gives float32 of that shape."""
    return torch.onnx.ops.symbolic(name, tensors, how, dtype=torch.float32, shape=shape, version=OPSET)
