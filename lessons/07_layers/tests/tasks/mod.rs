//! The tests of each task of lesson 07.

use super::subject::{
    LeakyReLU, Linear, ReLU, Registry, Sigmoid, like_the_input, map, over_built_in, registry,
};
use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::op::{
    self, CpuLayer, Creator, ForwardContext, FromOperator, Io, LayerError, OperatorReader, RegistryError,
    RuntimeAttribute, RuntimeParameter, TensorMeta,
};
use ixion::pnnx::Graph;
use ixion::tensor::{DType, Dim, Tensor, Workspace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A model file in the repository that contains this package.
fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

/// Creates a layer from the parameters and weights of an operator.
fn create(
    creator: &Creator,
    params: &[(&str, &str)],
    attrs: &[(&str, &Tensor)],
) -> Result<Box<dyn CpuLayer>, LayerError> {
    let params: BTreeMap<_, _> =
        params.iter().map(|(key, text)| (key.to_string(), RuntimeParameter::parse(text))).collect();
    let attribute = |tensor: &Tensor| RuntimeAttribute::from_tensor(tensor.clone());
    let attrs: BTreeMap<_, _> =
        attrs.iter().map(|(key, tensor)| (key.to_string(), attribute(tensor))).collect();
    creator.create(OperatorReader::new(&params, &attrs, &[None], 1))
}

/// Runs a layer as a graph does: first its shape rule, then `forward`, with an output that contains arbitrary values.
#[track_caller]
fn run(layer: &mut dyn CpuLayer, input: &Tensor) -> Tensor {
    let meta = layer.infer(&[TensorMeta::of(&input.view())]).unwrap().remove(0);
    let mut output = Tensor::full(meta.shape().unwrap().dims(), 777f32).unwrap();
    let (mut workspace, limits) = (Workspace::new().unwrap(), Limits::default());
    let mut context = ForwardContext::new(&mut workspace, &limits);
    let result =
        layer.forward(&mut Io::new(&[input.view()], &mut [output.view_mut().unwrap()], &mut context));
    assert!(result.is_ok(), "`forward` failed: {}", result.unwrap_err());
    output
}

/// Compares shapes first, then elements, and reports the first difference.
#[track_caller]
fn check(got: &Tensor, shape: &[usize], want: &[f32], hint: &str) {
    assert_eq!(got.shape().dims(), shape, "the shape is wrong. {hint}");
    for (at, (got, &want)) in got.to_vec::<f32>().unwrap().into_iter().zip(want).enumerate() {
        let close = (got - want).abs() <= 1e-6 * want.abs().max(1.0) || (got.is_nan() && want.is_nan());
        assert!(close, "element {at} is {got}, expected {want}. {hint}");
    }
}

#[test]
fn task1_an_output_like_the_input() {
    let input = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(3)]);
    let outputs = like_the_input(std::slice::from_ref(&input)).unwrap();
    assert_eq!(outputs, [input], "one output, with the type and dimensions of the input, symbols included");
}

#[test]
fn task1_another_element_type_is_rejected() {
    for dtype in [DType::F64, DType::I64, DType::Bool] {
        let result = like_the_input(&[TensorMeta::new(dtype, [2])]);
        let hint =
            "`forward` supports only f32, so the shape rule must return `LayerError::DType` before it runs";
        assert!(matches!(result, Err(LayerError::DType { found, .. }) if found == dtype), "{dtype}: {hint}");
    }
}

#[test]
fn task1_a_function_of_every_element() {
    let (input, mut output) = (tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), tensor(&[2, 2], &[777.0; 4]));
    map(&input.view(), &mut output.view_mut().unwrap(), |x| 10.0 * x).unwrap();
    let hint =
        "Ten times each element. Outputs contain arbitrary values at first, here 777: write, don't add.";
    check(&output, &[2, 2], &[10.0, 20.0, 30.0, 40.0], hint);
}

#[test]
fn task1_strides_do_not_matter() {
    let turned = tensor(&[3, 2], &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]).permute(&[1, 0]).unwrap();
    let mut output = tensor(&[2, 3], &[777.0; 6]);
    let result = map(&turned.view(), &mut output.view_mut().unwrap(), |x| x);
    assert!(
        result.is_ok(),
        "an input may be stored in any memory order: read it with `array`, not with `slice`"
    );
    check(&output, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "Are elements paired in memory order?");
}

#[test]
fn task1_relu_keeps_positive_values() {
    let output = run(&mut ReLU { inplace: false }, &tensor(&[1, 4], &[-2.0, -0.5, 0.0, 3.0]));
    check(&output, &[1, 4], &[0.0, 0.0, 0.0, 3.0], "0 for negative numbers, everything else unchanged.");
}

#[test]
fn task1_relu_lets_nan_through() {
    let output = run(&mut ReLU { inplace: false }, &tensor(&[1], &[f32::NAN]));
    let hint =
        "PyTorch keeps NaN, so that a mistake shows at the end. `max` hides it, and `NaN > 0` is false.";
    check(&output, &[1], &[f32::NAN], hint);
}

#[test]
fn task2_the_slope_comes_from_the_file() {
    let leaky = Creator::of::<LeakyReLU>();
    let input = tensor(&[4], &[-10.0, -1.0, 0.0, 2.0]);
    let mut half = create(&leaky, &[("negative_slope", "0.5")], &[]).unwrap();
    check(&run(&mut *half, &input), &[4], &[-5.0, -0.5, 0.0, 2.0], "Negative values are halved.");
    let mut default = create(&leaky, &[], &[]).unwrap();
    check(
        &run(&mut *default, &input),
        &[4],
        &[-0.1, -0.01, 0.0, 2.0],
        "The slope is 0.01 if the file has none.",
    );
}

#[test]
fn task2_sigmoid_by_hand() {
    let output = run(&mut Sigmoid {}, &tensor(&[3], &[-(3f32.ln()), 0.0, 3f32.ln()]));
    check(
        &output,
        &[3],
        &[0.25, 0.5, 0.75],
        "e to the -ln 3 is 1/3, and 1 / (1 + 1/3) is 0.75. Is a sign lost?",
    );
}

#[test]
fn task2_sigmoid_of_large_numbers() {
    let output = run(&mut Sigmoid {}, &tensor(&[4], &[-200.0, 200.0, f32::NEG_INFINITY, f32::INFINITY]));
    let hint = "e to the 200 is infinite in f32, and infinity divided by infinity is NaN: only the denominator may overflow.";
    check(&output, &[4], &[0.0, 1.0, 0.0, 1.0], hint);
}

/// A linear layer with these lengths and weights.
fn linear(lengths: [&str; 2], weight: &Tensor, bias: Option<&Tensor>) -> Box<dyn CpuLayer> {
    let params = [("in_features", lengths[0]), ("out_features", lengths[1])];
    let attrs: Vec<_> = [("weight", weight)].into_iter().chain(bias.map(|bias| ("bias", bias))).collect();
    create(&Creator::of::<Linear>(), &params, &attrs).unwrap()
}

#[test]
fn task3_rows_times_rows() {
    let mut layer = linear(["2", "2"], &tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), None);
    let output = run(&mut *layer, &tensor(&[1, 2], &[1.0, 10.0]));
    let hint = "1·1 + 2·10 = 21 and 3·1 + 4·10 = 43. 31 and 42 would be the columns of the weights.";
    check(&output, &[1, 2], &[21.0, 43.0], hint);
}

#[test]
fn task3_the_bias_is_added_to_each_row() {
    let weight = tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mut layer = linear(["3", "2"], &weight, Some(&tensor(&[2], &[10.0, 200.0])));
    let output = run(&mut *layer, &tensor(&[2, 3], &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]));
    check(&output, &[2, 2], &[16.0, 215.0, 11.0, 204.0], "6 + 10 and 15 + 200, then 1 + 10 and 4 + 200.");
}

#[test]
fn task3_any_number_of_axes_before_the_last() {
    let mut layer = linear(["2", "1"], &tensor(&[1, 2], &[1.0, -1.0]), None);
    let input: Vec<f32> = (0..12).map(|i| (i * i) as f32).collect();
    let output = run(&mut *layer, &tensor(&[2, 3, 2], &input));
    check(&output, &[2, 3, 1], &[-1.0, -5.0, -9.0, -13.0, -17.0, -21.0], "Only the last axis changes.");
    let output = run(&mut *layer, &tensor(&[2], &[5.0, 3.0]));
    check(&output, &[1], &[2.0], "An input with one axis is a single row.");
}

#[test]
fn task3_symbols_may_be_anything() {
    let layer = linear(["3", "5"], &Tensor::zeros(DType::F32, &[5, 3]).unwrap(), None);
    let infer = |dims: [Dim; 2]| {
        let result = layer.infer(&[TensorMeta::new(DType::F32, dims)]);
        result.unwrap_or_else(|error| panic!("is a symbol treated as a wrong length? {error}")).remove(0)
    };
    let want = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::Fixed(5)]);
    assert_eq!(
        infer([Dim::symbol("n"), Dim::Fixed(3)]),
        want,
        "the batch stays symbolic, the last length is 5"
    );
    let hint = "a length that is still unknown may turn out to be 3";
    assert_eq!(infer([Dim::symbol("n"), Dim::symbol("k")]), want, "{hint}");
}

#[test]
fn task3_mismatched_shapes_are_rejected() {
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
    let refused = |layer: &dyn CpuLayer, dims: &[usize]| {
        let result = layer.infer(&[TensorMeta::new(DType::F32, dims.iter().copied())]);
        matches!(result, Err(LayerError::Shape { .. }))
    };
    let layer = linear(["3", "5"], &zeros(&[5, 3]), Some(&zeros(&[5])));
    assert!(
        !refused(&*layer, &[2, 3]),
        "2×3 matches 5×3 weights: a row of the weights is as long as a row of the input"
    );
    assert!(refused(&*layer, &[2, 4]), "rows of 4 elements don't match weights for 3");
    assert!(refused(&*layer, &[]), "a tensor without axes has no row");
    let turned = linear(["3", "5"], &zeros(&[3, 5]), None);
    assert!(refused(&*turned, &[2, 3]), "expected out_features×in_features = 5×3 weights, but they are 3×5");
    let biased = linear(["3", "5"], &zeros(&[5, 3]), Some(&zeros(&[3])));
    assert!(refused(&*biased, &[2, 3]), "a bias of 3 does not match 5 outputs");
    let halves = TensorMeta::new(DType::F64, [2, 3]);
    assert!(matches!(layer.infer(&[halves]), Err(LayerError::DType { .. })), "the input must still be f32");
}

/// A creator that differs from others only by its version.
fn creator(version: &str) -> Creator {
    Creator::new("test", version, |reader| {
        ReLU::from_operator(reader).map(|layer| Box::new(layer) as Box<dyn CpuLayer>)
    })
}

#[test]
fn task4_added_creators_are_found() {
    let mut registry: Registry = Registry::empty();
    registry.add("my.A", creator("1")).unwrap();
    registry.add("my.B", creator("2")).unwrap();
    assert_eq!(registry.get("my.A").unwrap().version, "1", "each type has its own creator");
    assert_eq!(registry.get("my.B").unwrap().version, "2", "each type has its own creator");
}

#[test]
fn task4_a_second_creator_is_rejected() {
    let mut registry: Registry = Registry::empty();
    registry.add("my.A", creator("1")).unwrap();
    let error = registry.add("my.A", creator("2"));
    let duplicate = RegistryError::Duplicate { op_type: "my.A".to_owned() };
    assert_eq!(
        error,
        Err(duplicate),
        "two layers for one type are a mistake: some model would get the wrong one"
    );
    assert_eq!(
        registry.get("my.A").unwrap().version,
        "1",
        "after the error, the first creator must still be there"
    );
}

#[test]
fn task4_a_missing_type_is_named() {
    let mut registry: Registry = Registry::empty();
    registry.add("nn.ReLU", creator("1")).unwrap();
    let missing = |op_type: &str| registry.get(op_type).map(|_| ()).unwrap_err();
    let nearest = Some("nn.ReLU".to_owned());
    let hint = "`nn.Relu` is a typo, and the error should suggest the nearest name";
    assert_eq!(
        missing("nn.Relu"),
        RegistryError::Missing { op_type: "nn.Relu".to_owned(), nearest },
        "{hint}"
    );
    let far = RegistryError::Missing { op_type: "torch.cat".to_owned(), nearest: None };
    assert_eq!(missing("torch.cat"), far, "no name is near `torch.cat`");
}

#[test]
fn task4_one_operator_under_all_its_names() {
    let mut registry: Registry = Registry::empty();
    registry.register::<ReLU>().unwrap();
    let types: Vec<&str> = registry.iter().map(|(op_type, _)| op_type).collect();
    assert_eq!(
        types,
        ["F.relu", "nn.ReLU"],
        "the module and the function are the same layer: see `T::TYPES`"
    );
    for op_type in types {
        let mut layer = create(registry.get(op_type).unwrap(), &[], &[]).unwrap();
        check(&run(&mut *layer, &tensor(&[2], &[-1.0, 1.0])), &[2], &[0.0, 1.0], "It should be a ReLU.");
    }
    let again = registry.register::<ReLU>();
    assert!(matches!(again, Err(RegistryError::Duplicate { .. })), "registering twice is an error");
}

/// An `op::Registry` with only these layers.
fn alone(layers: &Registry) -> op::Registry {
    let mut registry = op::Registry::empty();
    layers.iter().for_each(|(op_type, creator)| registry.add(op_type, creator.clone()).unwrap());
    registry
}

#[test]
fn task5_your_layers_are_registered() {
    let registry = registry().unwrap();
    let types: Vec<&str> = registry.iter().map(|(op_type, _)| op_type).collect();
    let want = ["F.leaky_relu", "F.relu", "F.sigmoid", "nn.LeakyReLU", "nn.Linear", "nn.ReLU", "nn.Sigmoid"];
    assert_eq!(types, want, "four layers under seven names");
}

#[test]
fn task5_your_layers_replace_the_built_in_ones() {
    let (own, built_in) = (registry().unwrap(), op::Registry::default());
    let all = over_built_in(&own);
    assert_eq!(all.iter().count(), built_in.iter().count(), "all other layers must still be there");
    for (op_type, _) in own.iter().filter(|(op_type, _)| *op_type != "nn.Linear") {
        let layer = create(all.get(op_type).unwrap(), &[], &[]).unwrap();
        let refuses = layer.infer(&[TensorMeta::new(DType::F64, [1])]).is_err();
        assert!(refuses, "`{op_type}` accepts f64, which yours does not: it is still the built-in layer");
    }
}

#[test]
fn task5_a_graph_of_yours_and_others() {
    let text = "7767517\n4 3\npnnx.Input in 0 1 x #x=(3)f32\nnn.LeakyReLU leaky 1 1 x y negative_slope=0.5\n\
                nn.Hardtanh limit 1 1 y z\npnnx.Output out 1 0 z\n";
    let file = Graph::parse(text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file.clone()).with_registry(over_built_in(&registry().unwrap()));
    graph.build().unwrap();
    let output = graph.run_with(vec![tensor(&[3], &[-2.0, 0.0, 2.0])]).unwrap().remove(0);
    check(&output, &[3], &[-1.0, 0.0, 1.0], "Your LeakyReLU, then the built-in Hardtanh.");

    let mut graph = RuntimeGraph::from_pnnx(file).with_registry(alone(&registry().unwrap()));
    let error = graph.build();
    assert!(
        matches!(error, Err(GraphError::UnknownOperators { .. })),
        "your layers alone do not include `nn.Hardtanh`"
    );
}

/// A network of `nn.Linear` and `nn.Sigmoid`, whose weights and results come from PyTorch.
#[test]
fn task5_a_real_network_runs() {
    let limits = Limits::default();
    let own = registry().unwrap();
    let input = Tensor::load_npy(model_file("linear/in_0.npy"), &limits).unwrap();
    let want = Tensor::load_npy(model_file("linear/out_0.npy"), &limits).unwrap().to_vec::<f32>().unwrap();
    for registry in [alone(&own), over_built_in(&own)] {
        let mut graph = RuntimeGraph::new(model_file("linear/linear.pnnx.param")).with_registry(registry);
        graph.build().unwrap();
        let output = graph.run_with(vec![input.clone()]).unwrap().remove(0);
        check(&output, &[1, 128], &want, "Your Linear, then your Sigmoid, against PyTorch.");
    }
}
