"""scripts/efficientnet_lite4.py: timm's tensors, batch norm folded in, give what they give with batch norm."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from torch import Tensor, nn
from torch.nn import functional

from tag2box.nets.efficientnet_lite import SameConv2d, efficientnet_lite, stages
from tag2box.nets.published import EPSILON, folded

SCRIPT = Path(__file__).parents[2] / "scripts" / "efficientnet_lite4.py"
_spec = spec_from_file_location("efficientnet_lite4_script", SCRIPT)
script = module_from_spec(_spec)
_spec.loader.exec_module(script)


class Whole(nn.Module):
    """The net with its classifier, under the names of its file."""

    def __init__(self) -> None:
        super().__init__()
        cut = efficientnet_lite("efficientnet_lite4")
        self.body, self.top = cut.trunk, cut.top
        self.fc = nn.Linear(1280, 1000)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.fc(self.top(self.body(pixels)).mean((2, 3)))

    def fill(self, weights: dict[str, Tensor]) -> "Whole":
        own = {name.removeprefix("body.").removeprefix("top."): value for name, value in self.named_parameters()}
        assert own.keys() == weights.keys()
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(weights[name])
        return self.eval()


@pytest.fixture(scope="module")
def theirs():
    """Random numbers by timm's names, as large as keeps the net's values."""
    torch.manual_seed(0)
    shapes = {name: value.shape for name, value in Whole().fc.named_parameters()}
    state = {f"classifier.{name}": torch.randn(shape) for name, shape in shapes.items()}
    for stage, own in enumerate(stages("efficientnet_lite4")[1], 1):
        state |= dict.fromkeys(f"blocks.{stage}.{block}.conv_pw.weight" for block in range(own.blocks))
    modules = dict(Whole().body.named_modules()) | dict(Whole().top.named_modules())
    for ours, convolution, norm in [*script.timm_layers(state)]:
        weight = modules[ours].weight
        state[f"{convolution}.weight"] = torch.randn(weight.shape) * (2 / weight[0].numel()) ** 0.5
        channels = len(weight)
        state[f"{norm}.weight"], state[f"{norm}.bias"] = 0.5 + torch.rand(channels), torch.randn(channels) / 2
        state[f"{norm}.running_mean"], state[f"{norm}.running_var"] = torch.randn(channels), 0.5 + torch.rand(channels)
    return state


def _folded(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return folded(state, script.timm_layers(state), "classifier")


def test_folded_it_gives_what_batch_norm_gives(theirs):
    whole = Whole().fill(_folded(theirs))
    plain = {ours: (convolution, norm) for ours, convolution, norm in script.timm_layers(theirs)}
    apart = Whole()
    named = {**dict(apart.body.named_modules()), **dict(apart.top.named_modules())}

    def normalised(norm):
        parts = [theirs[f"{norm}.{part}"].double() for part in ("running_mean", "running_var", "weight", "bias")]
        return lambda module, inputs, output: functional.batch_norm(output, *parts, eps=EPSILON)

    with torch.no_grad():
        for ours, (convolution, norm) in plain.items():
            layer = named[ours]
            assert isinstance(layer, SameConv2d)
            layer.weight.copy_(theirs[f"{convolution}.weight"])
            layer.bias.zero_()
            layer.register_forward_hook(normalised(norm))
        apart.fc.weight.copy_(theirs["classifier.weight"])
        apart.fc.bias.copy_(theirs["classifier.bias"])
        pixels = torch.randn(1, 3, 64, 96).double()  # what is compared is the folding, not the order of sums
        found, wanted = whole.double()(pixels), apart.double().eval()(pixels)
    assert (found - wanted).abs().max() < 1e-3 * wanted.std()  # thirty layers of folded weights in single precision


def test_the_command(theirs, tmp_path):
    save_file(theirs, tmp_path / "model.safetensors")
    out = tmp_path / "lite4.safetensors"
    command = [sys.executable, SCRIPT, out, "--from", tmp_path / "model.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {value.dtype for value in load_file(out).values()} == {torch.float16}
    Whole().fill(load_file(out))


@pytest.mark.parametrize(
    ("content", "out", "said"),
    [
        (b"no such thing", "out", "expected weights, found"),
        (None, "out", "No such file"),
        (save({"features.0.weight": torch.zeros(1)}), "out", "expected a tensor 'classifier.weight', found none"),
        (b"", "nowhere/out", "cannot write to folder"),
    ],
)
def test_what_does_not_work_is_said_in_a_line(tmp_path, content, out, said):
    if content is not None:
        (tmp_path / "model.safetensors").write_bytes(content)
    command = [sys.executable, SCRIPT, tmp_path / out, "--from", tmp_path / "model.safetensors"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not (tmp_path / out).exists()


def test_against_timm():
    """Where timm is installed: its net with other numbers in its batch norms, without a download."""
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    net = timm.create_model("tf_efficientnet_lite4", pretrained=False).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    pixels = torch.randn(1, 3, 96, 64)
    ours = Whole().fill(_folded(net.state_dict()))
    with torch.no_grad():
        torch.testing.assert_close(ours.double()(pixels.double()), net.double()(pixels.double()), rtol=1e-4, atol=1e-4)
