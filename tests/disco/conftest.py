import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """The tensors here are tiny: threads would only wait for each other, for long where other work runs beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
