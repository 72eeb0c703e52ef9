"""Bytes on disk: the policy file, the run store, the codec of the state, reading a run, the tables beside it, ONNX.

May import `core` and `support`. No environment is made here.
"""
