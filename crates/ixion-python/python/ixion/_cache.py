"""Exported models, kept in the user's folder for caches.

Each entry is a folder of its own, named after a hash of everything that the export depends on. It is written under another name
and then renamed, so that a reader finds all of an entry or nothing, also if several processes write the same one. Whatever else
the folder has stays untouched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MOST = 4 << 30
"""Entries that were not used for the longest time are removed beyond this number of bytes."""
PARAM, ARCHIVE, NOTE = ".pnnx.param", ".pnnx.bin", "entry.json"
"""The ends of the files' names, which begin with that of the model; and the file with their sizes."""
KEY = re.compile(r"[0-9a-f]{32}")
DRAFT = re.compile(r"\.ixion-draft-[0-9a-f]{16}")
DAY = 86400.0
ATTEMPTS = 3


def user_folder() -> Path | None:
    """The folder of all entries, in that of the user's caches; None if the environment names none."""
    def variable(name: str) -> Path | None:
        return Path(os.environ[name]) if os.environ.get(name) else None

    if sys.platform == "win32":
        base = variable("LOCALAPPDATA")
    else:
        home = variable("HOME")
        below = "Library/Caches" if sys.platform == "darwin" else ".cache"
        base = variable("XDG_CACHE_HOME") or (home / below if home else None)
    return base / "ixion" / "compiled" if base else None


def key_of(*parts: bytes | memoryview) -> str:
    """A name for what these bytes describe. Where one part ends and another begins makes a difference."""
    digest = hashlib.sha256()
    for part in parts:
        size = part.nbytes if isinstance(part, memoryview) else len(part)
        digest.update(size.to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()[:32]


def find(folder: Path, key: str) -> Path | None:
    """The `.param` file of an entry; None if there is no such entry, or if it is damaged."""
    entry = folder / key
    try:
        note = json.loads((entry / NOTE).read_text(encoding="utf-8"))
        if sizes_of(entry) != note["sizes"]:
            return None
        # The time of the last use decides what is removed.
        with contextlib.suppress(OSError):
            os.utime(entry)
        return param_of(entry)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def param_of(entry: Path) -> Path:
    """The `.param` file in a folder. Raises ValueError if there is not just one."""
    (param,) = entry.glob(f"*{PARAM}")
    return param


def sizes_of(entry: Path) -> dict[str, int]:
    param = param_of(entry)
    files = param, param.with_name(param.name[: -len(PARAM)] + ARCHIVE)
    return {file.name: file.stat().st_size for file in files}


def store(folder: Path, key: str, write: Callable[[Path], None]) -> Path:
    """Lets `write` fill a new folder with the model, and makes that the entry. Returns its `.param` file.

    Raises what `write` raises, and OSError if nothing can be written to the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Unlike a temporary folder, an entry is for everybody who may read the folder.
    draft = folder / f".ixion-draft-{secrets.token_hex(8)}"
    draft.mkdir()
    try:
        write(draft)
        (draft / NOTE).write_text(json.dumps({"sizes": sizes_of(draft)}), encoding="utf-8")
        name = param_of(draft).name
        settle(draft, folder / key)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    trim(folder, key)
    return folder / key / name


def settle(draft: Path, entry: Path) -> None:
    """Renames a complete folder to its name. An entry of another process is as good, a damaged one is replaced."""
    for attempt in range(ATTEMPTS):
        try:
            os.rename(draft, entry)
        except OSError:
            if find(entry.parent, entry.name) is not None:
                return
            # Another process may write the same entry between these lines.
            if attempt + 1 == ATTEMPTS:
                raise
            remove(entry.parent, entry.name)
        else:
            return


def remove(folder: Path, key: str) -> None:
    """Removes an entry, if there is one."""
    shutil.rmtree(folder / key, ignore_errors=True)


def entries_of(folder: Path) -> Iterator[Path]:
    """The entries in a folder, whole or not, and their drafts."""
    with contextlib.suppress(OSError):
        for entry in sorted(folder.iterdir()):
            is_own = DRAFT.fullmatch(entry.name) or (KEY.fullmatch(entry.name) and (entry / NOTE).is_file())
            if is_own and entry.is_dir() and not entry.is_symlink():
                yield entry


def clear(folder: Path) -> None:
    """Removes all entries, and nothing else."""
    for entry in entries_of(folder):
        shutil.rmtree(entry, ignore_errors=True)


def trim(folder: Path, kept: str, most: int = MOST) -> None:
    """Removes the entries that were not used for the longest time, except `kept`, until the others have `most` bytes."""
    entries = []
    for entry in entries_of(folder):
        with contextlib.suppress(OSError):
            used = entry.stat().st_mtime
            if not DRAFT.fullmatch(entry.name):
                size = sum(file.stat().st_size for file in entry.iterdir())
                entries.append((entry.name == kept, used, size, entry))
            elif time.time() - used > DAY:
                # What was not finished in a day never will be.
                shutil.rmtree(entry, ignore_errors=True)
    total = 0
    for is_kept, _, size, entry in sorted(entries, reverse=True):
        total += size
        if total > most and not is_kept:
            shutil.rmtree(entry, ignore_errors=True)
