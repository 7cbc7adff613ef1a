//! Networks defined in code.

use ixion::Limits;
use ixion::engine::{Builder, Fields, Len, Network, Operand, Plan};
use ixion::op::{Creator, Layer, LayerError, Registry, RuntimeAttribute, TensorMeta};
use ixion::tensor::{DType, Tensor};

fn random(dims: &[usize], seed: u64) -> Tensor {
    RuntimeAttribute::random(DType::F32, dims, seed).decode().unwrap().clone()
}

fn picture() -> [Len; 4] {
    ["n".into(), 3.into(), 8.into(), 8.into()]
}

/// A convolution, an activation, a pooling, and a linear layer on what is left.
fn small() -> Network {
    let mut network = Network::new();
    let x = network.add_input("x", DType::F32, picture()).unwrap();
    let conv = Fields::new()
        .with_param("in_channels", 3)
        .with_param("out_channels", 4)
        .with_param("kernel_size", vec![3, 3])
        .with_param("padding", vec![1, 1])
        .with_param("bias", true)
        .with_weight("weight", random(&[4, 3, 3, 3], 1))
        .with_weight("bias", random(&[4], 2));
    let conv = network.add_layer("nn.Conv2d", "conv", &[x], &conv).unwrap();
    let relu = network.add_layer("nn.ReLU", "relu", &conv, &Fields::new()).unwrap();
    let pool = Fields::new().with_param("kernel_size", vec![2, 2]).with_param("stride", vec![2, 2]);
    let pool = network.add_layer("nn.MaxPool2d", "pool", &relu, &pool).unwrap();
    let flat = Fields::new().with_param("start_dim", 1).with_param("end_dim", -1);
    let flat = network.add_layer("torch.flatten", "flat", &pool, &flat).unwrap();
    let linear = Fields::new()
        .with_param("in_features", 64)
        .with_param("out_features", 5)
        .with_param("bias", false)
        .with_weight("weight", random(&[5, 64], 3));
    let linear = network.add_layer("nn.Linear", "linear", &flat, &linear).unwrap();
    assert_eq!(network.meta(linear[0]).unwrap().to_string(), "n×5 f32");
    network.mark_output(linear[0], "scores").unwrap();
    network
}

fn run(plan: &Plan, x: &Tensor) -> Vec<Tensor> {
    plan.context().unwrap().run(std::slice::from_ref(x)).unwrap()
}

#[test]
fn a_network_in_code_is_that_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let param = folder.path().join("small.pnnx.param");
    small().into_graph().unwrap().save(&param, param.with_extension("bin")).unwrap();
    let [from_code, from_file] =
        [small().builder().unwrap(), Builder::new(&param)].map(|builder| builder.build().unwrap());
    assert!(from_code.statistics().passes.iter().any(|pass| pass.fired > 0), "passes apply to it");
    let text = std::fs::read_to_string(&param).unwrap();
    assert!(text.contains("nn.Conv2d") && text.contains("#x=(%n,3,8,8)f32"), "{text}");
    for count in [1, 3] {
        let x = random(&[count, 3, 8, 8], 4);
        let outputs = run(&from_code, &x);
        assert_eq!(outputs[0].shape().dims(), &[count, 5]);
        assert_eq!(outputs, run(&from_file, &x));
    }
    assert_eq!(from_code.output("scores"), Some(0));
}

#[test]
fn several_inputs_outputs_and_names() {
    let mut network = Network::new();
    let a = network.add_input("a", DType::F32, [4.into()]).unwrap();
    let b = network.add_input("b", DType::F32, [4.into()]).unwrap();
    let sub = Fields::new().with_param("expr", "sub(@0,@1)");
    let sub = network.add_layer("pnnx.Expression", "sub", &[b, a], &sub).unwrap();
    let named = Fields::new().with_input_name(0, "input").with_input_name(1, "other");
    let product = network.add_layer("torch.matmul", "product", &[a, b], &named).unwrap();
    let halves =
        Fields::new().with_param("split_size_or_sections", 2).with_param("dim", 0).with_num_outputs(2);
    let halves = network.add_layer("torch.split", "halves", &sub, &halves).unwrap();
    assert_eq!(halves.len(), 2);
    network.mark_output(halves[1], "late").unwrap();
    network.mark_output(halves[0], "early").unwrap();
    network.mark_output(a, "same").unwrap();
    network.mark_output(product[0], "sixty").unwrap();
    let plan = network.builder().unwrap().build().unwrap();
    let floats = |values: &[f32]| Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap();
    let [a, b] = [floats(&[1.0, 2.0, 3.0, 4.0]), floats(&[2.0, 4.0, 6.0, 8.0])];
    let outputs = plan.context().unwrap().run(&[a.clone(), b]).unwrap();
    assert_eq!(outputs, [floats(&[3.0, 4.0]), floats(&[1.0, 2.0]), a, Tensor::scalar(60f32)]);
}

#[test]
fn types_can_be_set() {
    let mut network = Network::new();
    let x = network.add_input("x", DType::F32, [2.into()]).unwrap();
    network.set_dtype(x, DType::F16).unwrap();
    let relu = network.add_layer("F.relu", "relu", &[x], &Fields::new()).unwrap()[0];
    network.mark_output(relu, "half").unwrap();
    assert_eq!(network.meta(relu).unwrap().dtype(), DType::F16);
    network.set_dtype(relu, DType::F64).unwrap();
    let neg = Fields::new().with_param("expr", "neg(@0)");
    let neg = network.add_layer("pnnx.Expression", "neg", &[relu], &neg).unwrap()[0];
    network.mark_output(neg, "double").unwrap();
    let late = network.set_dtype(x, DType::F32).unwrap_err().to_string();
    assert!(late.contains("the type of input `x` must be set before a layer reads it"), "{late}");
    let plan = network.builder().unwrap().build().unwrap();
    let x = Tensor::from_vec(vec![-1.0f32, 1.5], &[2]).unwrap().cast(DType::F16).unwrap();
    let outputs = run(&plan, &x);
    assert_eq!(outputs[0].dtype(), DType::F64, "later readers have the type, and so do outputs");
    assert_eq!(outputs[1].to_vec::<f64>().unwrap(), [-0.0, -1.5]);
}

ixion::operator! {
    /// Its input times a factor.
    struct Times for "Times" {
        /// The factor.
        factor: f64,
    }
}

impl Layer for Times {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].clone()])
    }
}

impl ixion::op::CpuLayer for Times {
    fn forward(&mut self, io: &mut ixion::op::Io<'_, '_>) -> Result<(), LayerError> {
        let (x, factor) = (io.inputs[0].array::<f32>()?, self.factor as f32);
        io.outputs[0].array::<f32>()?.zip_mut_with(&x, |y, &x| *y = x * factor);
        Ok(())
    }
}

/// A network of one plugin.
fn one(plugin: &str, fields: &Fields) -> Result<Network, ixion::engine::EngineError> {
    let mut registry = Registry::default();
    registry.add_plugin("Times", Creator::plugin::<Times>("acme", "2")).unwrap();
    let mut network = Network::new().with_registry(registry);
    let x = network.add_input("x", DType::F32, [(-1).into()])?;
    let y = network.add_plugin(&plugin.parse().unwrap(), "times", &[x], fields)?;
    network.mark_output(y[0], "y")?;
    Ok(network)
}

#[test]
fn a_plugin_is_a_layer_of_a_network() {
    let network = one("acme/Times/2", &Fields::new().with_param("factor", 2.5)).unwrap();
    let plan = network.builder().unwrap().build().unwrap();
    let y = run(&plan, &Tensor::ones(DType::F32, &[3]).unwrap());
    assert_eq!(y[0].to_vec::<f32>().unwrap(), [2.5; 3]);
    let built_in = one("ixion/nn.ReLU/1", &Fields::new()).unwrap().builder().unwrap().build().unwrap();
    assert_eq!(built_in.graph().operators()[0].op_type(), "nn.ReLU");
}

#[test]
fn errors_are_reported_when_a_layer_is_added() {
    let refused = |plugin: &str, fields: Fields| one(plugin, &fields).unwrap_err().to_string();
    let missing = refused("acme/Times/3", Fields::new());
    assert!(missing.contains("acme/Times/3 `times` (nearest known type: acme/Times/2)"), "{missing}");
    assert!(
        missing.contains("type `Times`, version `3`, in namespace `acme`"),
        "type, version and namespace: {missing}"
    );
    let place = "acme/Times/2 `times` cannot be built: ";
    for (fields, wanted) in [
        (Fields::new(), "missing parameter `factor` (a number); the file sets none"),
        (Fields::new().with_param("factor", "two"), "parameter `factor`: expected a number, got `two`"),
        (
            Fields::new().with_param("factor", 1.0).with_param("offset", 1),
            "unknown parameters: `offset`; supported: `factor`",
        ),
        (
            Fields::new().with_param("factor", 1.0).with_weight("w", random(&[1], 1)),
            "unknown attributes: `w`; supported: `factor`",
        ),
    ] {
        let error = refused("acme/Times/2", fields);
        assert_eq!(error, format!("{place}{wanted}"));
    }
}

#[test]
fn failures_leave_no_trace() {
    let mut network = Network::new();
    let x = network.add_input("x", DType::F32, [4.into()]).unwrap();
    // The name of the second output of a later layer.
    let taken = network.add_layer("F.relu", "halves.1", &[x], &Fields::new()).unwrap();
    let split =
        || Fields::new().with_param("split_size_or_sections", 2).with_param("dim", 0).with_num_outputs(2);
    let error = network.add_layer("torch.split", "halves", &taken, &split()).unwrap_err().to_string();
    assert!(error.contains("halves.1"), "{error}");
    let error =
        network.add_layer("F.relu", "relu", &[x], &Fields::new().with_input_name(0, "a b")).unwrap_err();
    assert!(error.to_string().contains("a b"), "{error}");
    // The same names can be used by valid layers.
    network.add_layer("F.relu", "halves", &[x], &Fields::new()).unwrap();
    let relu = network.add_layer("F.relu", "relu", &taken, &Fields::new()).unwrap();
    let parts = network.add_layer("torch.split", "parts", &relu, &split()).unwrap();
    assert!(network.add_input("parts.1", DType::F32, [4.into()]).is_err());
    network.add_layer("F.relu", "parts.1", &[x], &Fields::new()).unwrap_err();
    network.mark_output(parts[1], "late").unwrap();
    let graph = network.into_graph().unwrap();
    graph.check().unwrap();
    let names: Vec<&str> = graph.operators().map(|(_, operator)| operator.name()).collect();
    assert_eq!(names, ["x", "halves.1", "halves", "relu", "parts", "late"]);
    let plan = Builder::from_pnnx(graph).build().unwrap();
    let x = Tensor::from_vec(vec![-1f32, 2.0, 3.0, -4.0], &[4]).unwrap();
    assert_eq!(run(&plan, &x)[0].to_vec::<f32>().unwrap(), [3.0, 0.0]);
}

#[test]
fn names_are_taken_once_and_operands_belong_to_a_network() {
    let mut network = Network::new();
    let x = network.add_input("x", DType::F32, [2.into()]).unwrap();
    let message = |result: Result<Operand, ixion::engine::EngineError>| result.unwrap_err().to_string();
    let twice = message(network.add_input("x", DType::F32, [2.into()]));
    assert_eq!(twice, "the network cannot be built: the name `x` is already taken");
    network.mark_output(x, "y").unwrap();
    assert!(network.mark_output(x, "y").is_err());
    let relu = |network: &mut Network, name: &str, inputs: &[Operand]| {
        network.add_layer("F.relu", name, inputs, &Fields::new()).map(|outputs| outputs[0])
    };
    assert!(message(relu(&mut network, "y", &[x])).contains("the name `y` is already taken"));
    assert!(
        message(relu(&mut network, "two", &[x, x]))
            .contains("F.relu `two` cannot be built: wrong number of inputs: expected 1, got 2")
    );
    assert!(message(relu(&mut network, "a name", &[x])).contains("a name"));
    let sum = Fields::new().with_param("expr", "add(@0,@1)");
    let sum = network.add_layer("pnnx.Expression", "sum", &[x, x], &sum).unwrap()[0];
    let mut other = Network::new();
    assert!(message(relu(&mut other, "relu", &[sum])).contains("an operand belongs to another network"));
    let same_place = other.add_input("z", DType::F32, [3.into()]).unwrap();
    assert_eq!(network.meta(x).unwrap().to_string(), "2 f32");
    assert!(message(relu(&mut other, "relu", &[x])).contains("an operand belongs to another network"));
    assert!(other.mark_output(x, "z2").is_err() && other.set_dtype(x, DType::F16).is_err());
    assert!(other.meta(x).is_none() && x != same_place);
    let empty = other.into_graph().unwrap_err().to_string();
    assert!(empty.contains("it has no outputs"), "{empty}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.plan");
    network.builder().unwrap().build().unwrap().save(&path).unwrap();
    assert!(Plan::load(&path).is_ok() && Limits::default().deadline.is_none());
}
