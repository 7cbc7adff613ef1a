//! Values and element types computed by PyTorch.

use super::*;
use ixion_pnnx::Expr;
use ixion_tensor::Complex;

/// Reads `f32 2x3: 1.0 2.0 …`.
fn read(text: &str) -> Tensor {
    let (kind, values) = text.split_once(": ").unwrap();
    let (dtype, shape) = kind.split_once(' ').unwrap();
    let dtype = DType::from_name(dtype).unwrap();
    let shape: Vec<usize> =
        if shape == "scalar" { vec![] } else { shape.split('x').map(|len| len.parse().unwrap()).collect() };
    let count = shape.iter().product();
    let values: Vec<Expr> = values.split(' ').map(|value| value.parse().unwrap()).collect();
    let integers: Option<Vec<i64>> =
        values.iter().map(|value| if let Expr::Int(x) = value { Some(*x) } else { None }).collect();
    let tensor = match integers {
        Some(integers) => tensor(&integers.into_iter().cycle().take(count).collect::<Vec<_>>(), &shape),
        None => tensor(&values.iter().map(number).cycle().take(count).collect::<Vec<_>>(), &shape),
    };
    tensor.cast(dtype).unwrap()
}

fn number(expr: &Expr) -> Complex<f64> {
    match expr {
        Expr::Int(value) => (*value as f64).into(),
        Expr::Float(value) => (*value).into(),
        Expr::Complex(value) => *value,
        Expr::Bool(value) => f64::from(u8::from(*value)).into(),
        other => panic!("{other} is not a number"),
    }
}

/// The relative tolerance between a result and PyTorch's.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-13,
        DType::C128 => 1e-11,
        DType::F32 | DType::C64 => 5e-7,
        _ => 0.0,
    }
}

fn close(got: f64, want: f64, scale: f64) -> bool {
    got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= scale
}

/// Describes the difference, if there is any.
fn difference(got: &Tensor, want: &Tensor) -> Option<String> {
    if (got.dtype(), got.shape()) != (want.dtype(), want.shape()) {
        return Some(format!(
            "got {} {}, expected {} {}",
            got.dtype(),
            got.shape(),
            want.dtype(),
            want.shape()
        ));
    }
    if want.dtype() == DType::I64 {
        return (got.to_le_bytes() != want.to_le_bytes()).then(|| format!("{:?}", got.to_vec::<i64>()));
    }
    let wide = |tensor: &Tensor| tensor.cast(DType::C128).unwrap().to_vec::<Complex<f64>>().unwrap();
    let dtype = want.dtype();
    wide(got).into_iter().zip(wide(want)).find_map(|(got, want)| {
        let scale = want.norm() * tolerance(dtype);
        (!close(got.re, want.re, scale) || !close(got.im, want.im, scale))
            .then(|| format!("got {got}, expected {want}"))
    })
}

#[test]
fn every_function_and_promotion() {
    let (mut inputs, mut faults, mut count) = (Vec::new(), Vec::new(), 0);
    for line in include_str!("pytorch.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some((input, value)) = line.split_once(" is ") {
            let position: usize = input.trim_start_matches('@').parse().unwrap();
            inputs.truncate(position);
            inputs.push(read(value));
            continue;
        }
        let (text, want) = line.split_once(" gives ").unwrap();
        count += 1;
        match (run(text, &inputs), want) {
            (Err(_), "error") => {}
            (Ok(got), "error") => {
                faults.push(format!("{text}: got {:?}, but PyTorch refuses it", got.dtype()))
            }
            (Err(error), _) => faults.push(format!("{text}: {error}")),
            (Ok(got), want) => {
                faults.extend(difference(&got, &read(want)).map(|what| format!("{line}: {what}")))
            }
        }
    }
    assert!(count > 250, "{count} cases only");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The oracle of the fast programs is checked as well, where it is meant to be exact: for moderate numbers.
#[test]
fn the_naive_evaluator_on_real_numbers() {
    let (mut inputs, mut count) = (Vec::<Vec<f64>>::new(), 0);
    for line in include_str!("pytorch.txt").lines() {
        if let Some((input, value)) = line.split_once(" is ") {
            inputs.truncate(input.trim_start_matches('@').parse().unwrap());
            inputs.push(read(value).to_vec::<f64>().unwrap_or_default());
            continue;
        }
        let Some((text, want)) = line.split_once(" gives f64 ") else { continue };
        let arrays: Vec<_> = inputs.iter().map(|input| ndarray::aview1(input).into_dyn()).collect();
        let Some(got) = crate::naive::evaluate(&text.parse().unwrap(), &arrays) else { continue };
        for (position, want) in read(&format!("f64 {want}")).to_vec::<f64>().unwrap().into_iter().enumerate()
        {
            let moderate = inputs.iter().all(|input| input.get(position).is_some_and(|x| x.abs() < 100.0));
            if moderate {
                count += 1;
                let got = got.iter().copied().nth(position).unwrap();
                assert!(
                    close(got, want, want.abs() * 1e-13),
                    "{text} at {position}: got {got}, expected {want}"
                );
            }
        }
    }
    assert!(count > 100, "{count} elements only");
}

/// The element types that functions return for each of the 13 types, in the order of [`DType::ALL`]; `-` is an error.
#[test]
fn element_types_of_all_functions() {
    let kinds: [(&str, &[&str]); 10] = [
        ("f32 f64 f16 bf16 f32 f32 f32 f32 f32 f32 c32 c64 c128", FLOATING),
        ("f32 f64 f16 bf16 f32 f32 f32 f32 f32 f32 - - -", &["erf", "atan2", "sigmoid"]),
        (
            "f32 f64 f16 bf16 i64 i32 i16 i8 u8 - - - -",
            &["ceil", "floor", "round", "trunc", "floor_divide", "remainder", "fmod", "relu", "relu6"],
        ),
        ("f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool - - -", &["sign", "max", "min", "maximum", "minimum"]),
        ("f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool c32 c64 c128", &["add", "mul"]),
        ("f32 f64 f16 bf16 i64 i32 i16 i8 u8 - c32 c64 c128", &["neg", "sub", "pow"]),
        ("f32 f64 f16 bf16 - - - - - - c32 c64 c128", &["logaddexp"]),
        ("f32 f64 f16 bf16 - - - - - - - - -", ACTIVATIONS),
        ("- - - - i64 i32 i16 i8 u8 bool - - -", &["and", "or", "xor"]),
        ("- - - - i64 i32 i16 i8 u8 - - - -", &["lshift", "rshift"]),
    ];
    let others = [
        ("f32 f64 f16 bf16 i64 i32 i16 i8 u8 - f16 f32 f64", "abs"),
        ("f32 f64 f16 bf16 i64 i32 i16 i8 u8 i64 c32 c64 c128", "square"),
        ("i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 - - -", "int"),
    ];
    let all =
        kinds.iter().flat_map(|(types, names)| names.iter().map(move |name| (*types, *name))).chain(others);
    let mut seen = 2; // `size`, and `clamp`, which is tested with its layer
    for (types, name) in all {
        seen += 1;
        let unary = ixion_pnnx::Function::from_name(name).unwrap().arity().contains(&1);
        let text = if unary { format!("{name}(@0)") } else { format!("{name}(@0,@0)") };
        for (dtype, want) in DType::ALL.into_iter().zip(types.split(' ')) {
            let got = run(&text, &[Tensor::ones(dtype, &[2]).unwrap()]);
            assert_eq!(
                got.as_ref().map_or("-", |got| got.dtype().name()),
                want,
                "{text} of {dtype}: {got:?}"
            );
        }
    }
    assert_eq!(seen, ixion_pnnx::Function::ALL.len());
}

const FLOATING: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "div",
];

const ACTIVATIONS: &[&str] =
    &["silu", "gelu", "gelu_tanh", "hardsigmoid", "hardswish", "softplus", "mish", "leaky_relu", "elu"];
