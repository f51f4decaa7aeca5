"""Which images belong to which part of a data set."""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from tag2box.errors import InputError, did_you_mean

_PREFERRED = ("trainval", "train")


def choose_split(asked: str | None, available: Sequence[str], where: Path) -> str:
    """The split asked for; when none is, the one to train on: `trainval`, `train`, or the only one there is.

    >>> choose_split(None, ["test", "train", "trainval"], Path("VOC2007"))
    'trainval'
    """
    listed = ", ".join(available)
    if asked is not None:
        if asked not in available:
            raise InputError(f"{where} has no split '{asked}', only {listed}{did_you_mean(asked, available)}")
        return asked
    for name in _PREFERRED:
        if name in available:
            return name
    if len(available) != 1:
        raise InputError(f"{where} has several splits, choose one of {listed}")
    return available[0]


def require_fraction(fraction: float) -> None:
    """Refuse a share that leaves nothing on one side."""
    if not 0 < fraction < 1:
        raise InputError(f"expected a validation fraction between 0 and 1, found {fraction}")


def in_validation(id: str, fraction: float, seed: int) -> bool:
    """Whether an image is held out for validation.

    A hash of the id alone decides, so the answer is the same on every machine and stays when images are added. What is
    held out at a fraction stays held out at any larger one.
    """
    digest = blake2b(f"{seed}/{id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < fraction * 2**64
