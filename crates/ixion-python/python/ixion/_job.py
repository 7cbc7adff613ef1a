"""The work of `ixion.compile`: exporting a module with PNNX, building the result, and comparing it with PyTorch.

This is not imported before it is needed, since the standard library's modules that it needs take longer than all others.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import io
import json
import logging
import math
import os
import re
import signal
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _cache, _hints, _names
from ._compare import Tolerance, difference
from ._compile import CompileError, Loss
from ._ixion import Error, InputError, Model, ModelError, NotFoundError, Plan, TimeoutError, __version__, build, command
from ._samples import Dynamic, axes_of, check_lengths, checked, described, groups_of, second, shapes_of, text_of, without_names

if TYPE_CHECKING:
    import torch
    from torch import Tensor

LOG = logging.getLogger("ixion.compile")
# PyTorch's tracer and its settings are those of the process.
TRACING = threading.RLock()
OF_FILES = ("bin", "random_weights", "map", "verify")
"""Options that concern files that exist."""
STEPS = 3
"""The steps of which progress is reported: tracing; exporting; building and comparing."""


def compiled(
    module: Any,
    example_inputs: Any,
    dynamic: Dynamic,
    second_inputs: Any,
    cache: bool | str | os.PathLike[str],
    tolerance: float | None,
    timeout: float | None,
    progress: Any,
    options: dict[str, Any],
) -> Model:
    """As `ixion.compile`."""
    tools = _tools()
    _check_timeout(timeout)
    allowed = Tolerance.of(tolerance, options.get("precision"))
    job = _Job(tools, module, example_inputs, dynamic, second_inputs, timeout)
    _check_options(options, job.input_names or ())
    with _ending_by_signal(), _folder(cache) as folder, _steps(progress) as step, TRACING, job.prepared():
        step()
        param, is_old = job.exported(folder)
        step()
        try:
            model = job.checked(param, allowed, options)
        except CompileError:
            # The files may have been damaged since they were kept, or removed by another process: the export is repeated once.
            if param.is_file() and not is_old:
                raise
            _cache.remove(folder, job.key)
            param, _ = job.exported(folder)
            model = job.checked(param, allowed, options)
        step()
    for loss in model.losses:
        LOG.warning("PNNX may have lost: %s", loss)
    return model


@contextlib.contextmanager
def _ending_by_signal() -> Iterator[None]:
    """Ends PNNX and removes temporary files before SIGTERM ends the process, unless the program handles the signal itself.

    Only the main thread of Python can do so.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    received: list[int] = []

    def end(number: int, _: object) -> None:
        received.append(number)
        # Nothing takes this for an error that it could handle.
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for number in received[:1]:
            signal.raise_signal(number)


def _tools() -> Any:
    """The search for what PNNX loses; it needs PyTorch."""
    for package, name in (("torch", "PyTorch"), ("pnnx", "PNNX")):
        if importlib.util.find_spec(package) is None:
            raise ImportError(f'ixion.compile needs {name}, which is not installed: pip install "ixion[torch]"', name=package)
    from . import _export

    return _export


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise InputError(f"`timeout` must be a number of seconds above 0, such as 600, but is {described(timeout)}")


def _check_options(options: dict[str, Any], inputs: Sequence[str]) -> None:
    """Checks options before minutes are spent on the export."""
    known = _hints.keywords("load")
    for name in sorted(options.keys() - set(known)):
        # An input may have another name in the file than in the module.
        if name.rstrip("_") not in inputs and name not in inputs and re.fullmatch(r"pnnx_input_\d+", name) is None:
            hint = _hints.hint(name, [*known, *_hints.keywords("compile"), *inputs])
            which = f"; its inputs are {_hints.listed([f'`{it}`' for it in inputs])}" if inputs else ""
            advice = f"\n  hint: {hint}" if hint else ""
            raise InputError(f"`{name}` is neither an option nor an input of the module{which}{advice}")
    for name in OF_FILES:
        if options.get(name) is not None and options[name] is not False:
            raise InputError(f"`{name}` is for files that exist; a module is compiled without it")
    with tempfile.TemporaryDirectory(prefix="ixion-") as folder:
        try:
            build(Path(folder, "absent.pnnx.param"), **options)
        except NotFoundError as error:
            if folder not in str(error):
                raise


@contextlib.contextmanager
def _folder(cache: bool | str | os.PathLike[str]) -> Iterator[Path]:
    """The folder for exported files; a temporary one if none are kept."""
    if not isinstance(cache, (bool, str, os.PathLike)):
        raise InputError(f"`cache` must be True, False or the path of a folder, but is {described(cache)}")
    folder = _cache.user_folder() if cache is True else Path(cache) if cache else None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            if cache is not True:
                raise InputError(f"`cache`: nothing can be written to {folder}: {error}") from error
            LOG.info("%s: cannot keep exported files: %s", folder, error)
            folder = None
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="ixion-") as temporary:
        yield Path(temporary)


@contextlib.contextmanager
def _steps(progress: Any) -> Iterator[Any]:
    """A function to call after each step, which moves a bar by the conventions of tqdm."""
    if progress is None:
        yield lambda: None
        return
    if not callable(progress):
        raise InputError(f"`progress` must be callable, such as tqdm.tqdm, but is {described(progress)}")
    bar: Any = progress(total=STEPS)
    try:
        yield lambda: bar.update(1)
    finally:
        bar.close()


class _Job:
    """The compilation of a module."""

    def __init__(self, tools: Any, module: Any, inputs: Any, dynamic: Dynamic, second_inputs: Any, timeout: float | None) -> None:
        self.tools, self.timeout = tools, timeout
        values, keywords = without_names(inputs, "example_inputs")
        first = checked(values, "example_inputs", tools.TYPES)
        self.input_names = keywords or _names.of_parameters(getattr(module, "forward", module), len(first))
        self.name = _names.of_module(module)
        self.keys: tuple[str, ...] | None = None
        self.module = _as_module(module, keywords)
        self.axes = axes_of(dynamic, first, self.input_names)
        groups = groups_of(self.axes, first)
        self.samples = [first]
        if second_inputs is not None:
            self.samples.append(second(second_inputs, first, self.input_names, tools.TYPES))
            if groups:
                check_lengths(first, self.samples[1], self.axes)
                groups_of(self.axes, self.samples[1])
        elif groups:
            with self.failing():
                self.samples.append(tools.longer(first, [tools.Group(group) for group in groups]))

    @contextlib.contextmanager
    def failing(self) -> Iterator[None]:
        """Raises errors of the export as errors of this package."""
        try:
            yield
        except self.tools.ExportError as error:
            raise CompileError(str(error)) from error.__cause__

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Runs and traces the module in evaluation mode, and leaves it as it was."""
        import torch

        training = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            with torch.no_grad(), self.tools.without_fast_path(), self.failing(), warnings.catch_warnings():
                # PNNX reads TorchScript, of which PyTorch says that it is deprecated.
                for category in (FutureWarning, DeprecationWarning):
                    warnings.filterwarnings("ignore", r"`torch\.jit\.", category)
                self.masks: list[Any] = []
                with self.tools.watching_masks(self.module, self.masks):
                    self.wanted = self.results()
                self.traced = self.tools.traced(self.module, self.samples[0])
                self.key = self.fingerprint()
                yield
        finally:
            for part in training:
                part.training = True

    def results(self) -> list[list[Tensor]]:
        """PyTorch's outputs for each sample, which share no memory with the inputs."""
        returned = self.run(self.samples[0])
        wanted = [self.tensors_of(returned)]
        if not wanted[0]:
            raise CompileError("the module returns no tensor")
        self.keys = _names.of_results(returned)
        if not _names.is_flat(returned):
            self.module = _names.adapted(self.module, flatten=self.tools.flatten)
        return wanted + [self.tensors_of(self.run(sample)) for sample in self.samples[1:]]

    def tensors_of(self, returned: object) -> list[Tensor]:
        return list(self.tools.copied(self.tools.flatten(returned)))

    def run(self, inputs: Sequence[Tensor]) -> Any:
        """What the module returns."""
        try:
            return self.module(*self.tools.copied(inputs))
        except self.tools.ExportError:
            raise
        except Exception as error:
            advice = ""
            if inputs is not self.samples[0] and any(self.axes):
                advice = "\n  give axes that always have the same length the same name, or a second sample by `second_inputs`"
            raise CompileError(f"the module fails on {text_of(inputs)}: {error}{advice}") from error

    def fingerprint(self) -> str:
        """A hash of the code that was traced, the weights, the samples' shapes, all names, and all versions."""
        import torch

        graph = self.traced.inlined_graph
        # The numbers of types depend on what else was traced in this process.
        code = re.sub(r"\.?___torch_mangle_\d+", "", graph.str(False))
        constants = [self.tools.constant(node.output()) for node in self.tools.nodes_of(graph) if node.kind() == "prim::Constant"]
        tensors = [*self.traced.named_parameters(), *self.traced.named_buffers()]
        tensors += [("", value) for value in constants if isinstance(value, torch.Tensor)]
        versions = [__version__, torch.__version__, _version_of("pnnx")]
        about = [versions, [text_of(sample) for sample in self.samples], self.input_names, self.name, self.keys]
        parts: list[bytes | memoryview] = [json.dumps(about).encode(), code.encode("utf-8", "surrogateescape")]
        for name, tensor in tensors:
            parts += [f"{name} {text_of([tensor])}".encode(), _bytes_of(tensor)]
        # Attributes of scripts are not in the graph; what is saved has them, and names that depend on other traces.
        if any(isinstance(part, torch.jit.ScriptModule) for part in self.module.modules()):
            saved = io.BytesIO()
            torch.jit.save(self.traced, saved)
            parts.append(saved.getvalue())
        return _cache.key_of(*parts)

    def exported(self, folder: Path) -> tuple[Path, bool]:
        """The `.param` file, and whether it was there already."""
        found = _cache.find(folder, self.key)
        if found is not None:
            LOG.debug("%s: exported before", found)
            return found, True
        try:
            param = _cache.store(folder, self.key, self.export)
        except Error:
            # Some of them are errors of the system as well.
            raise
        except OSError as error:
            raise CompileError(f"{folder}: cannot write the exported files: {error}") from error
        LOG.debug("%s: exported", param)
        return param, False

    def export(self, draft: Path) -> None:
        """Runs PNNX, and searches for what it loses meanwhile."""
        try:
            with self.tools.pnnx_running(self.traced, self.samples, [], draft / self.name, self.timeout):
                # For later.
                _ = self.losses
        except subprocess.TimeoutExpired as error:
            message = f"PNNX took longer than {self.timeout} seconds, and was ended; a larger `timeout` lets it go on"
            raise TimeoutError(message) from error
        except self.tools.ExportError as error:
            # PNNX says little when it crashes.
            causes = self.tools.crash_causes(self.module, self.samples[0], self.traced.inlined_graph)
            known = (*map(_from_tools, causes), *self.losses)
            perhaps = "".join(f"\n  perhaps: {loss}" for loss in known)
            raise CompileError(f"{error}{perhaps}", known) from error.__cause__
        _names.rename(draft / f"{self.name}{_cache.PARAM}", self.input_names or (), self.keys)

    @functools.cached_property
    def losses(self) -> tuple[Loss, ...]:
        """What PNNX is known to lose of the module. Nothing of this is kept, since lines of the module change."""
        tools, samples = self.tools, self.samples
        graph = self.traced.inlined_graph
        other = tools.traced(self.module, samples[1]).inlined_graph if len(samples) > 1 else None
        conversions = [tools.Conversions.during_trace(self.module, sample) for sample in samples]
        found = tools.merged(self.masks) + tools.frozen(conversions[0], conversions[1] if len(samples) > 1 else None)
        found += tools.Search(graph, other).losses()
        found += tools.states_in_order(self.traced) + tools.constant_masks(self.traced)
        found += tools.norms_without_bias(self.module) + tools.weight_norms(self.module)
        return tuple(map(_from_tools, found))

    def checked(self, param: Path, allowed: Tolerance, options: dict[str, Any]) -> Model:
        """Builds the model, and compares its outputs with PyTorch's for all samples."""
        with _without_warnings():
            model = Model(self.built(param, options))
        problems = [self.compare(model, *pair, allowed) for pair in zip(self.samples, self.wanted)]
        found = [f"{text_of(sample)}: {problem}" for sample, problem in zip(self.samples, problems) if problem]
        if found:
            text = "the compiled model does not give PyTorch's results:\n  " + "\n  ".join(found)
            raise self.failure(text, param, options)
        if self.keys is not None:
            model.plan._set_keys(self.keys)
        model.losses = self.all_losses(param, options) if model.warnings else self.losses
        model.__dict__["_text"] = param.read_text(encoding="utf-8", errors="replace")
        return model

    def built(self, param: Path, options: dict[str, Any]) -> Plan:
        """The plan, with the names of dynamic axes unless the caller gives shapes."""
        names = _names.inputs_of(param)
        has_shapes = "shapes" in options or any(name in options for name in names)
        if not has_shapes and any(self.axes) and len(names) == len(self.axes):
            options = {**options, "shapes": dict(zip(names, shapes_of(self.samples[0], self.axes)))}
        try:
            return build(param, **options)
        except ModelError as error:
            raise self.failure(str(error), param, options) from error
        except InputError as error:
            # Shapes of the caller may not fit the model; others fit the module.
            if has_shapes:
                raise
            raise self.failure(str(error), param, options) from error

    def compare(self, model: Model, inputs: Sequence[Tensor], wanted: Sequence[Tensor], allowed: Tolerance) -> str | None:
        """What is wrong with the outputs, if anything is."""
        import torch

        given = [tensor.detach().resolve_conj().resolve_neg().contiguous() for tensor in inputs]
        try:
            returned = model(*given)
        except (InputError, ModelError) as error:
            return str(error)
        found = returned if isinstance(returned, tuple) else (returned,)
        if len(found) != len(wanted):
            return f"{len(found)} outputs instead of {len(wanted)}"
        problems = [difference(torch.as_tensor(it), reference, allowed) for it, reference in zip(found, wanted)]
        return "; ".join(f"output {place}: {problem}" for place, problem in enumerate(problems) if problem) or None

    def failure(self, message: str, param: Path, options: dict[str, Any]) -> CompileError:
        losses = self.all_losses(param, options)
        found = "".join(f"\n  lost: {loss}" for loss in losses)
        return CompileError(message + (found or "\n  Nothing was found that PNNX is known to lose."), losses)

    def all_losses(self, param: Path, options: dict[str, Any]) -> tuple[Loss, ...]:
        """What was found in the module, and what Ixion finds in the file."""
        graph, found = self.traced.inlined_graph, []
        try:
            survey = command("inspect", param, *_plugins_of(options))
        except (InputError, ModelError):
            return self.losses
        for warning in survey.get("warnings", ()):
            # Without the place in a file that nobody knows.
            message = re.sub(rf"^{re.escape(str(param))}:\d+: ", "", warning["message"].split(": PNNX has lost")[0])
            places = self.tools.places_of_operator(graph, warning["type"], warning["operator"], warning.get("recorded"))
            found.append(Loss(message, warning["section"], places))
        for operator in survey["operators"]:
            if operator["state"] in ("unsupported", "refused"):
                why = "Ixion has no such operator" if operator["state"] == "unsupported" else operator["problem"]
                places = self.tools.places_of_operator(graph, operator["type"], operator["name"], None)
                found.append(Loss(f"{operator['type']} `{operator['name']}`: {why}", "", places))
        return (*self.losses, *(loss for loss in found if self.tools.is_new(loss, self.losses)))


def _as_module(given: Any, keywords: Sequence[str] | None) -> torch.nn.Module:
    """The module, which is called with positions."""
    from torch import nn

    if isinstance(given, type) or not callable(given):
        what = f"the class {given.__name__}; create one" if isinstance(given, type) else f"of the type {type(given).__name__}"
        raise InputError(f"`module` must be a torch.nn.Module or a function of tensors, but is {what}")
    module: nn.Module = given if isinstance(given, nn.Module) and not keywords else _names.adapted(given, keywords)
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type != "cpu":
            raise InputError(f"`module`: `{name}` is on {tensor.device}; move the module to the CPU first: module.cpu()")
    return module


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _bytes_of(tensor: Tensor) -> memoryview:
    """The elements of a tensor, in their order."""
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return memoryview(plain.view(torch.uint8).numpy())


def _from_tools(found: Any) -> Loss:
    return Loss(found.message, found.section, found.places)


def _plugins_of(options: dict[str, Any]) -> list[str]:
    """The plugins as words of the command line."""
    plugins = options.get("plugins") or ()
    paths = [plugins] if isinstance(plugins, (str, os.PathLike)) else list(plugins)
    return [f"--plugin={os.fspath(path)}" for path in paths]


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Keeps warnings about a file out of the log in this thread: they are reported with lines of the module."""
    thread, logger = threading.get_ident(), logging.getLogger("ixion")

    def is_other(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno != logging.WARNING

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
