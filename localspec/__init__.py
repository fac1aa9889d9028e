"""localspec: a local chat and code assistant with speculative decoding you can watch."""

__version__ = "0.1.0"
