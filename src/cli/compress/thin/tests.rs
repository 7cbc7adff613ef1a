use super::*;

/// A functional layer of 6×8 weights of rank 2, with a bias, and a module of 3×6.
fn graph() -> Graph {
    let text = "7767517
6 5
pnnx.Input in 0 1 x #x=(2,8)f32
pnnx.Attribute w 0 1 w @data=(6,8)f32 #w=(6,8)f32
pnnx.Attribute b 0 1 b @data=(6)f32 #b=(6)f32
F.linear wide 3 1 x w b y $input=x $weight=w $bias=b #x=(2,8)f32 #w=(6,8)f32 #b=(6)f32 #y=(2,6)f32
nn.Linear head 1 1 y z bias=False in_features=6 out_features=3 @weight=(3,6)f32 #y=(2,6)f32 #z=(2,3)f32
pnnx.Output out 1 0 z
";
    let mut graph = Graph::parse(text, &Limits::default()).unwrap();
    let mut set = |name: &str, key: &str, shape: Vec<usize>, value: &dyn Fn(usize) -> f32| {
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(value).collect();
        let id = graph.operator_named(name).unwrap();
        graph.set_attribute(id, key, Attribute::from_f32s(shape, &values).unwrap()).unwrap();
    };
    set("w", "data", vec![6, 8], &|at| ((at / 8) * (at % 8)) as f32 + 1.0);
    set("b", "data", vec![6], &|at| at as f32);
    set("head", "weight", vec![3, 6], &|at| ((at * at * 7 + at) % 11) as f32);
    graph
}

fn shapes(graph: &Graph) -> Vec<(String, Vec<usize>)> {
    let weight = |(_, operator): (OperatorId, &ixion::pnnx::Operator)| {
        Some((operator.name().to_owned(), operator.attr("weight")?.shape().to_vec()))
    };
    graph.operators().filter_map(weight).collect()
}

#[test]
fn layers_that_get_smaller_are_split() {
    let mut graph = graph();
    let layers = thin(&mut graph, Wanted::Error(1e-3), &Limits::default()).unwrap();
    assert_eq!((layers[0].rank, layers[0].is_replaced(), layers[0].after()), (2, true, 28));
    assert!(layers[0].error < 1e-6, "{layers:?}");
    assert_eq!((layers[1].fate, layers[1].after()), (Fate::Kept, 18));
    let want = [("wide.thin", vec![2, 8]), ("wide", vec![6, 2]), ("head", vec![3, 6])];
    assert_eq!(shapes(&graph), want.map(|(name, shape)| (name.to_owned(), shape)));
    graph.check().unwrap();
    assert!(
        graph.operator_named("w").is_none() && graph.operator_named("b").is_none(),
        "their constants are gone"
    );
    let wide = graph.operator(graph.operator_named("wide").unwrap());
    assert_eq!(wide.attr("bias").unwrap().to_f32s().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn the_product_of_the_two_is_the_layer() {
    let mut thinned = graph();
    thin(&mut thinned, Wanted::Rank(2), &Limits::default()).unwrap();
    let run = |graph: Graph| {
        let mut graph = ixion::graph::RuntimeGraph::from_pnnx(graph);
        graph.build().unwrap();
        let x: Vec<f32> = (0..16).map(|at| at as f32 / 4.0 - 2.0).collect();
        let x = ixion::tensor::Tensor::from_vec(x, &[2, 8]).unwrap();
        graph.run_with(vec![x]).unwrap().remove(0)
    };
    let (got, want) = (run(thinned), run(graph()));
    assert!(got.allclose(&want, 1e-4, 1e-4, false).unwrap().holds(), "{got:?}\n{want:?}");
}

#[test]
fn ranks() {
    let values = [4.0, 2.0, 1.0, 0.0];
    assert_eq!(rank(&values, Wanted::Rank(9)), (4, 0.0));
    assert_eq!(rank(&values, Wanted::Rank(2)).1, (1f64 / 21.0).sqrt());
    assert_eq!(rank(&values, Wanted::Error(0.5)), (1, (5f64 / 21.0).sqrt()));
    assert_eq!(rank(&[0.0, 0.0], Wanted::Error(0.1)), (1, 0.0));
}

#[test]
fn weights_with_nan_are_an_error() {
    let mut graph = graph();
    let id = graph.operator_named("head").unwrap();
    graph.set_attribute(id, "weight", Attribute::from_f32s(vec![3, 6], &[f32::NAN; 18]).unwrap()).unwrap();
    let error = thin(&mut graph, Wanted::Rank(1), &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("`head`") && error.contains("NaN"), "{error}");
}

/// The weights of the wide layer in another element type.
fn of_type(dtype: DType) -> Graph {
    let mut graph = graph();
    let id = graph.operator_named("w").unwrap();
    let values = graph.operator(id).attr("data").unwrap().to_f32s().unwrap();
    let matrix = Array2::from_shape_vec((6, 8), values.into_iter().map(f64::from).collect()).unwrap();
    let weight = match dtype.is_float() {
        true => attribute(&matrix, dtype),
        false => Attribute::new(dtype, vec![6, 8], vec![1; 48 * dtype.size()]),
    };
    graph.set_attribute(id, "data", weight.unwrap()).unwrap();
    graph
}

#[test]
fn weights_keep_their_type() {
    for (dtype, bound) in [(DType::F64, 1e-14), (DType::F16, 1e-3), (DType::Bf16, 1e-2)] {
        let mut graph = of_type(dtype);
        let layers = thin(&mut graph, Wanted::Rank(2), &Limits::default()).unwrap();
        assert!(layers[0].is_replaced() && layers[0].error < bound, "{layers:?}");
        let factor = |name: &str, rows: usize, columns: usize| {
            let weight = graph.operator(graph.operator_named(name).unwrap()).attr("weight").unwrap();
            assert_eq!(weight.dtype(), dtype);
            Array2::from_shape_vec((rows, columns), numbers(weight).unwrap()).unwrap()
        };
        let product = factor("wide", 6, 2).dot(&factor("wide.thin", 2, 8));
        for ((i, j), x) in product.indexed_iter() {
            let want = (i * j + 1) as f64;
            assert!((x - want).abs() < 100.0 * bound, "{dtype}: {x} {want}");
        }
    }
}

#[test]
fn weights_that_are_not_floats_are_kept_and_reported() {
    let mut graph = of_type(DType::I8);
    let layers = thin(&mut graph, Wanted::Rank(2), &Limits::default()).unwrap();
    assert_eq!((layers[0].fate, layers[0].after()), (Fate::NotFloat(DType::I8), 48));
    assert!(layers[0].fate.reason().unwrap().contains("i8"));
}
