"""`ixion.compile`: from a PyTorch module to a model, through the package pnnx."""

import asyncio
import os
import pickle
import subprocess
import sys
import threading

import ixion
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch and PNNX: pip install torch pnnx")
pytest.importorskip("pnnx", reason="needs PNNX: pip install pnnx")
from torch import nn  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ixion.cache_folder()


def entries(cache) -> list[str]:
    return sorted(os.listdir(cache)) if cache.exists() else []


def network(seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    return nn.Sequential(*layers).eval()


def same(found: object, wanted: "torch.Tensor") -> bool:
    return torch.allclose(torch.as_tensor(np.asarray(found)), wanted, rtol=1e-4, atol=1e-4)


class Forward(nn.Module):
    """A module that computes a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, *others):
        return self.function(x, *others)


def test_a_module_becomes_a_model():
    module, x = network(), torch.randn(2, 3, 8, 8)
    model = ixion.compile(module, (x,))
    found = model(x)
    assert isinstance(found, torch.Tensor) and same(found, module(x).detach())
    assert isinstance(model(x.numpy()), np.ndarray) and model.losses == ()
    assert isinstance(model, ixion.Model) and "<svg" in model._repr_svg_()
    again = pickle.loads(pickle.dumps(model))
    assert same(again(x), module(x).detach())


# Inputs and outputs.


def test_inputs_have_the_names_of_parameters():
    model = ixion.compile(lambda ids, mask: ids * mask, (torch.ones(2), torch.ones(2)))
    assert [info.name for info in model.inputs] == ["ids", "mask"]
    assert same(model(mask=torch.full((2,), 3.0), ids=torch.full((2,), 2.0)), torch.full((2,), 6.0))
    # A name that the file has already gets an underscore.
    layers = nn.ModuleDict({"x": nn.Linear(2, 2)})

    class Clash(nn.Module):
        def __init__(self):
            super().__init__()
            self.x = layers["x"]

        def forward(self, x):
            return self.x(x)
    model = ixion.compile(Clash(), (torch.ones(1, 2),), dynamic={0: None}, x_=(None, 2))
    assert same(model(x_=torch.ones(1, 2)), layers["x"](torch.ones(1, 2)).detach())
    assert model.inputs[0].shape == ("x_.0", 2) and ixion.compile(Clash(), (torch.ones(1, 2),)).inputs[0].name == "x_"


def test_axes_have_the_names_that_were_given_or_those_of_inputs():
    x = torch.randn(2, 4)
    model = ixion.compile(lambda x, *others: x + others[0] + others[1], (x, x, x), dynamic=[{0: "rows"}, {0: "rows"}, {0: None}])
    assert [(info.name, info.shape) for info in model.inputs] == [
        ("x", ("rows", 4)), ("others_0", ("rows", 4)), ("others_1", ("others_1.0", 4))]
    assert same(model(x, x, others_1=x), 3 * x)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_models_are_named_after_the_class_of_the_module():
    """Also after pickling, and if the same files were exported before."""
    x = torch.randn(1, 4)

    def double(x):
        return x + x
    def strange(x):
        return x * 3
    strange.__name__ = "a/../b"
    for module, name in ((nn.Linear(4, 2), "Linear"), (nn.Linear(4, 2).forward, "Linear"), (double, "double"),
                         (lambda x: x + 1, "model"), (strange, "model"), (torch.jit.script(nn.Linear(4, 2).eval()), "Linear")):
        for _ in range(2):
            model = ixion.compile(module, (x,))
            assert repr(model).startswith(f"<ixion.Model {name}(")
        assert repr(pickle.loads(pickle.dumps(model))) == repr(model)


class Named(nn.Module):
    """A module with keywords, which returns a dictionary."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, ids, *, offset, mask=None):
        y = self.linear(ids) + offset
        return {"scores": y if mask is None else y * mask, "sum": y.sum(1)}


@pytest.mark.parametrize("dynamic", [None, {0: "batch"}, {"ids": {0: "batch"}, "mask": {0: "batch"}}])
def test_a_dictionary_stands_for_keywords(dynamic):
    module, ids, mask, offset = Named(), torch.randn(2, 4), torch.ones(2, 3), torch.randn(3)
    if dynamic == {0: "batch"}:
        dynamic = [dynamic, dynamic, None]
    model = ixion.compile(module, {"ids": ids, "mask": mask, "offset": offset}, dynamic=dynamic)
    assert [info.name for info in model.inputs] == ["ids", "mask", "offset"]
    count = 2 if dynamic is None else 5
    given = {"ids": torch.randn(count, 4), "mask": torch.rand(count, 3), "offset": offset}
    wanted = module(**given)
    for found in (model(given), model(**given), model(*given.values())):
        assert list(found) == ["scores", "sum"] and all(same(found[key], wanted[key].detach()) for key in wanted)


def test_a_dictionary_that_is_returned_keeps_its_keys():
    x = torch.randn(2, 4)
    model = ixion.compile(Forward(lambda x: {"minus": -x, "none": None, "two words": x * 2}), (x,), dynamic={0: "n"})
    assert [info.name for info in model.outputs][0] == "minus"
    out = torch.empty(2, 4)
    for again in (model, model.context(), pickle.loads(pickle.dumps(model)), ixion.Model(model.plan)):
        found = again(x, out={"minus": out})
        assert list(found) == ["minus", "two words"] and found["minus"] is out
        assert same(out, -x) and same(found["two words"], 2 * x)
    found = asyncio.run(model.run_async(x))
    assert list(found) == ["minus", "two words"]
    # A dictionary of one is one as well.
    model = ixion.compile(Forward(lambda x: {"minus": -x}), (x,))
    assert model.outputs[0].name == "minus" and same(model(x)["minus"], -x) and same(model(x, out=out)["minus"], -x)
    # A result that has two keys has one name in the file.
    twice = ixion.compile(Forward(lambda x: dict.fromkeys(("a", "b"), x * 3)), (x,))(x)
    assert list(twice) == ["a", "b"] and same(twice["a"], 3 * x) and same(twice["b"], 3 * x)


def test_a_plan_that_is_loaded_returns_a_tuple_with_names(tmp_path):
    x = torch.randn(2, 4)
    ixion.compile(Forward(lambda x: {"minus": -x, "twice": x * 2}), (x,)).plan.save(tmp_path / "it.plan")
    model = ixion.load(tmp_path / "it.plan")
    minus, twice = model(x)
    assert [info.name for info in model.outputs] == ["minus", "twice"] and same(minus, -x) and same(twice, 2 * x)


def test_losses_survive_pickling():
    model = ixion.compile(Forward(lambda x: x + int(x.sum())), (torch.ones(3),))
    assert model.losses and pickle.loads(pickle.dumps(model)).losses == model.losses


@pytest.mark.parametrize("returned", [
    lambda x: (x + 1, (x * 2, x - 1)), lambda x: [x + 1, x * 2], lambda x: {"a": x + 1, "b": [x * 2, {"c": x - 1}]},
    lambda x: (x + 1, None), lambda x: (x + 1,), lambda x: (x + 1, torch.stack([x, x]).max(0)), lambda x: (x > 0, x.argmax(1)),
], ids=["nested", "list", "dict", "none", "single", "named tuple", "integers"])
def test_whatever_is_returned_becomes_a_flat_tuple(returned):
    from ixion import _export
    x = torch.randn(2, 5)
    model, wanted = ixion.compile(Forward(returned), (x,)), _export.flatten(returned(x))
    found = model(x)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(wanted)
    assert all(one.dtype == two.dtype and same(one, two) for one, two in zip(found, wanted))


@pytest.mark.parametrize("returned", [lambda x: None, lambda x: 3, lambda x: (x, "text")])
def test_what_is_no_tensor_cannot_be_returned(returned):
    with pytest.raises(ixion.CompileError, match="returns"):
        ixion.compile(Forward(returned), (torch.ones(2),))


# The state of the module.


def test_the_module_is_left_as_it_was():
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.9), nn.Sequential(nn.ReLU().eval()))
    module.train()
    module[3][0].eval()
    x = torch.randn(2, 4, requires_grad=True)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    model = ixion.compile(module, (x,))
    assert [part.training for part in module.modules()] == [True, True, True, True, True, False]
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert torch.is_grad_enabled() and torch.backends.mha.get_fastpath_enabled()
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())
    assert same(model(x.detach()), module.eval()(x).detach())


def test_a_module_that_fails_is_left_as_it_was():
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    with pytest.raises(ixion.CompileError, match="fails on 3 float32"):
        ixion.compile(module, (torch.ones(3),))
    assert module.training and module[1].training and torch.is_grad_enabled()


# Dynamic axes.


def test_axes_may_be_dynamic():
    module, x = network(), torch.randn(2, 3, 8, 8)
    for options in ({"dynamic": {0: "batch"}}, {"dynamic": {-4: None}}, {"second_inputs": (torch.randn(5, 3, 8, 8),)}):
        model = ixion.compile(module, (x,), **options)
        for count in (1, 2, 7):
            given = torch.randn(count, 3, 8, 8)
            assert same(model(given), module(given).detach())
    assert ixion.compile(module, (x,), dynamic={0: "batch"}).inputs[0].shape == ("batch", 3, 8, 8)


def test_axes_depend_on_each_other():
    product, a, b = Forward(torch.matmul), torch.randn(2, 3), torch.randn(3, 4)
    model = ixion.compile(product, (a, b), dynamic=[{0: "rows", 1: "inner"}, {0: "inner"}])
    a, b = torch.randn(5, 7), torch.randn(7, 4)
    assert same(model(a, b), a @ b)
    with pytest.raises(ixion.CompileError, match="same name"):
        ixion.compile(product, (torch.randn(2, 3), torch.randn(3, 4)), dynamic=[{1: "inner"}, None])
    # One axis has twice the length of another: both are twice as long in the second sample.
    pairs = Forward(lambda x, y: x.reshape(-1, 2).sum(1) + y)
    model = ixion.compile(pairs, (torch.randn(6), torch.randn(3)), dynamic=[{0: "two"}, {0: "one"}])
    x, y = torch.randn(10), torch.randn(5)
    assert same(model(x, y), pairs(x, y))
    # What doubling does not keep needs a sample of one's own.
    ends = Forward(lambda x, y: x.narrow(0, 1, x.shape[0] - 1) + y)
    with pytest.raises(ixion.CompileError, match="second_inputs"):
        ixion.compile(ends, (torch.randn(4), torch.randn(3)), dynamic=[{0: "more"}, {0: "less"}])


@pytest.mark.parametrize("dynamic, second, message", [
    (3, None, "must be a dictionary"), ("n", None, "must be a dictionary"), ([{0: "n"}], None, "1 inputs, but there are 2"),
    ([{5: "n"}, None], None, "no axis 5"), ({5: "n"}, None, "no input has an axis 5"), ({"z": {0: "n"}}, None, "no input 'z'"),
    ({0: "two words"}, None, "name of a length"), ({True: "n"}, None, "axis is a number"), ([{0: "n", -2: "m"}, None], None, "twice"),
    ([{0: "n"}, {1: "n"}], None, "same length"), ([3, None], None, "expected a dictionary"),
    (None, (torch.ones(2, 3),), "as many inputs"), (None, (torch.ones(2, 3), torch.ones(2)), "as many"),
    ({0: "n"}, (torch.ones(4, 5), torch.ones(4, 3)), "is not in `dynamic`"), ({0: "n"}, (torch.ones(2, 3),) * 2, "in both samples"),
    ({0: "n"}, (torch.ones(4, 3), torch.ones(5, 3)), "same length"), (None, {"z": torch.ones(2, 3)}, "names"),
])
def test_dynamic_axes_that_cannot_be(dynamic, second, message):
    with pytest.raises(ixion.InputError, match=message):
        ixion.compile(lambda x, y: x + y, (torch.ones(2, 3), torch.ones(2, 3)), dynamic=dynamic, second_inputs=second)


# The cache.


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_the_second_time_comes_from_the_cache(cache, monkeypatch):
    import pnnx
    module, x = network(), torch.randn(1, 3, 8, 8)
    first = ixion.compile(module, (x,))
    assert len(entries(cache)) == 1
    # Nothing else would run.
    monkeypatch.setattr(pnnx, "EXEC_PATH", "there is no PNNX")
    torch.jit.trace(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)), torch.zeros(1, 2))
    second = ixion.compile(network(), (torch.randn(1, 3, 8, 8),), threads=2)
    assert second(x).numpy().tobytes() == first(x).numpy().tobytes()
    assert len(entries(cache)) == 1
    with pytest.raises(ixion.CompileError, match="cannot be started"):
        ixion.compile(module, (torch.randn(2, 3, 8, 8),))
    assert len(entries(cache)) == 1


class Scaled(nn.Module):
    """A module with a number in every place that can have one."""

    def __init__(self, **values):
        super().__init__()
        self.parameter = nn.Parameter(torch.tensor([values.get("parameter", 2.0)]))
        self.register_buffer("buffer", torch.tensor([values.get("buffer", 2.0)]))
        self.attribute = torch.tensor([values.get("attribute", 2.0)])
        self.number, self.kept = values.get("number", 0.1), values.get("kept", nn.ReLU)()

    def forward(self, x):
        return self.kept(x * self.parameter * self.buffer * self.attribute * self.number)


def test_whatever_a_model_depends_on_makes_it_another(cache):
    x, kinds = torch.randn(3), [
        {}, {"parameter": 3.0}, {"buffer": 3.0}, {"attribute": 3.0}, {"number": 0.1 + 1e-16}, {"kept": nn.Sigmoid}]
    for count, values in enumerate(kinds, 1):
        module = Scaled(**values)
        assert same(ixion.compile(module, (x,))(x), module(x).detach())
        assert len(entries(cache)) == count, values
    ixion.compile(Scaled(), (torch.randn(4),))
    ixion.compile(Scaled(), (x,), dynamic={0: "n"})
    assert len(entries(cache)) == len(kinds) + 2


def test_functions_may_use_modules():
    module, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9)), torch.randn(2, 4)

    def scores(x):
        return module(x).softmax(1)
    model = ixion.compile(scores, {"x": x}, dynamic={0: "n"})
    assert module.training and module[1].training
    found = ixion.compile(module.forward, (x,))(x)
    module.eval()
    assert same(model(x[:1]), scores(x[:1]).detach()) and same(found, module(x).detach())


def test_weights_of_functions_are_weights(cache):
    x = torch.randn(3)
    for factor in (2.0, 3.0):
        weights = torch.full((3,), factor)
        assert same(ixion.compile(lambda x, weights=weights: x * weights, (x,))(x), x * factor)
    assert len(entries(cache)) == 2


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripts_are_compiled_and_told_apart(cache):
    x = torch.randn(2, 3)
    for seed in (1, 2):
        torch.manual_seed(seed)
        module = nn.Linear(3, 2).eval()
        assert same(ixion.compile(torch.jit.script(module), (x,))(x), module(x).detach())
    assert len(entries(cache)) == 2


def test_a_damaged_entry_is_exported_again(cache):
    module, x = network(), torch.randn(1, 3, 8, 8)
    ixion.compile(module, (x,))
    (entry,) = cache.iterdir()
    for name in ("Sequential.pnnx.param", "Sequential.pnnx.bin"):
        # As many bytes as before, so that nothing but the results tells.
        (entry / name).write_bytes(bytes((entry / name).stat().st_size))
        assert same(ixion.compile(module, (x,))(x), module(x).detach())
    assert len(entries(cache)) == 1


def test_a_folder_of_ones_own(tmp_path, cache):
    module, x = network(), torch.randn(1, 3, 8, 8)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("precious")
    ixion.compile(module, (x,), cache=tmp_path / "mine")
    assert len(entries(tmp_path / "mine")) == 2 and entries(cache) == []
    ixion.clear_cache(tmp_path / "mine")
    assert entries(tmp_path / "mine") == ["notes"]
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file/below", 3):
        with pytest.raises(ixion.InputError, match="`cache`"):
            ixion.compile(module, (x,), cache=wrong)


def test_no_cache_leaves_nothing(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    module, x = network(), torch.randn(1, 3, 8, 8)
    model = ixion.compile(module, (x,), cache=False)
    assert entries(cache) == [] and entries(tmp_path / "scratch") == []
    assert same(model(x), module(x).detach())
    # Without a folder for caches, there is none.
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)
    assert same(ixion.compile(module, (x,))(x), module(x).detach())
    assert entries(tmp_path / "scratch") == []


COMPILE = """
import sys, torch, ixion
torch.manual_seed(1)
module, x = torch.nn.Linear(3, 2).eval(), torch.ones(1, 3)
print(ixion.compile(module, (x,), cache=sys.argv[1])(x).tolist() == module(x).tolist() or "differs")
"""


def test_processes_compile_the_same_module_at_once(tmp_path):
    commands = [subprocess.Popen([sys.executable, "-c", COMPILE, str(tmp_path / "shared")], stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
    found = [process.communicate()[0].strip() for process in commands]
    assert all(process.returncode == 0 for process in commands) and set(found) <= {"True", "differs"}
    assert len(entries(tmp_path / "shared")) == 1


def test_threads_compile_at_once():
    modules, x, found = [network(seed) for seed in (1, 2)], torch.randn(1, 3, 8, 8), {}

    def work(which: int) -> None:
        found[which] = ixion.compile(modules[which], (x,))(x)
    threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(found[which], module(x).detach()) for which, module in enumerate(modules))
