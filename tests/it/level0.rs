//! Files of optimisation levels 0 and 1: constants as operands, TorchScript operators, lists of indices, writes into views, and
//! operators that need custom layers. The texts are PNNX's, the expected values PyTorch's.

mod indexing;

use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::op::{CpuLayer, Creator, Io, Layer, LayerError, Registry, TensorMeta, Weight};
use ixion::ops::sorting::Argsort;
use ixion::pnnx::{Attribute, Graph};
use ixion::tensor::{DType, Element, Tensor};
use std::path::Path;

/// Parses operator lines, with the header and counts added.
fn parse(lines: &str) -> Graph {
    let lines: Vec<&str> = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = format!("7767517\n{} 0\n{}\n", lines.len(), lines.join("\n"));
    Graph::parse(&text, &Limits::default()).unwrap()
}

/// Runs operators between the inputs `x`, `y` (and `k`) and the output of the operand `out`.
fn run(lines: &str, inputs: &[Tensor]) -> Tensor {
    try_run(lines, inputs).unwrap_or_else(|error| panic!("{lines}\n{error}")).remove(0)
}

fn try_run(lines: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, GraphError> {
    let ports: Vec<String> = ["x", "y", "k"]
        .iter()
        .take(inputs.len())
        .map(|name| format!("pnnx.Input in_{name} 0 1 {name}"))
        .collect();
    let text = format!("{}\n{lines}\npnnx.Output output 1 0 out", ports.join("\n"));
    let mut graph = RuntimeGraph::from_pnnx(parse(&text));
    graph.build()?;
    graph.run_with(inputs.to_vec())
}

fn tensor<T: Element>(values: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

fn x() -> Tensor {
    tensor(&[1f32, -2., 3., -4., 5., -6.], &[2, 3])
}

fn y() -> Tensor {
    tensor(&[2f32, 2., -4., 3., -3., 5.], &[2, 3])
}

#[track_caller]
fn check<T: Element + PartialEq + std::fmt::Debug>(got: &Tensor, shape: &[usize], want: &[T]) {
    assert_eq!((got.shape().to_vec(), got.to_vec::<T>().unwrap()), (shape.to_vec(), want.to_vec()));
}

#[test]
fn scalars_and_alpha_are_operands() {
    let add = "prim::Constant c 0 1 2 value=2\naten::add a 3 1 x y 2 out";
    check(&run(add, &[x(), y()]), &[2, 3], &[5f32, 2., -5., 2., -1., 4.]);
    let rsub = "prim::Constant c 0 1 o value=3.5\nprim::Constant d 0 1 a value=2\naten::rsub r 3 1 x o a out";
    check(&run(rsub, &[x()]), &[2, 3], &[1.5f32, 7.5, -2.5, 11.5, -6.5, 15.5]);
    let rsub = "prim::Constant d 0 1 a value=3\naten::rsub r 3 1 x y a out";
    check(&run(rsub, &[x(), y()]), &[2, 3], &[-1f32, 8., -13., 15., -18., 23.]);
    let pow = "prim::Constant c 0 1 b value=2\naten::pow p 2 1 b x out";
    check(&run(pow, &[x()]), &[2, 3], &[2f32, 0.25, 8., 0.0625, 32., 0.015625]);
    let lerp = "prim::Constant c 0 1 w value=0.25\naten::lerp l 3 1 x y w out";
    check(&run(lerp, &[x(), y()]), &[2, 3], &[1.25f32, -1., 1.25, -2.25, 3., -3.25]);
    let addcmul = "prim::Constant c 0 1 w value=0.5\naten::addcmul l 4 1 x x y w out";
    check(&run(addcmul, &[x(), y()]), &[2, 3], &[2f32, -4., -3., -10., -2.5, -21.]);
    let missing = try_run("aten::mul m 1 1 x out", &[x()]).unwrap_err().to_string();
    assert!(missing.contains("`other`"), "{missing}");
}

/// `argsort(input, stable, dim, descending)`, whose fields are in another order.
#[test]
fn a_replaced_layer_gets_the_arguments_of_the_overload() {
    let text = "pnnx.Input in_x 0 1 x
        prim::Constant s 0 1 stable value=True
        prim::Constant d 0 1 dim value=1
        prim::Constant e 0 1 descending value=True
        aten::argsort r 4 1 x stable dim descending out
        pnnx.Output output 1 0 out";
    let mut registry = Registry::default();
    registry.replace("aten::argsort", Creator::of::<Argsort>()).unwrap();
    for registry in [Registry::default(), registry] {
        let mut graph = RuntimeGraph::from_pnnx(parse(text)).with_registry(registry);
        graph.build().unwrap();
        check(&graph.run_with(vec![x()]).unwrap()[0], &[2, 3], &[2i64, 0, 1, 1, 0, 2]);
    }
}

#[test]
fn numbers_are_weak() {
    let bytes = || tensor(&[250u8, 3], &[2]);
    let add = "prim::Constant c 0 1 n value=10\nprim::Constant d 0 1 a value=1\naten::add s 3 1 x n a out";
    check(&run(add, &[bytes()]), &[2], &[4u8, 13]);
    let mul = "prim::Constant c 0 1 n value=1.5\naten::mul m 2 1 x n out";
    check(&run(mul, &[bytes()]), &[2], &[375f32, 4.5]);
    let size = "prim::Constant c 0 1 d value=0\nTensor.size s 2 1 x d n $input=x $dim=d\n\
                prim::NumToTensor t 1 1 n m\naten::mul p 2 1 x m out";
    check(&run(size, &[bytes()]), &[2], &[244u8, 6]);
    let power = "prim::Constant c 0 1 e value=2\naten::float_power p 2 1 x e out";
    check(&run(power, &[tensor(&[2i64, 3], &[2])]), &[2], &[4f64, 9.]);
}

#[test]
fn divisions_round_as_they_say() {
    let (i, j) = (tensor(&[-7i64, 7, -1, 6], &[4]), tensor(&[2i64, -2, 3, 4], &[4]));
    let div = |mode: &str| {
        run(
            &format!("prim::Constant c 0 1 m value={mode}\naten::div d 3 1 x y m out"),
            &[i.clone(), j.clone()],
        )
    };
    check(&div("floor"), &[4], &[-4i64, -4, -1, 1]);
    check(&div("trunc"), &[4], &[-3i64, -3, 0, 1]);
    check(&div("None"), &[4], &[-3.5f32, -3.5, -0.333_333_34, 1.5]);
    let by = |mode: &str| {
        let lines = format!(
            "prim::Constant n 0 1 o value=0.7\nprim::Constant c 0 1 m value={mode}\naten::div d 3 1 x o m out"
        );
        run(&lines, &[i.clone()])
    };
    check(&by("floor"), &[4], &[-11f32, 10., -2., 8.]);
    check(&by("trunc"), &[4], &[-10f32, 10., -1., 8.]);
    let pair = |op: &str| run(&format!("aten::{op} d 2 1 x y out"), &[i.clone(), j.clone()]);
    check(&pair("div"), &[4], &[-3.5f32, -3.5, -0.333_333_34, 1.5]);
    check(&pair("floor_divide"), &[4], &[-4i64, -4, -1, 1]);
    check(&pair("remainder"), &[4], &[1i64, -1, 2, 2]);
    check(&pair("fmod"), &[4], &[-1i64, 1, -1, 2]);
    let wrong =
        try_run("prim::Constant c 0 1 m value=up\naten::div d 3 1 x y m out", &[i.clone(), j]).unwrap_err();
    assert!(wrong.to_string().contains("rounding_mode"), "{wrong}");
    let round = |decimals: i64, values: &[f32]| {
        let lines = format!("prim::Constant c 0 1 d value={decimals}\naten::round r 2 1 x d out");
        run(&lines, &[tensor(values, &[3])])
    };
    check(&round(1, &[1.25, 2.345, -0.55]), &[3], &[1.2f32, 2.3, -0.6]);
    check(&round(-1, &[125., 234.5, -55.]), &[3], &[120f32, 230., -60.]);
}

#[test]
fn extremes_of_one_tensor_of_two_and_along_an_axis() {
    check(&run("aten::max m 2 1 x y out", &[x(), y()]), &[2, 3], &[2f32, 2., 3., 3., 5., 5.]);
    check(&run("aten::min m 1 1 x out", &[x()]), &[], &[-6f32]);
    let along = "prim::Constant c 0 1 d value=1\nprim::Constant e 0 1 k value=False\naten::max m 3 2 x d k v i\n\
                 prim::TupleConstruct t 2 1 v i out";
    let outputs = try_run(along, &[x()]).unwrap();
    check(&outputs[0], &[2], &[3f32, 5.]);
    check(&outputs[1], &[2], &[2i64, 1]);
}

#[test]
fn sizes_make_shapes() {
    let lines = "prim::Constant c 0 1 two value=2
        Tensor.size s 1 1 x b dim=0 $input=x
        Tensor.size t 1 1 x l dim=1 $input=x
        prim::NumToTensor n 1 1 l m
        aten::floor_divide f 2 1 m two h
        aten::Int i 1 1 h w
        prim::ListConstruct v 3 1 b two w shape
        Tensor.reshape r 2 1 x shape out $input=x $shape=shape";
    for batch in [1usize, 3] {
        let x = Tensor::zeros(DType::F32, &[batch, 8]).unwrap();
        assert_eq!(run(lines, &[x]).shape().dims(), &[batch, 2, 4]);
    }
    let all = "Tensor.size s 1 1 x out $input=x";
    check(&run(all, &[x()]), &[2], &[2i64, 3]);
}

#[test]
fn lists_of_tensors_and_unpacked_lists() {
    let lines =
        "prim::Constant c 0 1 d value=-1\nprim::Constant e 0 1 n value=3\nprim::Constant f 0 1 one value=1
        torch.chunk h 3 1 x n d l $input=x $chunks=n $dim=d
        prim::ListUnpack u 1 3 l p q r
        prim::ListConstruct v 2 1 r p s
        torch.cat w 2 1 s one out $tensors=s $dim=one";
    check(&run(lines, &[x()]), &[2, 2], &[3f32, 1., -6., -4.]);
    let einsum =
        "prim::Constant c 0 1 e value=ij->ji\nprim::ListConstruct v 1 1 x l\ntorch.einsum s 2 1 e l out";
    check(&run(einsum, &[x()]), &[3, 2], &[1f32, -4., -2., 5., 3., -6.]);
    let dict = "prim::Constant c 0 1 a value=a\nprim::Constant d 0 1 b value=b\naten::neg n 1 1 x m\n\
                prim::DictConstruct e 4 1 a m b x out";
    let outputs = try_run(dict, &[x()]).unwrap();
    check(&outputs[0], &[2, 3], &[-1f32, 2., -3., 4., -5., 6.]);
    check(&outputs[1], &[2, 3], &x().to_vec::<f32>().unwrap());
    assert!(try_run("prim::DictConstruct e 1 1 x out", &[x()]).is_err());
}

#[test]
fn constants_of_level_1_are_expressions() {
    let lines = "pnnx.Expression a 0 1 d expr=1\npnnx.Expression b 0 1 s expr=0\npnnx.Expression c 0 1 e expr=2147483647
        pnnx.Expression f 0 1 t expr=2
        Tensor.slice g 5 1 x d s e t out $input=x $dim=d $start=s $end=e $step=t";
    check(&run(lines, &[x()]), &[2, 2], &[1f32, 3., -4., -6.]);
    let sum = "pnnx.Expression a 0 1 d expr=[0,1]\ntorch.sum s 2 1 x d out keepdim=False $input=x $dim=d";
    check(&run(sum, &[x()]), &[], &[-3f32]);
    // A constant becomes a tensor where a tensor or an output is expected.
    check(&run("pnnx.Expression a 0 1 c expr=[3,4]\naten::detach d 1 1 c out", &[]), &[2], &[3i64, 4]);
    check(&run("prim::Constant a 0 1 out value=2.5", &[]), &[], &[2.5f32]);
    assert!(try_run("prim::Constant a 0 1 out value=None", &[]).is_err());
}

/// PNNX writes a tensor of one element as a number. The recorded shape, and what reads it, tell that it is a tensor.
#[test]
fn tensors_of_one_element_are_written_as_numbers() {
    let shift = "torch.bitwise_left_shift s 1 1 x out input=1 $other=x";
    check(&run(shift, &[tensor(&[0i64, 3], &[2])]), &[2], &[1i64, 8]);
    let repeat = "pnnx.Expression e 1 1 x n expr=[size(@0,1)]\nTensor.repeat r 1 1 n out input=-1.5 $sizes=n";
    check(&run(repeat, &[x()]), &[3], &[-1.5f32; 3]);
    let cat = "pnnx.Expression c 0 1 c expr=7 #c=(1)i32\nprim::Constant d 0 1 d value=0\n\
               torch.cat j 3 1 x c d out $dim=d";
    check(&run(cat, &[tensor(&[1i32, 2], &[2])]), &[3], &[1i32, 2, 7]);
    let blocks = "pnnx.Expression c 0 1 c expr=2.0 #c=(1,1)f32\nprim::ListConstruct l 2 1 c x l\n\
                  aten::block_diag b 1 1 l out";
    let want = [2f32, 0., 0., 0., 0., 1., -2., 3., 0., -4., 5., -6.];
    check(&run(blocks, &[x()]), &[3, 4], &want);
    let pair = "pnnx.Expression l 0 1 l expr=[0.5,2.0]\naten::broadcast_tensors b 1 1 l t\n\
                prim::ListUnpack u 1 2 t a b\npnnx.Expression e 3 1 x a b out expr=add(mul(@0,@1),@2)";
    check(&run(pair, &[x()]), &[2, 3], &[2.5f32, 1., 3.5, 0., 4.5, -1.]);
    let last = "pnnx.Expression i 0 1 i expr=-1 #i=(1)i64\npnnx.Expression l 1 1 i l expr=[None,@0]\n\
                Tensor.index t 2 1 x l out $input=x $expr=l";
    check(&run(last, &[x()]), &[2, 1], &[3f32, -6.]);
    let refers = try_run("Tensor.index t 1 1 x out input=1.0 expr=[@0] $other=x", &[tensor(&[0i64], &[1])]);
    assert!(refers.is_err());
}

/// PNNX writes `None` for an empty list.
#[test]
fn empty_lists_are_none() {
    let full =
        "prim::Constant s 0 1 s value=None\ntorch.full f 2 1 s x out dtype=torch.float $size=s $fill_value=x";
    check(&run(full, &[Tensor::scalar(2.5f32)]), &[], &[2.5f32]);
    let permute = "prim::Constant d 0 1 d value=None\nTensor.permute p 2 1 x d out $input=x $dims=d";
    check(&run(permute, &[Tensor::scalar(2i64)]), &[], &[2i64]);
}

#[test]
fn bounds_come_from_inputs() {
    let n = |value: i64| tensor(&[value], &[]);
    let slice = "Tensor.slice s 2 1 x y out dim=1 end=2147483647 step=1 $input=x $start=y";
    check(&run(slice, &[x(), n(1)]), &[2, 2], &[-2f32, 3., 5., -6.]);
    check(&run(slice, &[x(), n(-100)]), &[2, 3], &x().to_vec::<f32>().unwrap());
    check(&run(slice, &[x(), n(100)]), &[2, 0], &[] as &[f32]);
    let lists = "pnnx.SliceIndexes a 1 1 y s indexes=(@0,0)\npnnx.SliceIndexes b 1 1 k l indexes=(2147483647,@0)
        Tensor.slice c 3 1 x s l out dims=(0,1) ends=(2147483647,0) steps=(1,1) $input=x $starts=s $selects=l";
    check(&run(lists, &[x(), n(1), n(-1)]), &[1], &[-6f32]);
    let select = "Tensor.select s 2 1 x y out dim=1 $input=x $index=y";
    check(&run(select, &[x(), n(-1)]), &[2], &[3f32, -6.]);
    check(&run(select, &[x(), n(1)]), &[2], &[-2f32, 5.]);
    for outside in [3, -4] {
        assert!(try_run(select, &[x(), n(outside)]).is_err(), "{outside}");
    }
    // As PNNX writes the selection of one axis in a slice assignment.
    let one = "Tensor.slice_copy s 2 1 x y out dim=1 end=0 select=-1 start=0 step=0 $self=x $src=y";
    check(&run(one, &[x(), tensor(&[8f32, 9.], &[2])]), &[2, 3], &[1f32, -2., 8., -4., 5., 9.]);
}

/// PNNX writes a module that is called twice with the same name twice.
#[test]
fn modules_that_are_called_twice_have_names_of_their_own() {
    let lines = "pnnx.Input in_x 0 1 x
        nn.Linear fc 1 1 x y bias=False in_features=3 out_features=3 @weight=(3,3)f32
        nn.Linear fc 1 1 y out bias=False in_features=3 out_features=3 @weight=(3,3)f32
        pnnx.Output output 1 0 out";
    let mut file = parse(lines);
    for (name, factor) in [("fc", 2f32), ("fc@2", 3.)] {
        let values: Vec<f32> = (0..9).map(|index| if index % 4 == 0 { factor } else { 0. }).collect();
        let id = file.operator_named(name).unwrap();
        file.set_attribute(id, "weight", Attribute::from_f32s(vec![3, 3], &values).unwrap()).unwrap();
    }
    let mut graph = RuntimeGraph::from_pnnx(file.clone());
    graph.build().unwrap();
    let names: Vec<&str> = graph.operators().iter().map(|operator| operator.name()).collect();
    assert_eq!(names, ["fc", "fc@2"]);
    check(&graph.run_with(vec![x()]).unwrap()[0], &[2, 3], &[6f32, -12., 18., -24., 30., -36.]);
    // Passes and plans know operators by their names.
    let unique = RuntimeGraph::from_pnnx(file.clone()).into_pnnx().unwrap().to_param_text();
    assert_eq!(file.to_param_text().lines().filter(|line| line.contains(" fc  ")).count(), 2);
    assert!(unique.contains(" fc@2 "), "{unique}");
}

#[test]
fn repeated_names_come_back_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/level0_modules_called_twice");
    let [param, bin] = ["model.param", "model.bin"].map(|name| folder.join(name));
    let graph = Graph::load(&param, Some(&bin), &Limits::default()).unwrap();
    assert!(graph.check_weights().is_empty() && graph.verify_checksums().is_empty());
    assert_eq!(graph.to_param_text(), std::fs::read_to_string(&param).unwrap());
    assert!(graph.to_bin_bytes().unwrap() == std::fs::read(&bin).unwrap());
}

#[test]
fn lost_branches_and_loops_say_how_to_export_without_them() {
    let branch = "torch.sum s 1 1 x n $input=x\ntorch.gt g 1 1 n c other=0 $input=n\naten::Bool b 1 1 c d\n\
                  prim::If i 1 1 d out #out=(2,3)f32";
    let round = "prim::Constant a 0 1 n value=3\nprim::Constant b 0 1 c value=True\n\
                 prim::Loop i 3 1 n c x out";
    for (lines, parts) in [
        (branch, ["prim::If `i`", "branches", "torch.jit.trace", "torch.where"]),
        (round, ["prim::Loop `i`", "body", "torch.jit.trace", "one round"]),
    ] {
        let error = try_run(lines, &[x()]).unwrap_err().to_string();
        assert!(error.starts_with("1 operator is not supported"), "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        let text = format!("pnnx.Input in_x 0 1 x\n{lines}\npnnx.Output output 1 0 out");
        let before_passes = RuntimeGraph::from_pnnx(parse(&text)).into_pnnx().unwrap_err().to_string();
        assert_eq!(before_passes, error);
    }
    let none = round.replace("value=3", "value=0");
    check(&run(&none, &[x()]), &[2, 3], &x().to_vec::<f32>().unwrap());
}

#[test]
fn assertions_of_scripted_models_are_left_out() {
    let lines = "prim::Constant a 0 1 text value=AssertionError: two axes
        prim::Constant b 0 1 two value=2
        aten::dim c 1 1 x n
        torch.eq d 2 1 n two e $input=n $other=two
        prim::If f 1 0 e
        prim::Print g 2 0 text n
        aten::neg h 1 1 x out";
    check(&run(lines, &[x()]), &[2, 3], &[-1f32, 2., -3., 4., -5., 6.]);
}

#[test]
fn items_and_lengths_of_lists() {
    let appended = "prim::Constant a 0 1 last value=-1\nprim::Constant b 0 1 list value=None
        aten::append c 2 1 list x l
        aten::neg d 1 1 x m
        aten::append e 2 1 list m k
        aten::len f 1 1 list n
        aten::__getitem__ g 2 1 list last i
        aten::mul h 2 1 i n out";
    check(&run(appended, &[x()]), &[2, 3], &[-2f32, 4., -6., 8., -10., 12.]);
    let chunk = "prim::Constant a 0 1 one value=1\ntorch.chunk b 1 1 x l chunks=3 dim=1 $input=x
        aten::__getitem__ c 2 1 l one out";
    check(&run(chunk, &[x()]), &[2, 1], &[-2f32, 5.]);
    let constant = "prim::Constant a 0 1 l value=(4,5)\nprim::Constant b 0 1 i value=1
        aten::__getitem__ c 2 1 l i n\naten::len d 1 1 l k\naten::mul e 2 1 x n p\naten::mul f 2 1 p k out";
    check(&run(constant, &[x()]), &[2, 3], &[10f32, -20., 30., -40., 50., -60.]);
    let dict = "prim::Constant a 0 1 j value=first\nprim::Constant b 0 1 k value=second\naten::neg c 1 1 x m
        prim::DictConstruct d 4 1 j x k m l\naten::__getitem__ e 2 1 l k out";
    check(&run(dict, &[x()]), &[2, 3], &[-1f32, 2., -3., 4., -5., 6.]);
    let others =
        [("F.relu a 1 1 x l", "trace the model"), ("prim::ListConstruct a 1 1 x l", "list has no item 7")];
    for (list, reason) in others {
        let lines = format!("{list}\nprim::Constant b 0 1 i value=7\naten::__getitem__ c 2 1 l i out");
        let error = try_run(&lines, &[x()]).unwrap_err().to_string();
        assert!(error.contains("aten::__getitem__ `c`") && error.contains(reason), "{error}");
    }
}

/// At level 1, PNNX writes `x.shape` as `x`.
#[test]
fn items_and_lengths_of_sizes() {
    for sizes in ["aten::size a 1 1 x s", "pnnx.Expression a 1 1 x s expr=@0"] {
        let lines = format!(
            "{sizes}\nprim::Constant b 0 1 last value=-1\naten::__getitem__ c 2 1 s last n
             aten::len d 1 1 s r\naten::mul e 2 1 x n p\naten::mul f 2 1 p r out"
        );
        check(&run(&lines, &[x()]), &[2, 3], &[6f32, -12., 18., -24., 30., -36.]);
    }
    let numbers = "Tensor.size a 1 1 x n dim=1 $input=x\nprim::Constant b 0 1 two value=2
        prim::min c 2 1 n two m\naten::floordiv d 2 1 n two h\nprim::max e 2 1 h n w
        prim::ListConstruct f 3 1 m h w s\nTensor.reshape g 2 1 x s out $input=x $shape=s";
    assert_eq!(run(numbers, &[x()]).shape().dims(), &[2, 1, 3]);
    let compared = "torch.gt a 0 1 c input=2 other=1\npnnx.Expression b 2 1 x c out expr=mul(@0,int(@1))";
    check(&run(compared, &[x()]), &[2, 3], &x().to_vec::<f32>().unwrap());
}

#[test]
fn element_types_of_tensors_are_arguments() {
    let lines = "prim::dtype a 1 1 y t #y=(2,3)i64\nprim::Constant b 0 1 no value=False
        prim::Constant c 0 1 none value=None\naten::to d 5 1 x t no no none out";
    let y = Tensor::zeros(DType::I64, &[2, 3]).unwrap();
    check(&run(lines, &[x(), y]), &[2, 3], &[1i64, -2, 3, -4, 5, -6]);
    let unknown = "prim::dtype a 1 1 x t\naten::to d 2 1 x t out";
    let error = try_run(unknown, &[x()]).unwrap_err().to_string();
    assert!(error.contains("prim::dtype `a`") && error.contains("element type"), "{error}");
}

const KEPT: &str = "pnnx.Input a 0 1 x
    models.common.Scale s 1 1 x y @conv.weight=(3)f32
    pnnx.custom_op.my_ops.gated g 2 1 y x out arg_2=0.5 $arg_0=y $arg_1=x
    aten::mystery t 1 1 out z
    pnnx.Output o 1 0 z";

#[test]
fn what_no_layer_is_registered_for_is_listed() {
    let error = RuntimeGraph::from_pnnx(parse(KEPT)).with_random_weights(0).build().unwrap_err().to_string();
    assert!(error.starts_with("3 operators are not supported:"), "{error}");
    for part in [
        "models.common.Scale `s`",
        "my_ops.gated `g`",
        "aten::mystery `t`",
        "moduleop",
        "customop",
        "optlevel",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

ixion::operator! {
    /// The input times a weight of a module kept by `moduleop`.
    struct Scale for "models.common.Scale" {
        /// The weight.
        weight as "conv.weight": Weight,
    }
}

ixion::operator! {
    /// The input where the mask exceeds a threshold, else 0.
    struct Gated for "pnnx.custom_op.my_ops.gated" {
        /// The mask.
        mask as "arg_1": ixion::ops::support::arguments::InputIndex,
        /// The threshold.
        threshold as "arg_2": f64,
    }
}

ixion::operator! {
    /// The negative of the input.
    struct Mystery for "aten::mystery" {}
}

macro_rules! element_wise {
    ($($layer:ident takes $inputs:literal: |$this:ident, $all:ident| $of:expr;)*) => {$(
        impl Layer for $layer {
            fn num_inputs(&self) -> std::ops::RangeInclusive<usize> {
                $inputs..=$inputs
            }

            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                Ok(vec![inputs[0].clone()])
            }
        }

        impl CpuLayer for $layer {
            fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
                let ($this, $all) = (self, io.inputs);
                Ok(io.outputs[0].array::<f32>()?.assign(&$of))
            }
        }
    )*};
}

element_wise! {
    Scale takes 1: |this, all| (&all[0].array::<f32>()? * &this.weight.view(all)?.array::<f32>()?);
    Gated takes 2: |this, all| ndarray::Zip::from(&all[0].array::<f32>()?)
        .and(&all[this.mask.0].array::<f32>()?)
        .map_collect(|&x, &mask| if f64::from(mask) > this.threshold { x } else { 0.0 });
    Mystery takes 1: |_this, all| all[0].array::<f32>()?.mapv(|x| -x);
}

#[test]
fn kept_modules_and_custom_operators_run_with_layers_of_ones_own() {
    let mut registry = Registry::default();
    registry.register::<Scale>().unwrap();
    registry.register::<Gated>().unwrap();
    registry.register::<Mystery>().unwrap();
    let mut file = parse(KEPT);
    let scale = file.operator_named("s").unwrap();
    file.set_attribute(scale, "conv.weight", Attribute::from_f32s(vec![3], &[1., 2., 3.]).unwrap()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file).with_registry(registry);
    graph.build().unwrap();
    check(&graph.run_with(vec![x()]).unwrap()[0], &[2, 3], &[-1f32, -0., -9., -0., -10., -0.]);
}
