"""Where weights come from, and what is said when they cannot be had or do not fit."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torchvision.models import vgg16
from torchvision.models._api import WeightsEnum

from tag2box.errors import InputError
from tag2box.nets import build_trunk, build_trunk_and_head, read_weights
from tag2box.nets.roi_head import MlpHead
from tag2box.nets.tiny import tiny_body

SHARED = Path(__file__).parents[2].parent / "shared" / "weights"


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    tensors = {name: tensor.half() for name, tensor in tiny_body().state_dict().items()}
    save_file(tensors, tmp_path / "tiny.safetensors")
    return tmp_path / "tiny.safetensors"


def test_a_file_in_half_precision_is_read_in_full(tiny_file: Path):
    trunk = build_trunk("tiny", weights=tiny_file)
    wanted = read_weights("tiny", tiny_file).tensors["stem.0.weight"]
    assert trunk.body.stem[0].weight.dtype == torch.float32
    assert torch.equal(trunk.body.stem[0].weight, wanted.float())


def test_a_pickled_file_reads_the_same(tiny_file: Path, tmp_path: Path):
    torch.save(dict(read_weights("tiny", tiny_file).tensors), tmp_path / "tiny.pth")
    one, other = (build_trunk("tiny", weights=tmp_path / name) for name in ("tiny.safetensors", "tiny.pth"))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_missing_tensor_is_named(tiny_file: Path, tmp_path: Path):
    tensors = dict(read_weights("tiny", tiny_file).tensors)
    del tensors["at4.0.bias"]
    save_file(tensors, tmp_path / "short.safetensors")
    with pytest.raises(
        InputError, match=r"short\.safetensors: expected a tensor 'at4\.0\.bias', found none among its 13"
    ):
        build_trunk("tiny", weights=tmp_path / "short.safetensors")


def test_a_misshapen_tensor_is_named(tiny_file: Path, tmp_path: Path):
    tensors = dict(read_weights("tiny", tiny_file).tensors) | {"out.0.bias": torch.zeros(64)}
    save_file(tensors, tmp_path / "odd.safetensors")
    with pytest.raises(InputError, match=r"expected 'out\.0\.bias' of shape \[128\], found \[64\]"):
        build_trunk("tiny", weights=tmp_path / "odd.safetensors")


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_a_broken_file_is_refused(tmp_path: Path, suffix: str):
    path = tmp_path / f"broken{suffix}"
    path.write_bytes(b"not tensors at all")
    with pytest.raises(InputError, match="cannot be read"):
        read_weights("vgg16", path)


def test_a_file_that_holds_no_tensors_is_refused(tmp_path: Path):
    torch.save({"epoch": 3}, tmp_path / "state.pth")
    with pytest.raises(InputError, match="found something else"):
        read_weights("vgg16", tmp_path / "state.pth")


@pytest.mark.parametrize(("name", "message"), [("gone.pth", "found none at"), ("imagenet", "expected 'pretrained'")])
def test_no_such_file(tmp_path: Path, name: str, message: str):
    with pytest.raises(InputError, match=message):
        read_weights("vgg16", tmp_path / name)


def test_without_a_network_one_line_says_how_to_give_a_file(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: Any, **__: Any) -> None:
        raise URLError("Name or service not known")

    monkeypatch.setattr(WeightsEnum, "get_state_dict", fail)
    with pytest.raises(InputError, match=r"--backbone\.weights FILE") as error:
        build_trunk("vgg16")
    assert "\n" not in str(error.value)
    assert "Name or service not known" in str(error.value)


def test_a_net_that_torchvision_lacks_asks_for_a_file():
    with pytest.raises(InputError, match=r"torchvision has no weights for it; give a file.*; scripts/\S+") as error:
        build_trunk("efficientnet_lite4")
    script = str(error.value).partition("scripts/")[2].split()[0]
    assert (Path(__file__).parents[2] / "scripts" / script).is_file()


def test_torchvision_weights_by_name(monkeypatch: pytest.MonkeyPatch):
    tensors = _fake_vgg16()
    monkeypatch.setattr(WeightsEnum, "get_state_dict", lambda *_, **__: tensors)
    trunk, head = build_trunk_and_head("vgg16")
    assert torch.equal(trunk.body[28].weight, tensors["features.28.weight"])
    assert isinstance(head, MlpHead)
    assert torch.equal(head.fc7.bias, tensors["classifier.3.bias"])


def test_a_width_of_ones_own_makes_new_layers(monkeypatch: pytest.MonkeyPatch):
    tensors = _fake_vgg16()
    monkeypatch.setattr(WeightsEnum, "get_state_dict", lambda *_, **__: tensors)
    _, head = build_trunk_and_head("vgg16", width=32)
    assert head.dim == 32
    assert head.fc6.weight.std().item() == pytest.approx((2 / 25088) ** 0.5, rel=0.01)  # He


def _fake_vgg16() -> dict[str, Tensor]:
    """Tensors of torchvision's names and shapes, each a zero that is repeated: no memory to speak of."""
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in vgg16(weights=None).state_dict().items()}
    fake = {name: torch.zeros(()).expand(shape) for name, shape in shapes.items()}
    return fake | {"features.28.weight": torch.randn(512, 512, 3, 3), "classifier.3.bias": torch.randn(4096)}


@pytest.mark.skipif(not (SHARED / "vgg16_features.safetensors").exists(), reason="no shared weights here")
def test_vgg16_from_the_shared_file():
    trunk, head = build_trunk_and_head("vgg16", weights=SHARED / "vgg16_features.safetensors", width=16)
    published = torch.tensor([[-0.5537, 0.1427, 0.5290], [-0.5831, 0.3566, 0.7657], [-0.6902, -0.0480, 0.4841]])
    torch.testing.assert_close(trunk.body[0].weight[0, 0], published, atol=3e-4, rtol=0)  # torchvision's conv1_1
    images = (torch.arange(3 * 64 * 64).view(1, 3, 64, 64) * 7 % 256).to(torch.uint8)
    with torch.no_grad():
        features = trunk.features(images)
    assert features.shape == (1, 512, 4, 4)
    assert features.mean().item() == pytest.approx(0.1806, rel=1e-2)
    assert features[0].amax((1, 2)).topk(4).indices.tolist() == [236, 100, 475, 346]
    assert head.dim == 16
