"""A trained policy for machines without this library: `to_onnx` writes an ONNX file, `to_numpy` one for NumPy alone.

`numpy_policy.py` reads the policy file of a network itself; `numpy_controller.py` reads what `to_numpy` wrote, of
controllers and of all that has a memory.
"""

from ddopg.storage.numpy_form import to_numpy
from ddopg.storage.onnx import to_onnx

__all__ = ["to_numpy", "to_onnx"]
