//! Tests of tensors against naive kernels, which the tensor crate cannot depend on.

use super::{all_close, fill, flatten, pad_constant, reshape};
use ixion_tensor::{Element, Order, Tensor};
use proptest::prelude::*;

fn counting(dims: &[usize]) -> Tensor {
    let len: usize = dims.iter().product();
    Tensor::from_vec((0..len as i32).collect(), dims).unwrap()
}

fn vector<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len()]).unwrap()
}

proptest! {
    #[test]
    fn closeness_is_the_naive_rule(
        pairs in proptest::collection::vec(
            (
                prop_oneof![8 => -9f64..9.0, 1 => Just(f64::INFINITY), 1 => Just(f64::NAN)],
                prop_oneof![8 => -0.1f64..0.1, 2 => Just(0.0), 1 => Just(f64::NEG_INFINITY)],
            ),
            0..6,
        ),
        rtol in 0f64..0.02,
        atol in 0f64..0.02,
    ) {
        let want = vector(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
        let got = vector(&pairs.iter().map(|pair| pair.0 + pair.1).collect::<Vec<_>>());
        let close = all_close(got.array().unwrap(), want.array().unwrap(), rtol, atol);
        prop_assert_eq!(got.allclose(&want, rtol, atol, false).unwrap().holds(), close);
    }

    #[test]
    fn padding_keeps_the_middle_and_fills_the_rest(
        axes in proptest::collection::vec((0usize..4, 0usize..3, 0usize..3), 0..4),
    ) {
        let dims: Vec<usize> = axes.iter().map(|axis| axis.0).collect();
        let amounts: Vec<_> = axes.iter().map(|axis| (axis.1, axis.2)).collect();
        let len: usize = dims.iter().product();
        let x = Tensor::from_vec((0..len as i32).collect(), &dims).unwrap();
        let want = pad_constant(x.array().unwrap(), &amounts, -7i32);
        let padded = x.pad(&amounts, -7i32).unwrap();
        prop_assert_eq!(padded.array::<i32>().unwrap(), want);
    }

    #[test]
    fn reshaping_is_flattening_and_filling(
        dims in proptest::collection::vec(1usize..5, 0..4),
        turn in 0usize..4,
        cut in proptest::collection::vec(1usize..5, 0..3),
    ) {
        let mut order: Vec<i64> = (0..dims.len() as i64).collect();
        order.rotate_left(turn.min(dims.len()));
        let x = counting(&dims).permute(&order).unwrap();
        let part = cut.iter().product::<usize>();
        if x.num_elements().is_multiple_of(part) {
            let mut shape = cut.clone();
            shape.push(x.num_elements() / part);
            let array = x.array::<i32>().unwrap();
            for (order, numpy) in
                [(Order::RowMajor, ndarray::Order::C), (Order::ColumnMajor, ndarray::Order::F)]
            {
                let want = reshape(array.view(), &shape, order);
                prop_assert_eq!(&array.to_shape((&shape[..], numpy)).unwrap(), &want);
                let got = x.reshape_in(&shape, order).unwrap();
                prop_assert_eq!(got.array::<i32>().unwrap(), want);
                let flat = x.to_vec_in::<i32>(order).unwrap();
                prop_assert_eq!(&flat, &flatten(array.view(), order));
                let mut filled = Tensor::full(&shape, 0i32).unwrap();
                filled.fill_from(&flat, order).unwrap();
                prop_assert_eq!(filled.array::<i32>().unwrap(), fill(&flat, &shape, order));
                prop_assert_eq!(Tensor::from_vec_in(flat, x.shape(), order).unwrap(), x.clone());
            }
        }
    }
}
