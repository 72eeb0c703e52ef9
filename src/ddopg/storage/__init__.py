"""Bytes on disk: the policy file, the run store, reading it, the tables beside it, ONNX.

May import `core` and `support`. No environment is made here.
"""
