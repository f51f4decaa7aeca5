"""RoIPool in Triton, run by Triton's interpreter on the CPU: the same as torchvision's, values and gradients."""

import subprocess
import sys
from os import environ

import pytest
import torch

from tag2box.nets.roi_head import build_head

SCRIPT = """
import sys
import torch
from torchvision.ops import roi_pool
from tag2box.nets.region_max import region_max, works_here

torch.manual_seed(int(sys.argv[1]))
assert works_here(torch.device("cpu"))
cases = (5, 3, 0.25, torch.float32), (8, 7, 1 / 16, torch.bfloat16), (3, 2, 0.5, torch.float16)
for channels, size, scale, dtype in cases:
    maps = torch.randn(2, channels, 6, 9).to(dtype)
    corner = torch.rand(12, 2) * torch.tensor([9.0, 6.0]) / scale - 3
    boxes = torch.cat([corner, corner + torch.rand(12, 2) * 8 / scale - 1], 1)
    rois = torch.cat([torch.randint(2, (12, 1)).float(), boxes], 1)
    ours, theirs = maps.clone().requires_grad_(), maps.float().requires_grad_()
    found, wanted = region_max(ours, rois, size, scale), roi_pool(theirs, rois, size, scale)
    assert found.dtype == dtype and torch.equal(found.float(), wanted), (channels, size)
    weights = torch.randn_like(wanted).to(dtype)
    (found * weights).sum().backward()
    (wanted * weights.float()).sum().backward()
    torch.testing.assert_close(ours.grad.float(), theirs.grad, rtol=1e-2, atol=1e-2 if dtype != torch.float32 else 1e-5)
    with torch.no_grad():
        assert torch.equal(region_max(maps, rois, size, scale).float(), wanted)
assert region_max(torch.zeros(1, 3, 4, 4), torch.zeros(0, 5), 7, 1.0).shape == (0, 3, 7, 7)
print("equal")
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_it_equals_torchvision_s(seed):
    pytest.importorskip("triton")
    command = [sys.executable, "-c", SCRIPT, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ | {"TRITON_INTERPRET": "1"})
    assert done.stdout.strip() == "equal", done.stderr[-2000:]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_head_on_a_gpu_pools_as_it_does_elsewhere():
    head = build_head("vgg11", stride=16, weights=None)
    corner = torch.rand(2, 9, 2) * 200
    boxes = [*torch.cat([corner, corner + 8 + torch.rand(2, 9, 2) * 100], 2)]
    maps = torch.randn(2, 512, 20, 20)
    there = head.pool(maps.cuda(), [one.cuda() for one in boxes])
    assert torch.equal(there.cpu(), head.pool(maps, boxes))
