"""Photos with tags in, an object detector out."""

__version__ = "0.1.0"
