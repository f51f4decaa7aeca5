"""The ImageNet weights of EfficientNet-Lite4, which torchvision lacks, as `--backbone.weights` takes them.

    pip install timm
    python scripts/efficientnet_lite4.py efficientnet_lite4.safetensors
    python scripts/efficientnet_lite4.py efficientnet_lite4.safetensors --from model.safetensors    # without a network

They are timm's `tf_efficientnet_lite4.in1k` (Apache-2.0), ported from TensorFlow, with batch norm folded into the
convolutions, in half precision. `--from` takes timm's file where it is there already.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from tag2box.errors import InputError
from tag2box.files import require_writable, write_atomically
from tag2box.nets.published import Layer, folded

NAME = "tf_efficientnet_lite4.in1k"
LICENCE = "EfficientNet-Lite4 by Google, weights of timm's tf_efficientnet_lite4.in1k, Apache-2.0; batch norm folded"


def timm_layers(state: Mapping[str, Tensor]) -> Iterator[Layer]:
    """The layers by timm's names."""
    yield "stem", "conv_stem", "bn1"
    yield "dw0", "blocks.0.0.conv_dw", "blocks.0.0.bn1"
    yield "pw0", "blocks.0.0.conv_pw", "blocks.0.0.bn2"
    number = count()
    for stage in range(1, 7):
        for block in count():
            theirs = f"blocks.{stage}.{block}"
            if f"{theirs}.conv_pw.weight" not in state:
                break
            ours = f"blocks.{next(number)}"
            for place, part in enumerate(("conv_pw", "conv_dw", "conv_pwl")):
                yield f"{ours}.{place}", f"{theirs}.{part}", f"{theirs}.bn{place + 1}"
    yield "head", "conv_head", "bn2"


def fetched() -> dict[str, Tensor]:
    """From where timm has them."""
    from timm import create_model

    state: dict[str, Tensor] = create_model(NAME, pretrained=True).state_dict()
    return state


def _refuse(why: str) -> int:
    print(f"efficientnet_lite4: {why}", file=sys.stderr)
    return 2


def main() -> int:
    """Fetch or read, fold, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="timm's model.safetensors")
    args = parser.parse_args()
    where = args.source or f"timm's {NAME}, over the network"
    try:
        require_writable(args.out)  # before the work
        theirs = fetched() if args.source is None else load_file(args.source)
        weights = folded(theirs, timm_layers(theirs), "classifier")
    except InputError as error:
        return _refuse(str(error))
    except ImportError:
        return _refuse("expected timm (pip install timm), or its file by --from; found neither")
    except KeyError as error:
        return _refuse(f"{where}: expected a tensor {error}, found none; it is another net's")
    except (SafetensorError, OSError, RuntimeError) as error:
        return _refuse(f"{where}: expected weights, found {str(error).partition(chr(10))[0] or type(error).__name__}")
    half = {name: value.to(torch.float16).contiguous() for name, value in weights.items()}
    write_atomically(args.out, save(half, {"licence": LICENCE}))
    print(f"{args.out}: {len(half)} tensors, {sum(value.numel() for value in half.values()) / 1e6:.1f} million numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
