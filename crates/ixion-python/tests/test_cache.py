"""The cache of exported models: entries are whole or absent, damaged ones are replaced, old ones make room, and nothing else goes."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ixion
import pytest
from ixion import _cache

KEY = "0123456789abcdef" * 2
OTHERS = [f"{number:032x}" for number in range(3)]


def model(content: str = "text", size: int = 10):
    """Writes a model of this text, and an archive of this size."""
    def write(draft: Path) -> None:
        (draft / _cache.PARAM).write_text(content)
        (draft / _cache.ARCHIVE).write_bytes(bytes(size))
    return write


def test_an_entry_is_found_again(tmp_path):
    assert _cache.find(tmp_path, KEY) is None
    param = _cache.store(tmp_path / "new", KEY, model())
    assert _cache.find(tmp_path / "new", KEY) == param and param.read_text() == "text"
    assert os.listdir(tmp_path / "new") == [KEY]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of Unix")
def test_an_entry_is_for_whoever_may_read_the_folder(tmp_path):
    before = os.umask(0o022)
    try:
        param = _cache.store(tmp_path, KEY, model())
    finally:
        os.umask(before)
    assert param.parent.stat().st_mode & 0o777 == 0o755


def test_an_export_that_fails_leaves_nothing(tmp_path):
    def fail(draft: Path) -> None:
        (draft / _cache.PARAM).write_text("half")
        raise RuntimeError("crash")
    with pytest.raises(RuntimeError):
        _cache.store(tmp_path, KEY, fail)
    assert os.listdir(tmp_path) == [] and _cache.find(tmp_path, KEY) is None


@pytest.mark.parametrize("name, content", [(_cache.PARAM, b"te"), (_cache.ARCHIVE, None), (_cache.NOTE, b"{"), (_cache.NOTE, b"[]"),
                                           (_cache.NOTE, b"\xff"), (_cache.NOTE, b"{}"), (_cache.NOTE, None)])
def test_a_damaged_entry_is_none_and_is_replaced(tmp_path, name, content):
    _cache.store(tmp_path, KEY, model())
    damaged = tmp_path / KEY / name
    damaged.unlink() if content is None else damaged.write_bytes(content)
    assert _cache.find(tmp_path, KEY) is None
    assert _cache.store(tmp_path, KEY, model("anew")).read_text() == "anew"
    assert _cache.find(tmp_path, KEY) is not None


def test_writers_at_once_agree(tmp_path):
    def slowly(draft: Path) -> None:
        time.sleep(0.01)
        model()(draft)
    with ThreadPoolExecutor(8) as pool:
        found = [it.result() for it in [pool.submit(_cache.store, tmp_path, KEY, slowly) for _ in range(16)]]
    assert {path.read_text() for path in found} == {"text"} and os.listdir(tmp_path) == [KEY]


def test_entries_that_are_not_used_make_room(tmp_path):
    for age, key in enumerate(OTHERS):
        _cache.store(tmp_path, key, model(size=1000))
        os.utime(tmp_path / key, (time.time() - 1000 * age,) * 2)
    draft, left = (tmp_path / f".ixion-draft-{number:016x}" for number in range(2))
    for folder in (draft, left):
        folder.mkdir()
    os.utime(left, (time.time() - 100_000,) * 2)
    _cache.trim(tmp_path, OTHERS[2], 2500)
    assert sorted(os.listdir(tmp_path)) == sorted([draft.name, OTHERS[0], OTHERS[2]])


def foreign(folder: Path) -> list[str]:
    """Puts into a folder what is not the cache's: old and large, with names that look like those of entries."""
    names = [".config", "project", ".draft-1", "f" * 32, ".ixion-draft-notes"]
    for name in names:
        (folder / name).mkdir()
        (folder / name / "precious").write_bytes(bytes(5000))
        os.utime(folder / name, (0, 0))
    (folder / "file").write_text("precious")
    (folder / ("e" * 32)).symlink_to(folder / "project")
    return [*names, "file", "e" * 32]


def test_what_is_not_of_the_cache_stays(tmp_path):
    names = foreign(tmp_path)
    _cache.store(tmp_path, KEY, model())
    _cache.trim(tmp_path, KEY, 0)
    assert sorted(os.listdir(tmp_path)) == sorted([*names, KEY])
    ixion.clear_cache(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    assert all((tmp_path / name / "precious").is_file() for name in names if name != "file")


def test_what_one_part_ends_with_is_not_what_another_begins_with():
    assert _cache.key_of(b"ab", b"c") != _cache.key_of(b"a", b"bc") != _cache.key_of(b"abc")
    assert _cache.key_of(b"a") == _cache.key_of(memoryview(b"a"))


def test_the_folder_is_that_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", str(tmp_path))
    assert ixion.cache_folder() == tmp_path / "ixion" / "compiled"
    ixion.clear_cache()
    _cache.store(ixion.cache_folder(), KEY, model())
    ixion.clear_cache()
    assert os.listdir(ixion.cache_folder()) == []
    for name in ("LOCALAPPDATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert ixion.cache_folder() is None
    ixion.clear_cache()
