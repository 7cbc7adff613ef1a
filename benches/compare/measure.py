"""Measures one network with all runtimes in turn."""

import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import machine
from .peers import Peer
from .process import PeerError, Process

WARM_UP = 0.3
"""The length of the warm-up, as a share of a turn."""
FEWEST = 3
"""The minimum number of warm-up runs."""


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference relative to the largest magnitude. Axes of length 1 may be missing, as with ncnn."""
    if found.size != wanted.size:
        raise PeerError(f"expected an output of shape {wanted.shape}, got {found.shape}")
    found, wanted = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    if not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def noise(found: np.ndarray, wanted: np.ndarray) -> float:
    """The root mean square of the differences relative to that of the output."""
    found, wanted = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))


def start(peer: Peer, folder: Path, threads: int, scratch: Path) -> tuple[Process, dict]:
    """Loads a network, runs it once and compares its output."""
    for file in peer.files(folder):
        if not file.is_file():
            raise PeerError(f"{file.name} does not exist; see the reason in made.json or int8.json")
    with machine.pinned(machine.cores()[:threads]):
        process = Process(peer.command_for(folder), threads)
    try:
        before = process.peak_megabytes()
        result = {"load_ms": process.load(peer.files(folder)[0], [folder / "in_0.npy"]), "first_ms": process.run(1)[0],
                  "megabytes_before": before}
        output = scratch / "out.npy"
        process.ask("output", output)
        found, wanted = np.load(output), np.load(folder / "out_0.npy")
        result |= {"difference": difference(found, wanted), "noise": noise(found, wanted)}
        output.unlink()
    except BaseException:
        process.close()
        raise
    return process, result


def warm_up(process: Process, seconds: float) -> int:
    """Runs for a while; returns how many runs fill a turn."""
    times = process.run(FEWEST)
    while sum(times) < 1e3 * WARM_UP * seconds:
        times += process.run(len(times))
    return max(1, round(1e3 * seconds / statistics.median(times)))


def summarise(minima: list[float], medians: list[float]) -> dict:
    """`ms` is the median over rounds of the fastest run of each; `spread` is their range relative to it."""
    middle = statistics.median(minima)
    return {"ms": middle, "spread": (max(minima) - min(minima)) / middle, "median_ms": statistics.median(medians),
            "round_minima_ms": minima, "round_medians_ms": medians}


def measure(peers: list[Peer], folder: Path, threads: int, rounds: int, seconds: float, tolerance: float,
            scratch: Path, say: Callable[[str], None]) -> dict[str, dict]:
    """The measurements of each peer, or the `reason` why there are none."""
    results: dict[str, dict] = {}
    running: dict[str, tuple[Process, int]] = {}
    minima: dict[str, list[float]] = {}
    medians: dict[str, list[float]] = {}

    def failed(name: str, reason: str, status: str = "failed") -> None:
        results[name] = results.get(name, {}) | {"status": status, "reason": reason}
        say(f"{name}: {status}: {reason}")
        if name in running:
            running.pop(name)[0].close()

    try:
        for peer in peers:
            try:
                process, results[peer.name] = start(peer, folder, threads, scratch)
                running[peer.name] = process, 1
                if not results[peer.name]["difference"] <= tolerance:
                    failed(peer.name, f"{results[peer.name]['difference']:.1e} from PyTorch's output", "wrong")
                    continue
                running[peer.name] = process, warm_up(process, seconds)
                results[peer.name]["status"] = "fine"
            except PeerError as error:
                failed(peer.name, str(error))
        for turn in range(rounds):
            say(f"round {turn + 1} of {rounds}")
            for name, (process, count) in list(running.items()):
                try:
                    times = process.run(count)
                except PeerError as error:
                    failed(name, str(error))
                    continue
                minima.setdefault(name, []).append(min(times))
                medians.setdefault(name, []).append(statistics.median(times))
        for name, (process, count) in running.items():
            results[name] |= summarise(minima[name], medians[name])
            results[name] |= {"runs": count, "megabytes": process.peak_megabytes(), "idle": process.idle()}
    finally:
        for process, _ in running.values():
            process.close()
    return results
