"""Doctests are looked for in all of src, but what is for GPUs alone cannot be imported everywhere."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/tag2box/nets/region_max.py"]
