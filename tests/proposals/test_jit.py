import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tag2box.proposals import graph, grouping, thinning
from tag2box.proposals.jit import COMPILED
from tag2box.proposals.selective_search import Pass, Settings, selective_search

needs_numba = pytest.mark.skipif(not COMPILED, reason="numba is not installed: there is only plain Python")

WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # an import of it fails from here on
import numpy as np
from PIL import Image
from tag2box.proposals.jit import COMPILED
from tag2box.proposals.selective_search import Pass, Settings, selective_search
settings = Settings(passes=(Pass(side=24, min_size=6, k=(60, 200)),), overlap=0.75, max_boxes=500, min_side=4)
boxes = selective_search(np.asarray(Image.open(sys.argv[1])), settings)
assert not COMPILED
np.save(sys.argv[2], boxes)
"""


@needs_numba
@given(st.integers(0, 2**32 - 1), st.integers(1, 10), st.integers(1, 10), st.sampled_from([1, 3]))
@settings(max_examples=25, deadline=None)
def test_compiled_segments_as_plain_python(seed, height, width, channels):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels)).astype(np.float32)
    plain, fast = graph.sorted_edges.py_func(pixels), graph.sorted_edges(pixels)
    for a, b in zip(plain, fast, strict=True):
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())
    plain, fast = (f(*fast, height * width, 150.0, 4) for f in (graph.segment.py_func, graph.segment))
    assert plain[1] == fast[1]
    assert (plain[0].dtype, plain[0].tobytes()) == (fast[0].dtype, fast[0].tobytes())


@needs_numba
@given(st.integers(0, 2**32 - 1), st.integers(1, 10), st.integers(1, 10), st.tuples(*[st.booleans()] * 3))
@settings(max_examples=25, deadline=None)
def test_compiled_groups_as_plain_python(seed, height, width, measures):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (height, width, 3)).astype(np.uint8)
    cells = np.minimum(np.arange(height) // 3, 2)[:, None] * 3 + np.minimum(np.arange(width) // 3, 2)  # [H, W]
    labels = np.unique(cells, return_inverse=True)[1].ravel().astype(np.int32)
    count = int(labels.max()) + 1
    plain = grouping.measure_regions.py_func(labels, count, pixels)
    fast = grouping.measure_regions(labels, count, pixels)
    for a, b in zip(plain, fast, strict=True):
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())
    plain, fast = (f(fast, measures, height * width) for f in (grouping.group.py_func, grouping.group))
    assert (plain.dtype, plain.tobytes()) == (fast.dtype, fast.tobytes())


@needs_numba
@given(st.integers(0, 2**32 - 1), st.integers(0, 30))
@settings(max_examples=25, deadline=None)
def test_compiled_thins_as_plain_python(seed, count):
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 10, (count, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 10, (count, 2))], axis=1)
    boxes = boxes[np.argsort(-np.prod(boxes[:, 2:] - boxes[:, :2], axis=1), kind="stable")]
    for a, b in zip(
        *(f(boxes, np.ones(count, int), 0.6) for f in (thinning._thin.py_func, thinning._thin)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@needs_numba
def test_a_machine_without_numba_gets_the_same_boxes(drawn, tmp_path):
    picture = Image.fromarray(drawn(1).pixels).resize((30, 24))
    picture.save(tmp_path / "small.png")
    files = [str(tmp_path / "small.png"), str(tmp_path / "boxes.npy")]
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA, *files], check=True, timeout=120)
    few = Settings(passes=(Pass(side=24, min_size=6, k=(60, 200)),), overlap=0.75, max_boxes=500, min_side=4)
    boxes = selective_search(np.asarray(picture), few)
    assert len(boxes) > 10
    assert np.load(tmp_path / "boxes.npy").tobytes() == boxes.tobytes()
