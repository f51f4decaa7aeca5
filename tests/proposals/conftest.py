"""Pictures and devkits for the tests of proposals."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tag2box.data.demo import draw_demo
from tag2box.data.demo_picture import Picture, draw_picture


@pytest.fixture(scope="session")
def drawn() -> Callable[[int], Picture]:
    """`drawn(number)`: a demo picture with its annotated things, 192 pixels at the short side."""
    return lambda number: draw_picture(np.random.Generator(np.random.PCG64([5, number])))


@pytest.fixture(scope="session")
def demo_devkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 demo pictures in `trainval` and one in `test`; not to be written to."""
    return draw_demo(tmp_path_factory.mktemp("demo"), seed=2, train=12, test=1)
