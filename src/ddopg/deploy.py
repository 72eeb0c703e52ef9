"""A trained policy for machines without this library: `to_onnx` writes it as an ONNX file.

For a machine that has only NumPy, `numpy_policy.py` reads the policy file itself.
"""

from ddopg.storage.onnx import to_onnx

__all__ = ["to_onnx"]
