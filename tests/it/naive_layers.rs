//! Compares the layers of `ops::naive` with the built-in ones: individually with random parameters, and in whole networks.

use ixion::Limits;
use ixion::graph::{GraphError, RuntimeGraph};
use ixion::op::Registry;
use ixion::ops::naive;
use ixion::pnnx::Graph;
use ixion::tensor::Tensor;
use proptest::prelude::*;
use std::path::Path;

/// Runs a model of these operators between input `x` and output `y`, with the built-in layers and with the naive ones.
fn both(operators: &str, inputs: &[&Tensor]) -> [Result<Vec<Tensor>, GraphError>; 2] {
    let lines: Vec<&str> = operators.lines().collect();
    let names = ["x", "z"];
    let given: String =
        names.iter().take(inputs.len()).map(|x| format!("pnnx.Input in_{x} 0 1 {x}\n")).collect();
    let (count, operands) = (lines.len() + inputs.len() + 1, lines.len() + inputs.len());
    let text = format!("7767517\n{count} {operands}\n{given}{operators}\npnnx.Output out 1 0 y\n");
    [Registry::default(), naive::residual_network().unwrap()].map(|registry| {
        let file = Graph::parse(&text, &Limits::default()).unwrap();
        let mut graph = RuntimeGraph::from_pnnx(file).with_registry(registry).with_random_weights(5);
        graph.build()?;
        graph.run_with(inputs.iter().map(|&input| input.clone()).collect())
    })
}

/// Checks that both give the same result if the parameters fit the input, and that both fail otherwise.
fn agree(operators: &str, inputs: &[&Tensor], fits: bool) -> Result<(), TestCaseError> {
    match both(operators, inputs) {
        [Ok(fast), Ok(naive)] => {
            prop_assert!(fits, "{}: both accept it", operators);
            prop_assert_eq!(fast[0].shape(), naive[0].shape());
            let comparison = naive[0].allclose(&fast[0], 1e-5, 1e-5, true).unwrap();
            prop_assert!(comparison.holds(), "{}: {}", operators, comparison);
        }
        [Err(error), Err(_)] => prop_assert!(!fits, "{}: both reject it: {}", operators, error),
        [fast, naive] => return Err(TestCaseError::fail(format!("{operators}: {fast:?}, but {naive:?}"))),
    }
    Ok(())
}

/// Returns true if a dilated kernel fits into the padded input along each axis.
fn window_fits(lens: [usize; 2], kernel: [usize; 2], dilation: [usize; 2], padding: [usize; 2]) -> bool {
    (0..2).all(|axis| lens[axis] + 2 * padding[axis] > dilation[axis] * (kernel[axis] - 1))
}

fn noise(shape: &[usize]) -> Tensor {
    Tensor::randn(shape, 3).unwrap()
}

fn pair(range: std::ops::Range<usize>) -> impl Strategy<Value = [usize; 2]> {
    [range.clone(), range]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn convolution(
        [batch, groups] in pair(1..4), [filters, channels] in pair(1..4), lens in pair(1..8),
        kernel in pair(1..4), stride in pair(1..4), dilation in pair(1..3), padding in pair(0..3), bias: bool,
    ) {
        let (all, out) = (channels * groups, filters * groups);
        let fits = window_fits(lens, kernel, dilation, padding);
        let [kernel_size, stride, dilation, padding] =
            [kernel, stride, dilation, padding].map(|[rows, columns]| format!("({rows},{columns})"));
        let (flag, bias) = if bias { ("True", format!("@bias=({out})f32")) } else { ("False", String::new()) };
        let text = format!(
            "nn.Conv2d conv 1 1 x y bias={flag} dilation={dilation} groups={groups} in_channels={all} \
             kernel_size={kernel_size} out_channels={out} padding={padding} padding_mode=zeros stride={stride} {bias} \
             @weight=({out},{channels},{},{})f32", kernel[0], kernel[1],
        );
        agree(&text, &[&noise(&[batch, all, lens[0], lens[1]])], fits)?;
    }

    #[test]
    fn pooling(lens in pair(1..9), kernel in pair(1..4), stride in pair(1..4), dilation in pair(1..3), parts in pair(1..5)) {
        let input = noise(&[2, 3, lens[0], lens[1]]);
        let [[kh, kw], [sh, sw], [dh, dw], [ph, pw]] = [kernel, stride, dilation, kernel.map(|len| len / 2)];
        let text = format!(
            "nn.MaxPool2d pool 1 1 x y ceil_mode=False dilation=({dh},{dw}) kernel_size=({kh},{kw}) padding=({ph},{pw}) \
             return_indices=False stride=({sh},{sw})",
        );
        agree(&text, &[&input], window_fits(lens, kernel, dilation, [ph, pw]))?;
        let [rows, columns] = parts;
        agree(&format!("nn.AdaptiveAvgPool2d pool 1 1 x y output_size=({rows},{columns})"), &[&input], true)?;
    }

    #[test]
    fn flattening(start in -5i64..5, end in -5i64..5) {
        let text = format!("torch.flatten flat 1 1 x y end_dim={end} start_dim={start}");
        let axis = |axis: i64| (-4..4).contains(&axis).then(|| axis.rem_euclid(4));
        let fits = axis(start).zip(axis(end)).is_some_and(|(start, end)| start <= end);
        agree(&text, &[&noise(&[2, 3, 1, 4])], fits)?;
        let permuted = noise(&[2, 3, 1, 4]).permute(&[3, 1, 2, 0]).unwrap();
        agree(&text, &[&permuted], fits)?;
    }

    #[test]
    fn the_rest(rows in 1usize..4, inputs in 1usize..6, outputs in 1usize..6) {
        let (x, z) = (noise(&[rows, inputs]), noise(&[rows, inputs]));
        agree("nn.ReLU relu 1 1 x y", &[&x], true)?;
        agree("pnnx.Expression sum 2 1 x z y expr=add(@0,mul(@1,2.5))", &[&x, &z], true)?;
        let text = format!(
            "nn.Linear linear 1 1 x y bias=True in_features={inputs} out_features={outputs} @bias=({outputs})f32 \
             @weight=({outputs},{inputs})f32"
        );
        agree(&text, &[&x], true)?;
    }
}

#[test]
fn what_is_not_implemented_is_refused() {
    let x = noise(&[1, 2, 4, 4]);
    let conv = "nn.Conv2d conv 1 1 x y in_channels=2 kernel_size=(3,3) out_channels=2 @weight=(2,2,3,3)f32 bias=False";
    let says = |text: &str| both(text, &[&x])[1].as_ref().unwrap_err().to_string();
    assert!(says(&format!("{conv} padding_mode=reflect padding=(1,1)")).contains("only zeros"));
    assert!(says(&format!("{conv} groups=0")).contains("it must divide"));
    assert!(says(&conv.replace("(3,3)", "(9,9)").replace("2,3,3)", "2,9,9)")).contains("rejects its inputs"));
    assert!(says("nn.MaxPool2d pool 1 1 x y kernel_size=2 stride=2 ceil_mode=True").contains("ceil_mode"));
}

/// Whole networks on layers that share no code with the fast ones.
#[test]
fn whole_networks_give_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file");
    let text = std::fs::read_to_string(folder.join("resnet18/resnet18.pnnx.param")).unwrap();
    // With random weights, an eighth of the channels and a small image suffice.
    let eighth = [("64", "8"), ("128", "16"), ("256", "32"), ("512", "64"), ("(1,3,224,224)", "(1,3,32,32)")];
    let small = eighth.into_iter().fold(text, |text, (from, to)| text.replace(from, to));
    for (name, shape) in
        [("resnet18", &[1, 3, 32, 32][..]), ("conv3", &[1, 3, 32, 32]), ("digits", &[2, 1, 8, 8])]
    {
        let input = Tensor::rand_uniform(shape, 0.0, 1.0, 7).unwrap();
        let [fast, naive] = [Registry::default(), naive::residual_network().unwrap()].map(|registry| {
            let graph = match name {
                "resnet18" => RuntimeGraph::from_pnnx(Graph::parse(&small, &Limits::default()).unwrap())
                    .with_random_weights(1),
                _ => RuntimeGraph::new(folder.join(format!("{name}/{name}.pnnx.param"))),
            };
            let mut graph = graph.with_registry(registry);
            graph.build().unwrap();
            graph.run_with(vec![input.clone()]).unwrap().remove(0)
        });
        let comparison = naive.allclose(&fast, 1e-3, 1e-4, false).unwrap();
        assert!(comparison.holds(), "{name}: {comparison}");
    }
}

#[test]
fn a_complete_graph_runs_both_ways() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model_file/linear");
    let input = Tensor::load_npy(folder.join("in_0.npy"), &Limits::default()).unwrap();
    let run = |registry: Registry| {
        let mut graph = RuntimeGraph::new(folder.join("linear.pnnx.param")).with_registry(registry);
        graph.build().unwrap();
        graph.run_with(vec![input.clone()]).unwrap().remove(0).to_vec::<f32>().unwrap()
    };
    let [alone, over, fast] =
        [naive::registry().unwrap(), naive::over_built_in(&naive::registry().unwrap()), Registry::default()]
            .map(run);
    assert_eq!(alone, over);
    assert!(over.iter().zip(&fast).all(|(slow, fast)| (slow - fast).abs() < 1e-6));
}
