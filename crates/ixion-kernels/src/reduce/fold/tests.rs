//! Tests of reductions against the naive ones.

use super::*;
use crate::naive;
use ixion_tensor::{Layout, Limits, Shape, Tensor};
use ndarray::ArrayView1;
use proptest::prelude::*;

const OPERATIONS: [Operation; 15] = [
    Operation::Sum,
    Operation::Mean,
    Operation::Product,
    Operation::Max,
    Operation::Min,
    Operation::Variance { correction: 1.0 },
    Operation::Deviation { correction: 0.0 },
    Operation::LogSumExp,
    Operation::Norm { p: 0.0 },
    Operation::Norm { p: 1.0 },
    Operation::Norm { p: 2.0 },
    Operation::Norm { p: 3.0 },
    Operation::Norm { p: 3.5 },
    Operation::Norm { p: f64::INFINITY },
    Operation::Norm { p: f64::NEG_INFINITY },
];

fn naively(operation: Operation, row: &[f64]) -> f64 {
    let view = ArrayView1::from(row);
    let at = |index: Option<usize>, none: f64| index.map_or(none, |index| row[index]);
    match operation {
        Operation::Sum => naive::sum(view),
        Operation::Mean => naive::sum(view) / row.len() as f64,
        Operation::Product => naive::product(view),
        Operation::Max => at(naive::arg_max(view), f64::NEG_INFINITY),
        Operation::Min => at(naive::arg_min(view), f64::INFINITY),
        Operation::Variance { correction } => naive::variance(view, correction),
        Operation::Deviation { correction } => naive::variance(view, correction).sqrt(),
        Operation::LogSumExp => naive::log_sum_exp(view),
        Operation::Norm { p } => naive::norm(view, p),
    }
}

/// Numbers between −2 and 2, and some that are not finite.
fn number(i: usize, seed: usize, specials: Option<usize>) -> f64 {
    let mixed = i * 37 + seed * 11;
    match specials.map(|every| mixed % every) {
        Some(0) => f64::NAN,
        Some(1) => f64::INFINITY,
        Some(2) => f64::NEG_INFINITY,
        _ => (mixed % 65) as f64 / 16.0 - 2.0,
    }
}

proptest! {
    #[test]
    fn all_operations_of_all_floats(
        (kept, folded) in (1usize..40, 0usize..40),
        by_columns: bool,
        step in 1usize..4,
        specials in proptest::option::of(20usize..200),
        seed in 0usize..1000,
        operation in 0..OPERATIONS.len(),
    ) {
        let operation = OPERATIONS[operation];
        let lens = if by_columns { [folded, kept] } else { [kept, folded] };
        // Only every `step`-th element of a stored row belongs to the matrix.
        let stored = [lens[0], lens[1] * step];
        let values: Vec<f64> = (0..stored[0] * stored[1]).map(|i| number(i, seed, specials)).collect();
        let layout = Layout::contiguous(Shape::new(&stored).unwrap()).slice(1, 0, stored[1], step).unwrap();
        let limits = Limits::default();
        let walk = Walk::new(&layout, &[by_columns, !by_columns], &limits);
        let at = |row: usize, column: usize| values[row * stored[1] + column * step];
        let row = |k: usize| (0..folded).map(move |f| if by_columns { at(f, k) } else { at(k, f) });
        let want: Vec<f64> = (0..kept).map(|k| naively(operation, &row(k).collect::<Vec<_>>())).collect();
        prop_assert_eq!(walk.outputs(), kept);
        let tensor = Tensor::from_vec(values, &stored).unwrap();
        let of = |dtype| tensor.cast(dtype).unwrap();
        use ixion_tensor::DType;
        let (single, half, bf) = (of(DType::F32), of(DType::F16), of(DType::Bf16));
        for elements in [
            Floats::F64(tensor.slice().unwrap()),
            Floats::F32(single.slice().unwrap()),
            Floats::F16(half.slice().unwrap()),
            Floats::Bf16(bf.slice().unwrap()),
        ] {
            let (mut results, mut auxiliary) = (vec![7.0; walk.outputs()], vec![8.0; walk.outputs()]);
            operation.floats(&walk, elements, folded, &mut results, &mut auxiliary).unwrap();
            let mut singles = vec![9.0; walk.outputs()];
            if operation.in_single(&walk, elements, folded, true, &mut singles).unwrap() {
                for (&got, &want) in singles.iter().zip(&results) {
                    let got = f64::from(got);
                    let near = got == want || (got - want).abs() <= 1e-7 * want.abs();
                    prop_assert!(near || (got.is_nan() && want.is_nan()), "{operation:?}: {got}, not {want}");
                }
            }
            for (got, want) in results.iter().zip(&want) {
                let near = got == want || (got - want).abs() <= 1e-6 * want.abs().max(1.0);
                prop_assert!(near || (got.is_nan() && want.is_nan()), "{operation:?}: {got}, not {want}");
            }
        }
    }

    #[test]
    fn all_integers(values in proptest::collection::vec(0u8..2, 1..3000)) {
        let layout = Layout::contiguous(Shape::new(&[values.len()]).unwrap());
        let limits = Limits::default();
        let walk = Walk::new(&layout, &[true], &limits);
        let bools: Vec<bool> = values.iter().map(|&x| x == 1).collect();
        let (wide, long): (Vec<i32>, Vec<i64>) = values.iter().map(|&x| (i32::from(x), i64::from(x))).unzip();
        let wants = [
            (Operation::Sum, long.iter().sum()),
            (Operation::Product, long.iter().product()),
            (Operation::Max, *long.iter().max().unwrap()),
            (Operation::Min, *long.iter().min().unwrap()),
        ];
        for (operation, want) in wants {
            for elements in
                [Integers::U8(&values), Integers::Bool(&bools), Integers::I32(&wide), Integers::I64(&long)]
            {
                let mut result = [7];
                operation.integers(&walk, elements, &mut result).unwrap();
                prop_assert_eq!(result, [want]);
            }
        }
    }
}
