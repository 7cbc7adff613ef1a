"""The package itself: types, documentation, import time, licences, and notebooks."""

import importlib.util
import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import ixion
import pytest

HERE = Path(__file__).parent
SETTINGS = HERE / "mypy.ini"
PYRIGHT = ["pyright", f"--pythonpath={sys.executable}"]
# The folder that has the package.
FOLDER = Path(ixion.__file__).parents[1]
MISUSE = """
import ixion

ixion.load(3)
ixion.load("x.param", layouts=1)
ixion.build("x.param").save()
ixion.compile(print)
ixion.no_such_name
"""


def run(checker: list[str], cwd: Path) -> subprocess.CompletedProcess:
    """Runs a type checker, which finds the package where this process does."""
    # Site-packages are found anyway, and mypy refuses them here.
    found = {} if FOLDER.name == "site-packages" else {"MYPYPATH": str(FOLDER)}
    return subprocess.run([sys.executable, "-m", *checker], cwd=cwd, env={**os.environ, **found}, capture_output=True, text=True,
                          check=False)


def checked(checker: list[str], cwd: Path) -> subprocess.CompletedProcess:
    """As `run`, if the type checker is there."""
    name = checker[0].split(".")[0]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"needs {name}: pip install {name}")
    if name == "pyright" and run(["pyright", "--version"], cwd).returncode != 0:
        pytest.skip("needs pyright, which downloads the most of it in its first run")
    return run(checker, cwd)


@pytest.mark.parametrize("checker", [["mypy", "--strict", "--cache-dir=cache", f"--config-file={SETTINGS}"], PYRIGHT], ids=["mypy", "pyright"])
def test_type_checkers_know_the_package(checker, tmp_path):
    paths = {} if FOLDER.name == "site-packages" else {"extraPaths": [str(FOLDER)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(paths), encoding="utf-8")
    shutil.copy(HERE / "typed_usage.py", tmp_path)
    (tmp_path / "misuse.py").write_text(MISUSE, encoding="utf-8")
    right = checked([*checker, "typed_usage.py"], tmp_path)
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = checked([*checker, "misuse.py"], tmp_path)
    lines = {line.split(":")[1] for line in wrong.stdout.splitlines() if "error" in line and ":" in line}
    assert wrong.returncode == 1 and lines >= {"4", "5", "6", "7", "8"}, wrong.stdout


@pytest.mark.parametrize("checker", [["mypy"], PYRIGHT], ids=["mypy", "pyright"])
def test_the_package_is_typed_itself(checker, tmp_path):
    """With the settings of pyproject.toml."""
    cache = [f"--cache-dir={tmp_path}"] if checker == ["mypy"] else []
    done = checked([*checker, *cache], HERE.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_are_those_of_the_extension():
    """Every function and class has the signature that it says."""
    settings = [f"--allowlist={HERE / 'stubtest.txt'}", f"--mypy-config-file={SETTINGS}", "--ignore-unused-allowlist"]
    done = checked(["mypy.stubtest", "ixion", *settings], HERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_list_what_exists():
    folder = resources.files("ixion")
    assert (folder / "py.typed").is_file()
    stub = (folder / "_ixion.pyi").read_text(encoding="utf-8")
    from ixion import _ixion
    public = [name for name in vars(_ixion) if not name.startswith("_")]
    known = set(re.findall(r"^(?:async )?(?:def|class) (\w+)", stub, re.M)) | set(re.findall(r"^(\w+):", stub, re.M))
    assert not [name for name in public if name not in known]
    for kind in (ixion.Model, ixion.Plan, ixion.Context):
        (body,) = re.findall(rf"^class {kind.__name__}\b.*?(?=^class |^def |\Z)", stub, re.M | re.S)
        missing = [name for name in vars(kind) if not name.startswith("_") and not re.search(rf"\b{name}\b", body)]
        assert not missing, f"{kind.__name__}: {missing}"


def test_everything_public_is_documented():
    for name in ixion.__all__:
        found = getattr(ixion, name)
        for member in vars(found) if inspect.isclass(found) else ():
            if not member.startswith("_"):
                # Attributes may be listed in the documentation of their class.
                assert inspect.getdoc(getattr(found, member)) or member in (found.__doc__ or ""), f"ixion.{name}.{member}"


def test_what_is_public_is_of_the_package():
    for name in ixion.__all__:
        module = getattr(getattr(ixion, name), "__module__", "ixion")
        assert module == "ixion" or inspect.isbuiltin(getattr(ixion, name)), f"ixion.{name} is of {module}"
    for method in (ixion.Model.run_async, ixion.Model.clear, ixion.Model.timeline):
        assert method.__module__ == "ixion" and method.__qualname__.startswith("Model.")
    assert ixion.__all__ == sorted(ixion.__all__)


def test_errors_keep_what_they_know_when_they_are_pickled():
    error = ixion.CompileError("text", [ixion.Loss("lost", "section", (("file.py", 3),))])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ixion.CompileError and str(again) == "text" and again.losses == error.losses
    assert isinstance(again, ixion.ModelError) and str(again.losses[0]).startswith('lost\n    file.py:3\n    see "section" on ')
    page = re.search(r'the page "(.+)" \((\w+\.md)\) of Ixion', str(again.losses[0]))
    book = HERE.parents[2] / "book/src" / page[2]
    assert not book.parent.is_dir() or book.read_text(encoding="utf-8").startswith(f"# {page[1]}\n")
    many = ixion.Loss("lost", places=tuple(("absent.py", line) for line in range(5)))
    assert str(many).endswith("absent.py:2\n    and 2 more lines")


def test_signatures_are_those_of_the_documentation():
    assert list(inspect.signature(ixion.load).parameters)[:3] == ["path", "threads", "precision"]
    assert "ranges" in inspect.signature(ixion.load).parameters


def test_calls_have_signatures(digits):
    for called in (digits, digits.context()):
        assert str(inspect.signature(called)) == "(*inputs, out=None, timeout=None, **named)"
        assert "(*inputs, out=None, timeout=None, **named)" in type(called).__doc__
    assert list(inspect.signature(ixion.Model).parameters) == ["plan"]


def test_importing_loads_nothing_that_is_optional():
    names = ("torch", "pnnx", "ml_dtypes", "jax", "asyncio", "tqdm", "matplotlib")

    def loaded_by(module: str) -> str:
        code = f"import sys, {module}; print([name for name in {names} if name in sys.modules])"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    # What NumPy loads itself is not counted.
    assert loaded_by("ixion") == loaded_by("numpy")


def test_the_wheel_has_metadata_and_licences():
    try:
        found = metadata.metadata("ixion")
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed from a wheel")
    assert found["Version"] == ixion.__version__ and "Apache" in str(found) and "MIT" in str(found)
    assert any(entry.name == "ixion" for entry in metadata.entry_points(group="console_scripts"))
    files = [str(file) for file in metadata.files("ixion") or []]
    if any(file.endswith(".pth") for file in files):
        pytest.skip("the package is not installed from a wheel")
    assert any("LICENSE" in file for file in files)
    # In the sources, this is a link to the script that exports models.
    assert "ixion/_export.py" in files and (FOLDER / "ixion/_export.py").stat().st_size > 10_000


NOTEBOOK = '''
import ixion
model = ixion.load({path!r})
model
----
import numpy as np
profile = model.profile(np.zeros((1, 1, 8, 8), np.float32), runs=1)
profile
----
assert "image/svg+xml" in get_ipython().display_formatter.format(profile)[0]
assert (await model.run_async(np.zeros((2, 1, 8, 8), np.float32))).shape == (2, 10)
'''


def test_a_notebook_runs_and_shows_pictures(digits_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [nbformat.v4.new_code_cell(cell.strip()) for cell in NOTEBOOK.format(path=str(digits_path)).split("----")]
    notebook = nbclient.execute(nbformat.v4.new_notebook(cells=cells), kernel_name="python3", timeout=120)
    assert "image/svg+xml" in notebook.cells[1].outputs[0].data
