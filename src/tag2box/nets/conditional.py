"""The conditional net, Pr_c(y|x,a): the same Fast R-CNN with noise inside. It knows the tags, and it teaches.

One channel of noise z_k at the resolution of conv5 is put beside its C' channels, and a 1×1 convolution brings C' + 1
channels back to C' (section 6.2 of the paper; scores G_k of eq. 2). The paper draws U[0,1]; here it is U[−½,½], equal
up to a bias in the convolution. So the mean of the noise changes nothing, and it can be strong without doing harm: with
a mean of ½ it moves every feature of every sample alike. The convolution has no bias and no activation after it, so it
is linear,

    conv([f; z_k]) = W_f f + w_z z_k,

and the trunk's part of it is computed once for all K samples. Where the pooling is linear too (RoIAlign) it goes
further: pool(W_f f + w_z z_k) = W_f pool(f) + w_z pool(z_k), and fc6 of a fully connected head is the last linear step.
What is left to do K times is one channel of pooling and the layers after fc6. Where a fixed net looks at regions cut
out (`CutHead`), its maps of them are what is pooled: there the noise goes in after it, by the same equations.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from tag2box.errors import InputError
from tag2box.nets.backbone import Trunk
from tag2box.nets.prediction import BoxPredictor, Outputs
from tag2box.nets.roi_head import CutHead, MlpHead, RoIHead


def draw_noise(features: Tensor, samples: int, generator: torch.Generator | None = None) -> Tensor:
    """K fields of noise, U[−½,½], for maps [N, C', h, w] → [K, N, 1, h, w]; K = 0: one field of zeros (PW_c).

    They are drawn where the generator lives, so that a CPU generator gives every device the same samples.
    """
    shape = (len(features), 1, *features.shape[2:])
    if samples == 0:
        return features.new_zeros((1, *shape))
    device = features.device if generator is None else generator.device
    return torch.rand((samples, *shape), generator=generator, device=device).sub_(0.5).to(features.device)


def _by_sample(rows: Tensor, samples: int) -> Tensor:
    """[K B, …] → [K, B, …], also where B is 0."""
    return rows.reshape(samples, len(rows) // samples, *rows.shape[1:])


class ConditionalNet(nn.Module):
    """Trunk, noise, RoI head and predictor.

    The 1×1 convolution starts as the identity on the C' channels, so that with zero noise the net is at first what it
    was made from, and with N(0, `noise_spread`²) on the noise channel: small beside conv5's values, yet not 0, or the
    samples would start as one.
    """

    def __init__(self, *, trunk: Trunk, head: RoIHead, classes: int, noise_spread: float = 0.1) -> None:
        super().__init__()
        self.trunk, self.head, self.classes = trunk, head, classes
        self.mix = nn.Conv2d(head.channels + 1, head.channels, 1, bias=False)
        self.predictor = BoxPredictor(dim=head.dim, classes=classes)
        with torch.no_grad():
            nn.init.dirac_(self.mix.weight)
            nn.init.normal_(self.mix.weight[:, -1], std=noise_spread)

    def forward(
        self,
        images: Tensor,
        boxes: Sequence[Tensor],
        *,
        samples: int = 5,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Outputs:
        """The score functions G_k of eq. 2, K at once.

        images: [N, 3, H, W], RGB in 0–255; boxes: N times [B_i, 4]; noise [K, N, 1, h, w], or else `samples` of it are
        drawn (0: zero noise) → scores [K, ΣB_i, C + 1], offsets [K, ΣB_i, C + 1, 4].
        """
        features = self.trunk.features(images)
        return self.from_features(features, boxes, samples=samples, generator=generator, noise=noise)

    def from_features(
        self,
        features: Tensor,
        boxes: Sequence[Tensor],
        *,
        samples: int = 5,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Outputs:
        """The same from the trunk's maps [N, C', h, w]."""
        if noise is None:
            noise = draw_noise(self.head.cells(features), samples, generator)
        if isinstance(self.head, CutHead):
            return self.from_pooled(self.head.pool(features, boxes), self.pool_noise(noise, boxes))
        mixed = functional.conv2d(features, self._map_weight)  # W_f f: [N, C', h, w]
        if self.head.noise_follows:
            return self._from_mixed(self.head.pool(mixed, boxes), self.pool_noise(noise, boxes))
        # With channels innermost, as RoIPool wants them on a GPU, and in the map's precision: there are K of it.
        shift = noise.permute(0, 1, 3, 4, 2) * self._noise_weight.flatten()  # [K, N, h, w, C']
        noisy = (mixed.permute(0, 2, 3, 1) + shift.to(mixed.dtype)).permute(0, 1, 4, 2, 3)  # [K, N, C', h, w]
        vectors = self.head(self.head.pool(noisy.flatten(0, 1), [*boxes] * len(noise)))  # [K ΣB, dim]
        return self._predict(_by_sample(vectors, len(noise)))

    def pool_noise(self, noise: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        """Each proposal's part of the noise, for `from_pooled`: [K, N, 1, h, w] → [K, ΣB_i, 1, size, size]."""
        return _by_sample(self.head.pool_noise(noise.flatten(0, 1), [*boxes] * len(noise)), len(noise))

    def from_pooled(self, pooled: Tensor, noise: Tensor) -> Outputs:
        """The same from the trunk's pooled features [B, C', size, size] and pooled noise [K, B, 1, size, size].

        Equal to `forward` where noise can follow the pooling. Through RoIPool's maximum it cannot, so that is refused.
        """
        if not self.head.noise_follows:
            raise InputError("pooled features of the conditional net: expected --head.pooling align, found max")
        if isinstance(self.head, MlpHead) and self.head.dim < len(pooled):
            return self._after_fc6(self.head, self._folded_fc6(self.head.fc6, pooled), noise)
        mixed = functional.conv2d(pooled, self._map_weight)  # W_f pool(f): [B, C', size, size]
        return self._from_mixed(mixed, noise)

    @torch.no_grad()
    def scale_noise(self, features: Tensor) -> None:
        """Multiply w_z by the spread of these features, which differs: about 0.7 in VGG16, 7 in EfficientNet-Lite4."""
        self.mix.weight[:, -1] *= features.float().std()

    def _from_mixed(self, mixed: Tensor, noise: Tensor) -> Outputs:
        """[B, C', size, size] and [K, B, 1, size, size]."""
        if isinstance(self.head, MlpHead):
            return self._after_fc6(self.head, self.head.fc6(mixed.flatten(1)), noise)
        noisy = mixed + self._noise_weight * noise  # [K, B, C', size, size]
        return self._predict(_by_sample(self.head(noisy.flatten(0, 1)), len(noise)))

    def _after_fc6(self, head: MlpHead, once: Tensor, noise: Tensor) -> Outputs:
        """fc6(mixed + w_z noise) is fc6(mixed), computed once [B, dim], and (fc6 · w_z) noise."""
        weight = torch.einsum("dcs,c->ds", self._by_cell(head.fc6), self._noise_weight.flatten())  # [dim, size²]
        hidden = once + functional.linear(noise.flatten(2), weight)  # [K, B, dim]
        return self._predict(head.after_fc6(hidden))

    def _folded_fc6(self, fc6: nn.Linear, pooled: Tensor) -> Tensor:
        """fc6(W_f pooled) as (fc6 · W_f) pooled: cheaper where proposals outnumber fc6's outputs → [B, dim]."""
        weight = torch.einsum("dcs,ci->dis", self._by_cell(fc6), self._map_weight[..., 0, 0])  # [dim, C', size²]
        return functional.linear(pooled.flatten(1), weight.flatten(1), fc6.bias)

    def _by_cell(self, fc6: nn.Linear) -> Tensor:
        """fc6's weights by channel and cell [dim, C', size²]."""
        return fc6.weight.view(len(fc6.weight), self.head.channels, -1)

    def _predict(self, vectors: Tensor) -> Outputs:
        outputs: Outputs = self.predictor(vectors)
        return outputs

    @property
    def _map_weight(self) -> Tensor:
        """W_f [C', C', 1, 1]."""
        return self.mix.weight[:, :-1]

    @property
    def _noise_weight(self) -> Tensor:
        """w_z [C', 1, 1]."""
        return self.mix.weight[:, -1]
