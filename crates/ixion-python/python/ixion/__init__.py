"""Ixion: runs PyTorch models that PNNX exported, without PyTorch.

>>> import ixion
>>> model = ixion.load("digits.pnnx.param")
>>> scores = model(x)                                    # NumPy arrays in and out, or PyTorch tensors

``load`` reads a model or a plan and returns a :class:`Model`, which any number of threads can call. ``build`` returns a
:class:`Plan`, which can be saved. ``compile`` exports a PyTorch module, and compares the result with PyTorch's. ``calibrate``
finds the scales of int8, ``verify`` compares stored results, ``classify``, ``detect`` and ``segment`` read pictures as a model's
card says, and ``command`` runs any subcommand of the command ``ixion``.

Exceptions are under :class:`Error`, by kind: :class:`ModelError`, :class:`InputError`, :class:`LimitError` and so on. Messages go
to the logger ``ixion`` of the module ``logging``.
"""

from . import _aio, _compile, _notebook, _signatures
from ._compile import CompileError, Loss, cache_folder, clear_cache, compile
from ._ixion import (
    Cancelled,
    Case,
    Class,
    Context,
    Detection,
    Device,
    DeviceError,
    Error,
    Field,
    InputError,
    LimitError,
    Mask,
    Memory,
    Model,
    ModelError,
    NotFoundError,
    Operator,
    OperatorTime,
    Picture,
    Plan,
    PlanError,
    PluginError,
    Profile,
    Report,
    Scales,
    TensorInfo,
    TimeoutError,
    __version__,
    build,
    calibrate,
    classify,
    command,
    detect,
    devices,
    draw,
    load,
    main,
    operators,
    segment,
    verify,
)

__all__ = [
    "Cancelled",
    "Case",
    "Class",
    "CompileError",
    "Context",
    "Detection",
    "Device",
    "DeviceError",
    "Error",
    "Field",
    "InputError",
    "LimitError",
    "Loss",
    "Mask",
    "Memory",
    "Model",
    "ModelError",
    "NotFoundError",
    "Operator",
    "OperatorTime",
    "Picture",
    "Plan",
    "PlanError",
    "PluginError",
    "Profile",
    "Report",
    "Scales",
    "TensorInfo",
    "TimeoutError",
    "__version__",
    "build",
    "cache_folder",
    "calibrate",
    "classify",
    "clear_cache",
    "command",
    "compile",
    "detect",
    "devices",
    "draw",
    "load",
    "main",
    "operators",
    "segment",
    "verify",
]

_aio.register()
_compile.register()
_notebook.register()
_signatures.register()
