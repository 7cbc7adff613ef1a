"""The README of the package, its page of the book, and its licences: programs run, and what the pages name exists.

The blocks of a page run one after the other in one namespace, as a reader would type them. A block whose first line is
```` ```python excerpt ```` is a part of an example: it need only be Python.
"""

import builtins
import importlib.util
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import ixion
import numpy as np
import pytest
from conftest import MODELS, ROOT

PACKAGE = Path(__file__).resolve().parents[1]
README = PACKAGE / "README.md"
BOOK = ROOT / "book/src/python.md"
PAGES = {"README.md": README, "python.md": BOOK}
COMPILES = ("torch", "pnnx", "torchvision")
"""The packages that `ixion.compile` needs, and that of the example. Blocks with it have a test of their own."""


class Block(NamedTuple):
    line: int
    is_excerpt: bool
    code: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of Python, with the numbers of their first lines."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```python( excerpt)?\n(.*?)^```$", text, re.M | re.S):
        yield Block(text.count("\n", 0, found.start(2)) + 1, bool(found[1]), found[2])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the models that the pages name."""
    for name in ("digits", "shapes_detector", "shapes_unet"):
        (tmp_path / name).symlink_to(MODELS / name)
    # What the block of the README with `ixion.compile` writes, where PyTorch is installed.
    network = ixion.build(MODELS / "resnet18/resnet18.pnnx.param", random_weights=0, pnnx_input_0=("n", 3, 224, 224))
    network.save(tmp_path / "resnet18.plan")
    # Exported modules and measured times are kept there.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_programs_of_the_readme_run(folder):
    known = run(README)
    assert known["scores"].shape == (4, 10) and known["y"].shape == (64, 10) and np.abs(known["y"]).max() > 0
    assert [len(result) for result in known["results"]] == [64] * 4
    assert known["best"].label == "7" and known["found"] and known["mask"].counts
    assert (folder / "found.png").stat().st_size and len(known["scales"]) > 5


def test_the_programs_of_the_book_run(folder):
    if not BOOK.is_file():
        pytest.skip("the book is not here: run this in a clone of the repository")
    x = np.load(MODELS / "digits/in_0.npy")
    known = run(BOOK, x=x, frames=[x[:1]] * 3, batches=[x] * 4)
    assert known["y"].shape == (1, 10) and known["scores"].shape == (10, 10)
    assert known["work"](x).shape == (10, 10)


def test_the_program_of_the_readme_that_compiles_a_module_runs(folder):
    missing = [name for name in COMPILES if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"a module cannot be compiled: pip install {' '.join(missing)}")
    (folder / "resnet18.plan").unlink()
    known = run(README, compiles=True)
    assert known["scores"].shape == (8, 1000)
    # The plan of the next program computes the same.
    example = known["example"]
    assert np.array_equal(ixion.load("resnet18.plan")(example), known["fast"](example))


def run(page: Path, compiles: bool = False, **known: object) -> dict:
    """Runs the blocks that compile modules, or all others, and returns what they define. Lines of errors are those of the page."""
    found = [block for block in blocks(page) if ("ixion.compile(" in block.code) == compiles]
    assert found
    for block in found:
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        if not block.is_excerpt:
            exec(code, known)
    return known


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())
def test_what_the_pages_name_exists(page):
    if not page.is_file():
        pytest.skip(f"{page.name} is not here: run this in a clone of the repository")
    text = page.read_text(encoding="utf-8")
    names = set(re.findall(r"\bixion\.([A-Za-z_]\w*)", text))
    assert names and not [name for name in names if not hasattr(ixion, name)]
    errors = set(re.findall(r"`([A-Z]\w*Error|Cancelled)`", text))
    assert errors and not [name for name in errors if not issubclass(getattr(ixion, name, Exception), ixion.Error)
                           and not hasattr(builtins, name)]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES.keys())
def test_links_lead_somewhere(page):
    if not page.is_file():
        pytest.skip(f"{page.name} is not here: run this in a clone of the repository")
    text = page.read_text(encoding="utf-8")
    headings = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.M)}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, place = target.partition("#")
        if ":" not in target:
            assert not file or (page.parent / file).is_file(), target
            assert file or place in headings, target


def test_the_wheel_has_this_readme_and_all_licences():
    try:
        found = metadata.distribution("ixion")
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed: install its wheel")
    if not README.is_file():
        pytest.skip("the README is not here: run this in a clone of the repository")
    assert found.metadata.get_payload().strip() == README.read_text(encoding="utf-8").strip()
    licences = {Path(name).name for name in found.metadata.get_all("License-File")}
    assert licences == {"LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES"}
    installed = {Path(str(file)).name for file in found.files or []}
    assert licences <= installed


def test_every_rust_package_has_its_licence():
    """The file that licenses.py writes: a list of packages, then sections that begin with the packages they are about."""
    listed, *sections = (PACKAGE / "THIRD-PARTY-LICENSES").read_text(encoding="utf-8").split("-" * 100 + "\n")
    packages = re.findall(r"^(\S+ \S+): \S+$", listed, re.M)
    assert {"ndarray", "numpy", "pyo3"} <= {package.split()[0] for package in packages}
    headings, texts = zip(*(section.split("\n\n", 1) for section in sections))
    assert sorted(package for heading in headings for package in heading.split(", ")) == sorted(packages)
    assert all(re.search("copyright|permission", text, re.I) for text in texts)
