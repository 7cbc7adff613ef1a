"""The machine, and the cores that are used."""

import os
import platform
import time
from datetime import datetime, timezone
from pathlib import Path

SIMD = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512", "amx", "asimd", "sve", "bf16", "i8mm")


def cpuinfo() -> dict[str, str]:
    """Linux's entry of the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def describe() -> dict:
    """The processor, its instruction sets and the date, for the report."""
    info = cpuinfo()
    flags = info.get("flags", info.get("Features", "")).split()
    return {
        "processor": info.get("model name") or platform.processor() or platform.machine(),
        "features": [flag for flag in flags if flag.startswith(SIMD)],
        "cores": len(cores()) or os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def ticks() -> tuple[int, int]:
    """Idle and total time of the cores that this process may use, in clock ticks."""
    wanted = {f"cpu{core}" for core in cores()}
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    # user nice system idle iowait irq softirq steal; guests are part of user.
    times = [list(map(int, line.split()[1:9])) for line in lines if line.split()[0] in wanted]
    return sum(line[3] + line[4] for line in times), sum(map(sum, times))


def busy(seconds: float = 0.5) -> float | None:
    """The share of the cores used by other processes, measured while this one sleeps; None if unknown."""
    try:
        before = ticks()
        time.sleep(seconds)
        idle, total = (after - earlier for after, earlier in zip(ticks(), before))
        return 1 - idle / total
    except (OSError, ValueError, ZeroDivisionError):
        return None


def cores() -> list[int]:
    """The cores that this process may use: first one thread of each, then their siblings. Empty if unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    seen: dict[str, int] = {}

    def turn(core: int) -> tuple[int, int]:
        try:
            path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
            siblings = path.read_text(encoding="ascii")
        except OSError:
            siblings = str(core)
        seen[siblings] = seen.get(siblings, -1) + 1
        return seen[siblings], core

    return [core for _, core in sorted(turn(core) for core in sorted(os.sched_getaffinity(0)))]


class pinned:
    """A context in which new processes run only on these cores."""

    def __init__(self, wanted: list[int]):
        self.wanted = wanted

    def __enter__(self) -> None:
        if self.wanted:
            self.before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, self.wanted)

    def __exit__(self, *_) -> None:
        if self.wanted:
            os.sched_setaffinity(0, self.before)
