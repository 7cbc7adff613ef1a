"""A program that uses the package as its users do. Type checkers read it; nothing runs it."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import ixion
import numpy as np
from numpy.typing import NDArray


def models(path: Path, x: NDArray[np.float32]) -> None:
    model: ixion.Model = ixion.load(path, threads=2, precision=["bf16"], image=("n", 3, None, 224))
    ixion.load("x.param", limits={"memory": "2G", "timeout": 60}, plugins="libmine.so", use={"nn.Conv2d": "acme/Conv/1"})
    ixion.load("x.plan", map=True, verify=True)
    ixion.load("x.param", shapes={"threads": "n,3"}, image=[(1, 3, 64, 64), (1, 3, 224, 224), (8, 3, 512, 512)])
    file: Optional[Path] = model.path
    y = model(x, out=np.zeros(3), timeout=1.5)
    first, second = model({"x": x}), model(x=x)
    print(y, first, second, file, model.card, model.threads, model.warnings, model.losses)
    for info in (*model.inputs, *model.outputs):
        name: str = info.name
        shape: Optional[tuple[object, ...]] = info.shape
        print(name, shape, info.dtype, info.sample, {info: 1})
    context: ixion.Context = model.context()
    context(x)
    context.cancel()
    context.clear()
    print(context.arena_bytes, len(model.timeline(x, top=5)))


def plans(path: str) -> ixion.Plan:
    plan: ixion.Plan = ixion.build(path, threads=0, layouts="plain", tune=True)
    plan.save(Path("x.plan"))
    data: bytes = plan.to_bytes()
    again = ixion.Plan.from_bytes(memoryview(data), threads=2)
    print(ixion.Model(again).plan.weight_bytes + plan.operator_count)
    return ixion.Plan.load("x.plan", map=True)


def profiles(model: ixion.Model, x: NDArray[np.float32]) -> float:
    profile: ixion.Profile = model.profile(x, runs=3)
    slowest: ixion.OperatorTime = max(profile.operators, key=lambda operator: operator.seconds)
    print(slowest.name, slowest.share, profile.types[0].type, profile.settings, len(profile.timeline))
    return profile.seconds


async def awaiting(model: ixion.Model, x: NDArray[np.float32]) -> Sequence[Any]:
    return await asyncio.gather(model.run_async(x), model.run_async({"x": x}, timeout=1))


def compiling(module: Any, x: Any) -> ixion.Model:
    try:
        fast = ixion.compile(module, (x,), dynamic={0: "batch"}, threads=0, progress=None)
        ixion.compile(module, {"ids": x}, dynamic={"ids": {0: "batch", 1: None}}, cache="exports", timeout=600)
        ixion.compile(module, x, dynamic=[{0: "batch"}, None], second_inputs=[x], tolerance=1e-3)
    except ixion.CompileError as error:
        for loss in error.losses:
            message: str = loss.message
            print(message, loss.section, [f"{file}:{line}" for file, line in loss.places])
        raise
    folder: Optional[Path] = ixion.cache_folder()
    ixion.clear_cache(folder)
    return fast


def calibrating(path: Path, samples: list[NDArray[np.float32]]) -> None:
    scales: ixion.Scales = ixion.calibrate(path, samples, method="minmax", least=25)
    scale: float = scales["x"] + scales.get("y", 1.0)
    nothing: Optional[float] = scales.get("z")
    print(scale, nothing, "x" in scales, len(scales), dict(scales.items()), scales.kept, scales.decibels, list(scales))
    scales.save("x.json")
    ixion.load(path, precision="int8", scales=ixion.Scales.load("x.json"))


def verifying() -> bool:
    report: ixion.Report = ixion.verify(["a", Path("b")], tolerance=1e-3, interpret="optimised", precision=["bf16"])
    for case in report.cases:
        print(case.name, case.verdict, case.reason, case.max_abs_diff, bool(case))
    return bool(report) and report.passed == len(report)


def seeing(model: ixion.Model, pixels: NDArray[np.uint8]) -> None:
    best: ixion.Class = ixion.classify(model, "7.png", top=3)[0]
    all_best: list[list[ixion.Class]] = ixion.classify(model, [pixels, b"...", ixion.Picture("7.png")])
    objects: list[ixion.Detection] = ixion.detect(model, Path("street.jpg"), confidence=0.5)
    left, top, right, bottom = objects[0].box
    mask: ixion.Mask = ixion.segment(model, pixels)
    print(best.label, best.score, all_best, left, top, right, bottom, mask.counts, np.asarray(mask).shape)
    drawn: ixion.Picture = ixion.draw(ixion.draw("street.jpg", objects), mask)
    drawn.save("found.png")
    print(drawn.to_numpy().shape, drawn.height, drawn.width, drawn.channels)


def knowing() -> int:
    for operator in ixion.operators("conv", plugins=["libmine.so"]):
        print(operator.type, operator.doc, [f"{field.key}={field.default}" for field in operator.fields])
    logging.getLogger("ixion").setLevel(logging.ERROR)
    known: list[ixion.Device] = ixion.devices()
    survey: Any = ixion.command("inspect", Path("x.param"), "--top", 3)
    print(survey, known[0].name, ixion.__version__)
    return ixion.main(["devices"])


def failing(model: ixion.Model) -> str:
    try:
        model()
    except ixion.InputError as error:
        return str(error)
    except (ixion.TimeoutError, ixion.Cancelled, ixion.LimitError):
        return "ended"
    except ixion.Error as error:
        raise RuntimeError from error
    return "no error"
