"""Notebooks: the example runs from its first cell to its last, shows what it promises, and is stored without outputs."""

import json

import pytest
from conftest import ROOT

NOTEBOOK = ROOT / "examples/notebook/digits.ipynb"


def test_the_example_is_stored_without_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code")


@pytest.fixture(scope="module")
def cells() -> dict:
    """The cells of the example after a run, by their names."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbconvert: pip install nbconvert ipykernel")
    nbconvert = pytest.importorskip("nbconvert.preprocessors", reason="needs nbconvert: pip install nbconvert ipykernel")
    pytest.importorskip("ipykernel", reason="needs ipykernel: pip install ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    run = nbconvert.ExecutePreprocessor(timeout=300, kernel_name="python3")
    run.preprocess(notebook, {"metadata": {"path": str(NOTEBOOK.parent)}})
    return {cell.id: cell for cell in notebook.cells}


def shown(cell) -> dict:
    """What the last line of a cell shows, by type."""
    return cell.outputs[-1].data


def test_the_example_shows_results(cells):
    assert shown(cells["call"])["text/plain"].startswith("((10, 10), array([")
    assert float(shown(cells["compare"])["text/plain"].split("(")[-1].rstrip(")")) < 1e-4
    assert shown(cells["accuracy"])["text/plain"] == "'447 of 450 are right'"
    assert "<ixion.Class 7 " in shown(cells["classify"])["text/plain"]
    assert shown(cells["plan"])["text/plain"] == "True"


def test_the_example_shows_pictures(cells):
    for name in ("draw", "profile"):
        assert "<svg" in shown(cells[name])["image/svg+xml"]
    assert "Conv2d" in cells["profile"].outputs[0].text
