"""The demo's trunk."""

import torch
from torch import nn

from tag2box.nets.tiny import fold_batch_norm, tiny_body


def test_it_is_small():
    parameters = sum(parameter.numel() for parameter in tiny_body().parameters())
    assert parameters < 400_000
    assert 2 * parameters < 1e6  # bytes in half precision


def test_folding_changes_no_value():
    body = tiny_body(batch_norm=True)
    for layer in body.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.running_mean, std=0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    folded = fold_batch_norm(body)
    images = torch.randn(2, 3, 48, 40)
    with torch.no_grad():
        torch.testing.assert_close(folded(images), body.eval()(images), rtol=1e-4, atol=1e-4)
    tiny_body().load_state_dict(folded.state_dict())  # the names that are shipped
