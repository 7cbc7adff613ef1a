//! Whole expressions against the naive evaluator, and against their functions one at a time.

use super::*;
use ixion_pnnx::{Expr, Function};
use ixion_tensor::Scalar;
use proptest::prelude::*;

fn pick(functions: &'static [Function]) -> impl Strategy<Value = Function> {
    prop::sample::select(functions)
}

fn call(function: Function, args: Vec<Expr>) -> Expr {
    Expr::Call { function, args }
}

/// Random trees over inputs and literals.
fn trees(
    unary: &'static [Function],
    binary: &'static [Function],
    literal: BoxedStrategy<Expr>,
) -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![3 => (0usize..4).prop_map(Expr::Input), 1 => literal];
    leaf.prop_recursive(6, 40, 2, move |inner| {
        prop_oneof![
            1 => (pick(unary), inner.clone()).prop_map(|(f, x)| call(f, vec![x])),
            2 => (pick(binary), inner.clone(), inner).prop_map(|(f, a, b)| call(f, vec![a, b])),
        ]
    })
}

/// Shapes that are broadcast against 2×3×… in every way; some have a last axis that is longer than a block.
fn shapes() -> impl Strategy<Value = Vec<Vec<usize>>> {
    let shape = |last: usize| {
        (0usize..4, prop::collection::vec(any::<bool>(), 3)).prop_map(move |(skip, ones)| {
            let full = [2, 3, last].into_iter().zip(ones);
            full.map(|(len, one)| if one { 1 } else { len }).skip(skip).collect::<Vec<usize>>()
        })
    };
    prop_oneof![Just(1), Just(5), Just(700)].prop_flat_map(move |last| prop::collection::vec(shape(last), 4))
}

/// Small integers; every other input is stored transposed.
fn inputs(shapes: &[Vec<usize>], dtypes: &[DType], seed: usize) -> Vec<Tensor> {
    let fill = |(position, (shape, dtype)): (usize, (&Vec<usize>, &DType))| {
        let reversed: Vec<usize> = shape.iter().rev().copied().collect();
        let count = shape.iter().product();
        let values: Vec<f64> =
            (0..count).map(|i| ((i * 7 + position * 5 + seed) % 13) as f64 - 6.0).collect();
        let axes: Vec<i64> = (0..shape.len() as i64).rev().collect();
        let transposed = (position + seed).is_multiple_of(2);
        let tensor = tensor(&values, if transposed { &reversed } else { shape }).cast(*dtype).unwrap();
        if transposed { tensor.permute(&axes).unwrap() } else { tensor }
    };
    shapes.iter().zip(dtypes.iter().cycle()).enumerate().map(fill).collect()
}

const UNARY: &[Function] = &[
    Function::Neg,
    Function::Abs,
    Function::Square,
    Function::Floor,
    Function::Exp,
    Function::Atan,
    Function::Sign,
];
const BINARY: &[Function] = &[
    Function::Add,
    Function::Sub,
    Function::Mul,
    Function::Div,
    Function::Maximum,
    Function::Min,
    Function::Atan2,
];

/// The result of running the functions one at a time, with complete tensors in between; numbers stay as they are.
fn one_at_a_time(expr: &Expr, inputs: &[Tensor]) -> Result<Result<Tensor, Expr>> {
    let Expr::Call { function, args } = expr else {
        return Ok(match expr {
            Expr::Input(position) => Ok(inputs[*position].clone()),
            number => Err(number.clone()),
        });
    };
    let (mut tensors, mut simple) = (Vec::new(), Vec::new());
    for arg in args {
        simple.push(match one_at_a_time(arg, inputs)? {
            Ok(tensor) => {
                tensors.push(tensor);
                Expr::Input(tensors.len() - 1)
            }
            Err(number) => number,
        });
    }
    let simple = call(*function, simple);
    if tensors.is_empty() { Ok(Err(simple)) } else { run(&simple.to_string(), &tensors).map(Ok) }
}

/// All elements; NaN compares equal to itself.
fn elements(tensor: &Tensor) -> Vec<String> {
    let all = 0..tensor.num_elements();
    all.map(|i| tensor.get_scalar(&tensor.shape().index_of(i)).map_or_else(|e| e.to_string(), show)).collect()
}

fn show(scalar: Scalar) -> String {
    format!("{scalar:?}")
}

const MIXED_UNARY: &[Function] = &[
    Function::Neg,
    Function::Abs,
    Function::Square,
    Function::Trunc,
    Function::Sin,
    Function::Sqrt,
    Function::Int,
    Function::Cast(DType::F16),
    Function::Cast(DType::I8),
    Function::Cast(DType::Bool),
    Function::Cast(DType::F64),
    Function::Cast(DType::C64),
];
const MIXED_BINARY: &[Function] = &[
    Function::Add,
    Function::Sub,
    Function::Mul,
    Function::Div,
    Function::FloorDivide,
    Function::Remainder,
    Function::Pow,
    Function::Max,
    Function::Xor,
    Function::Rshift,
];

/// Arithmetic on the sizes of an input of three axes.
fn size_trees() -> impl Strategy<Value = Expr> {
    const BINARY: &[Function] = &[
        Function::Add,
        Function::Sub,
        Function::Mul,
        Function::FloorDivide,
        Function::Remainder,
        Function::Max,
        Function::Minimum,
    ];
    const ROUNDING: &[Function] = &[Function::Int, Function::Floor, Function::Ceil, Function::Trunc];
    let leaf = prop_oneof![
        2 => (-3i64..3).prop_map(|axis| call(Function::Size, vec![Expr::Input(0), Expr::Int(axis)])),
        1 => (-3i64..5).prop_map(Expr::Int),
    ];
    leaf.prop_recursive(4, 20, 2, |inner| {
        let quotient = |(rounding, a, b)| call(rounding, vec![call(Function::Div, vec![a, b])]);
        prop_oneof![
            3 => (pick(BINARY), inner.clone(), inner.clone()).prop_map(|(f, a, b)| call(f, vec![a, b])),
            1 => (pick(ROUNDING), inner.clone(), inner.clone()).prop_map(quotient),
            1 => inner.prop_map(|x| call(Function::Neg, vec![x])),
        ]
    })
}

/// Returns true if a subexpression without inputs is rounded. In PyTorch the result is an integer, which has no negative zero;
/// the naive evaluator supports only floats, and 1 / −0 is not 1 / 0.
fn rounds_a_number(tree: &Expr) -> bool {
    let mut found = false;
    tree.walk(&mut |part| {
        let rounds = matches!(part, Expr::Call { function, .. } if
            matches!(function, Function::Floor | Function::Ceil | Function::Round | Function::Trunc | Function::Int));
        found |= rounds && part.input_count() == 0;
    });
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_program_equals_the_naive_evaluator(
        tree in trees(UNARY, BINARY, prop_oneof![Just(0.5f64), Just(-2.0), Just(3.0)].prop_map(Expr::Float).boxed()),
        shapes in shapes(),
        seed in 0usize..100,
    ) {
        prop_assume!(tree.input_count() > 0 && !rounds_a_number(&tree));
        let inputs = inputs(&shapes, &[DType::F64], seed);
        let arrays: Vec<_> = inputs.iter().map(|input| input.array::<f64>().unwrap()).collect();
        let want = crate::naive::evaluate(&tree, &arrays).unwrap();
        let got = run(&tree.to_string(), &inputs).unwrap();
        prop_assert_eq!(got.shape().dims(), want.shape());
        for (got, want) in got.to_vec::<f64>().unwrap().iter().zip(&want) {
            prop_assert!(got == want || (got.is_nan() && want.is_nan()), "{}: {} and {}", tree, got, want);
        }
    }

    #[test]
    fn a_program_equals_its_functions_one_at_a_time(
        tree in trees(MIXED_UNARY, MIXED_BINARY, prop_oneof![
            (-3i64..4).prop_map(Expr::Int), Just(Expr::Float(0.3)), Just(Expr::Bool(true)),
        ].boxed()),
        shapes in shapes(),
        dtypes in prop::collection::vec(prop::sample::select(&DType::ALL[..]), 4),
        seed in 0usize..100,
    ) {
        let inputs = inputs(&shapes, &dtypes, seed);
        let fused = run(&tree.to_string(), &inputs);
        match (fused, one_at_a_time(&tree, &inputs)) {
            (Ok(fused), Ok(Ok(want))) => {
                prop_assert_eq!((fused.dtype(), fused.shape()), (want.dtype(), want.shape()), "{}", tree);
                prop_assert_eq!(elements(&fused), elements(&want), "{}", tree);
            }
            (Ok(_), Ok(Err(_))) => {}
            (fused, want) => {
                prop_assert!(fused.is_err() && !matches!(want, Ok(Ok(_))), "{}: {:?} and {:?}", tree, fused, want);
            }
        }
    }

    #[test]
    fn symbols_follow_the_same_rules_as_numbers(tree in size_trees(), dims in prop::array::uniform3(0usize..9)) {
        let names = ["a", "b", "c"];
        let value_of = |name: &str| names.iter().position(|known| *known == name).map(|axis| dims[axis] as i64);
        let layer = layer(&tree.to_string()).unwrap();
        let meta = layer.infer(&[TensorMeta::new(DType::F32, names.map(Dim::symbol))]).unwrap().remove(0);
        let ran = run(&tree.to_string(), &[Tensor::zeros(DType::F32, &dims).unwrap()]);
        if let (Some([value]), Ok(want)) = (meta.values(), ran) {
            prop_assert_eq!(value.evaluate(&value_of), want.item::<i64>().ok(), "{}", value);
        }
    }
}
