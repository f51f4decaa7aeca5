import pytest


@pytest.fixture(autouse=True, scope="module")
def _one_thread(one_thread):
    """For all tests here."""
