"""A region proposal network, Faster R-CNN's, on the detector's own map: no search before it looks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead

NUMBER = 300
"""Proposals of a picture, as in the paper's appendix."""
AMONG, NMS, LEAST = 3000, 0.7, 1e-3
"""They are the best that are left of so many, thinned by this IoU, and of sides no shorter than that."""
SIZES, RATIOS = (2, 4, 8, 16, 32), (0.5, 1.0, 2.0)
"""Of the anchors: sides in cells of the map, height to width."""


class Proposer(nn.Module):
    """Anchors, a convolution over the map, and what is best after non-maximum suppression."""

    def __init__(self, *, channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        anchors = AnchorGenerator((tuple(stride * size for size in SIZES),), (RATIOS,))
        self.rpn = RegionProposalNetwork(
            anchors,
            RPNHead(channels, anchors.num_anchors_per_location()[0]),
            fg_iou_thresh=0.7,
            bg_iou_thresh=0.3,
            batch_size_per_image=256,
            positive_fraction=0.5,
            pre_nms_top_n={"training": 1, "testing": AMONG},  # in training nobody looks at them
            post_nms_top_n={"training": 1, "testing": NUMBER},
            nms_thresh=NMS,
        )

    def forward(self, features: Tensor, sizes: Sequence[tuple[int, int]]) -> list[Tensor]:
        """The best boxes in pictures of these sizes (width, height): maps [N, C', h, w] → N times [≤ NUMBER, 4]."""
        boxes: list[Tensor] = self._rpn(features, sizes, None)[0]
        return boxes

    def candidates(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` chooses from in one picture [1, C', h, w]: chances as logits [n], boxes [n, 4] unclipped.

        In operations that an exporter knows.
        """
        (chances,), (offsets,) = self.rpn.head([features])
        _, number, rows, columns = chances.shape
        chances = chances.permute(0, 2, 3, 1).reshape(-1)
        offsets = offsets.reshape(number, 4, rows, columns).permute(2, 3, 0, 1).reshape(-1, 4)
        x, y = (torch.arange(count, dtype=torch.float32) * self.stride for count in (columns, rows))
        across, down = x[None].expand(rows, -1), y[:, None].expand(-1, columns)
        places = torch.stack([across, down, across, down], dim=-1)  # [h, w, 4]
        anchors = (places[:, :, None] + self.rpn.anchor_generator.cell_anchors[0]).reshape(-1, 4)
        sides = anchors[:, 2:] - anchors[:, :2]
        middle = anchors[:, :2] + 0.5 * sides + offsets[:, :2] * sides
        sides = offsets[:, 2:].clamp(max=self.rpn.box_coder.bbox_xform_clip).exp() * sides
        return chances, torch.cat([middle - 0.5 * sides, middle + 0.5 * sides], dim=1)

    def loss(self, features: Tensor, sizes: Sequence[tuple[int, int]], boxes: Sequence[Tensor]) -> Tensor:
        """Against the boxes in each picture, N times [T, 4]; while in training."""
        losses = self._rpn(features, sizes, [{"boxes": one} for one in boxes])[1]
        return torch.stack([*losses.values()]).sum()

    def _rpn(
        self, features: Tensor, sizes: Sequence[tuple[int, int]], targets: list[dict[str, Tensor]] | None
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        number, _, rows, columns = features.shape
        # It takes the stride from the pictures' shape, which need not be whole cells, and looks at nothing else of it.
        cells = features.new_empty(1).expand(number, 3, rows * self.stride, columns * self.stride)
        with torch.autocast(features.device.type, enabled=False):
            found: tuple[list[Tensor], dict[str, Tensor]] = self.rpn(
                ImageList(cells, [(height, width) for width, height in sizes]), {"0": features.float()}, targets
            )
        return found
