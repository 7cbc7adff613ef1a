//! The guarantees of `book/src/reference/numerics.md`: each has an existing test. Guarantees that stored results of PyTorch
//! cannot prove (errors, and results that PyTorch leaves undefined) are tested here.

use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::Graph;
use ixion::tensor::{Complex, DType, Element, Tensor};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

fn row<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap()
}

/// Runs one operator on all inputs; an error contains its causes, in one line.
fn run(op_type: &str, params: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    let names: Vec<String> = (0..inputs.len()).map(|index| format!("x{index}")).collect();
    let mut text = format!("7767517\n{} {}\n", inputs.len() + 2, inputs.len() + 1);
    for name in &names {
        text += &format!("pnnx.Input {name} 0 1 {name}\n");
    }
    text += &format!("{op_type} tested {} 1 {} y {params}\n", inputs.len(), names.join(" "));
    text += "pnnx.Output out 1 0 y\n";
    let file = Graph::parse(&text, &Limits::default()).unwrap();
    let mut graph = RuntimeGraph::from_pnnx(file);
    let result = graph.build().and_then(|()| graph.run_with(inputs.to_vec()));
    result.map_err(|error| {
        let sources = std::iter::successors(Some(&error as &dyn Error), |&error| error.source());
        sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    })
}

fn refused(op_type: &str, params: &str, inputs: &[Tensor], reason: &str) {
    match run(op_type, params, inputs) {
        Ok(_) => panic!("{op_type} {params} has a result"),
        Err(error) => assert!(
            error.contains(reason) && error.contains(&format!("{op_type} `tested`")),
            "{op_type} {params}: {error}"
        ),
    }
}

#[test]
fn dividing_integers_by_zero_is_an_error() {
    for inputs in [[row(&[7i64, 1]), row(&[2i64, 0])], [row(&[7u8, 1]), row(&[2u8, 0])]] {
        for function in ["floor_divide", "remainder", "fmod"] {
            refused("pnnx.Expression", &format!("expr={function}(@0,@1)"), &inputs, "divided by zero");
        }
    }
    refused("pnnx.Expression", "expr=remainder(@0,0)", &[row(&[1i32])], "divided by zero");
    refused("pnnx.Expression", "expr=pow(@0,-2)", &[row(&[1i64])], "negative power -2");
    let none = run("pnnx.Expression", "expr=floor_divide(@0,0)", &[row::<i64>(&[])]).unwrap();
    assert_eq!(none[0].shape().dims(), [0]);
}

/// PyTorch raises an error for each of these.
#[test]
fn what_pytorch_refuses_is_refused() {
    let (bools, whole) = (row(&[true, false]), row(&[1i64, 2]));
    let (single, complex) = (row(&[1f32, 2.0]), row(&[Complex::new(1f32, 2.0), Complex::new(0.0, 1.0)]));
    let nothing = Tensor::zeros(DType::F32, &[2, 0]).unwrap();
    for (op_type, params) in [
        ("torch.max", "dim=1"),
        ("torch.min", "dim=-1 keepdim=True"),
        ("torch.max", ""),
        ("torch.amax", "dim=(1)"),
        ("torch.amin", "dim=(0,1)"),
        ("torch.argmax", "dim=1"),
        ("torch.argmin", "dim=None"),
    ] {
        refused(op_type, params, std::slice::from_ref(&nothing), "at least one element");
    }
    for function in ["floor", "ceil", "round", "trunc", "neg", "abs"] {
        refused("pnnx.Expression", &format!("expr={function}(@0)"), std::slice::from_ref(&bools), "bool");
    }
    refused("pnnx.Expression", "expr=sub(@0,@1)", &[bools.clone(), bools.clone()], "bool");
    refused("pnnx.Expression", "expr=lshift(@0,@0)", std::slice::from_ref(&single), "f32");
    refused("pnnx.Expression", "expr=and(@0,@0)", std::slice::from_ref(&single), "f32");
    for function in ["maximum", "minimum", "floor_divide", "remainder", "fmod", "atan2"] {
        let inputs = [complex.clone(), complex.clone()];
        refused("pnnx.Expression", &format!("expr={function}(@0,@1)"), &inputs, "c64");
    }
    for (op_type, params) in [
        ("torch.lt", "other=1"),
        ("torch.ge", "other=1"),
        ("torch.clamp", "min=0"),
        ("torch.amax", "dim=(0)"),
        ("torch.argmax", "dim=0"),
        ("torch.bitwise_not", ""),
    ] {
        refused(op_type, params, std::slice::from_ref(&complex), "c64");
    }
    refused("torch.mean", "", std::slice::from_ref(&whole), "i64");
    refused("torch.var", "", &[whole], "i64");
    refused("torch.view_as_real", "", &[single], "f32");
    refused("torch.positive", "", &[bools], "bool");
}

/// In PyTorch, these depend on the processor.
#[test]
fn floats_beyond_an_integer_type_saturate() {
    let x = [row(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 300.0, -1.5, 1e30])];
    let cast = |dtype: &str| run("Tensor.to", &format!("dtype={dtype}"), &x).unwrap().remove(0);
    assert_eq!(cast("torch.uint8").to_vec::<u8>().unwrap(), [0, 255, 0, 255, 0, 255]);
    assert_eq!(cast("torch.int8").to_vec::<i8>().unwrap(), [0, 127, -128, 127, -1, 127]);
    let (least, most) = (i64::MIN, i64::MAX);
    assert_eq!(cast("torch.long").to_vec::<i64>().unwrap(), [0, most, least, 300, -1, most]);
    let in_expression = run("pnnx.Expression", "expr=torch.int(@0)", &x).unwrap().remove(0);
    assert_eq!(in_expression.to_vec::<i32>().unwrap(), [0, i32::MAX, i32::MIN, 300, -1, i32::MAX]);
}

#[test]
fn every_run_gives_the_same_bits() {
    let x = [Tensor::randn(&[64, 1000], 7).unwrap()];
    for (op_type, params) in [
        ("torch.sum", "dim=(1)"),
        ("torch.var", ""),
        ("F.softmax", "dim=1"),
        ("pnnx.Expression", "expr=sin(@0)"),
    ] {
        let bits = || -> Vec<u32> {
            let result = run(op_type, params, &x).unwrap().remove(0);
            result.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
        };
        assert_eq!(bits(), bits(), "{op_type}");
    }
}

/// STFT, a mask of ones, and inverse STFT.
#[test]
fn a_second_of_sound_comes_back() {
    let stft = "center=True hop_length=128 n_fft=512 normalized=False onesided=True win_length=None";
    let text = format!(
        "7767517\n7 6\npnnx.Input sound 0 1 x\npnnx.Input window 0 1 w\npnnx.Input mask 0 1 m\n\
         torch.stft there 2 1 x w s {stft} pad_mode=reflect return_complex=True $input=x $window=w\n\
         pnnx.Expression masked 2 1 s m t expr=mul(@0,@1)\n\
         torch.istft back 2 1 t w y {stft} length=16000 return_complex=False $input=t $window=w\n\
         pnnx.Output out 1 0 y\n"
    );
    let turn = std::f64::consts::TAU;
    let sound: Vec<f32> = (0..16_000)
        .map(|at| f64::from(at) / 16_000.0)
        .map(|time| (0.5 * (turn * 220.0 * time).sin() + 0.3 * (turn * 3_131.0 * time * time).cos()) as f32)
        .collect();
    let window: Vec<f32> =
        (0..512).map(|at| (0.5 - 0.5 * (turn * f64::from(at) / 512.0).cos()) as f32).collect();
    let mut graph = RuntimeGraph::from_pnnx(Graph::parse(&text, &Limits::default()).unwrap());
    graph.build().unwrap();
    let sound = Tensor::from_vec(sound, &[1, 16_000]).unwrap();
    let inputs = vec![sound.clone(), row(&window), Tensor::ones(DType::F32, &[257, 126]).unwrap()];
    let back = graph.run_with(inputs).unwrap();
    let comparison = back[0].allclose(&sound, 0.0, 1e-6, false).unwrap();
    assert!(comparison.holds(), "{comparison}");
}

/// The names of all test functions below a folder.
fn tests_in(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests_in(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let functions = text.lines().filter_map(|line| line.trim().strip_prefix("fn "));
            names.extend(functions.filter_map(|line| line.split_once('(')).map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn every_promise_has_a_proof_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut known = BTreeSet::new();
    for folder in ["src", "crates", "tests"] {
        tests_in(&root.join(folder), &mut known);
    }
    let page = fs::read_to_string(root.join("book/src/reference/numerics.md")).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| Proof |"));
    let mut count = 0;
    for line in lines {
        let proofs = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = proofs.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no proof: {line}");
        for name in names {
            let is_case = root.join("tests/cases").join(name).join("model.param").is_file();
            assert!(is_case || known.contains(name), "`{name}` is neither a case nor a test: {line}");
        }
        count += 1;
    }
    assert!(count > 40, "the page has {count} promises");
}
