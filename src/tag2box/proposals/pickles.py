"""Pickles read without running what they say: only numpy arrays and plain values come of them.

Not even numpy's own functions are called as a pickle asks: they believe what it says of an element type, and one that
calls raw bytes objects has them used as addresses. Harmless things stand in for them, and arrays are made of their
bytes in the end.
"""

import io
import math
import pickle  # only through _ArraysOnly below
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError


def load_arrays(path: Path) -> Any:
    """What a pickle file holds: numpy arrays and plain values, in lists and dictionaries. Anything else is refused."""
    try:
        # latin1: arrays pickled by Python 2 hold their bytes as text
        return _plain(_ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load())
    except pickle.UnpicklingError as error:
        found = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: expected a pickle of numpy arrays alone, found {found}; not loaded") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise InputError(f"cannot read {path} as a pickle: {in_one_line(error)}") from None


def in_one_line(error: Exception) -> str:
    """Any error's words, short enough for a message of ours."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows stand-ins for the few names that arrays are made of, and refuses any other."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core")  # its name from numpy 2 on
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return _STAND_INS[module, name]


class _Elements:
    """Stands for `numpy.dtype`: numbers, text or objects, in either byte order, and nothing else of what one can be."""

    def __init__(self, code: str, align: bool = False, copy: bool = False) -> None:
        self.dtype = np.dtype(str(code))
        if self.dtype.kind not in "biufSUO":
            raise pickle.UnpicklingError(f"elements of type {code}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, byte_order, *parts = state
        if parts[:3] != [None, None, None]:
            raise pickle.UnpicklingError(f"elements of type {self.dtype} with parts")
        self.dtype = self.dtype.newbyteorder(byte_order)

    def array(self, data: Any, shape: Any, order: str = "C") -> NDArray[Any]:
        """An array of these elements from its bytes, or from a list where they are objects."""
        if self.dtype.kind != "O":
            raw = data.encode("latin1") if isinstance(data, str) else data
            return np.frombuffer(raw, self.dtype).reshape(shape, order="F" if order == "F" else "C")
        if not isinstance(data, list) or math.prod(shape) != len(data):
            raise pickle.UnpicklingError("objects that do not fit their array")
        objects = np.empty(len(data), dtype=object)
        for place, item in enumerate(data):
            objects[place] = _plain(item)
        return objects.reshape(shape, order="F" if order == "F" else "C")


class _Array:
    """Stands for an array that a pickle is still to fill."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[_Elements, Any, Any, str] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, elements, is_fortran, data = state
        self.state = elements, data, shape, "F" if is_fortran else "C"

    def finished(self) -> NDArray[Any]:
        """The array itself."""
        if self.state is None:
            raise pickle.UnpicklingError("an array without content")
        elements, data, shape, order = self.state
        return elements.array(data, shape, order)


def _scalar(elements: _Elements, data: Any) -> Any:
    return elements.array(data, (1,))[0]


def _from_buffer(data: Any, elements: _Elements, shape: Any, order: str, axes: Any = None) -> NDArray[Any]:
    array = elements.array(data, shape, order)
    return array if axes is None else array.transpose(axes)


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """What Python 3 writes into old pickle protocols in place of bytes; `_codecs.encode` itself knows other codecs."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"_codecs.encode with {encoding}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """What old protocols call for empty bytes."""
    return b""


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _Elements,
    ("numpy", "ndarray"): "ndarray",  # named by pickles, never called
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _latin1,
    ("__builtin__", "bytes"): _no_bytes,
}


def _plain(value: Any) -> Any:
    """The value with arrays in place of what stood for them, all the way down."""
    if isinstance(value, _Array):
        return value.finished()
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bytes | int | float | np.generic | np.ndarray):
        return value
    raise pickle.UnpicklingError(f"a {type(value).__name__.strip('_')}")
