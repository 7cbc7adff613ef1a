//! The tests of each task of lesson 02. Column-major results with three axes were computed with NumPy, padded ones with
//! PyTorch.

use super::subject::{
    broadcast_shapes, contiguous_strides, expanded_axes, fill, flatten, index_of, merged_axes, pad_constant,
    pad_source, position, reshape, reshaped_axes,
};
use ixion_kernels::naive::PadMode;
use ixion_tensor::{Axes, DType, Order, Tensor, TensorError};
use ndarray::{ArrayD, IxDyn, array};

const ROW: Order = Order::RowMajor;
const COLUMN: Order = Order::ColumnMajor;

/// The strides of a tensor without gaps.
fn strides(shape: &[usize], order: Order) -> Vec<usize> {
    let mut strides = vec![0; shape.len()];
    contiguous_strides(shape, order, &mut strides);
    strides
}

/// The strides of some axes.
fn strides_of(axes: &[(usize, usize)]) -> Vec<usize> {
    axes.iter().map(|axis| axis.1).collect()
}

/// 0, 1, 2, … in a shape.
fn counting(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::arange(DType::I64, 0.0, count as f64, 1.0).unwrap().reshape(shape).unwrap()
}

/// Length and stride of each axis of a tensor.
fn axes_of(tensor: &Tensor) -> Axes {
    tensor.shape().iter().copied().zip(tensor.layout().strides().iter().copied()).collect()
}

/// Views of the numbers 0 to 23: transposed, sliced and repeated.
fn views() -> Vec<Tensor> {
    let x = counting(&[2, 3, 4]);
    vec![
        x.clone(),
        x.permute(&[1, 0, 2]).unwrap(),
        x.permute(&[2, 1, 0]).unwrap(),
        x.narrow(2, 1, 2).unwrap(),
        x.narrow(1, 1, 2).unwrap(),
        x.select(0, 1).unwrap(),
        x.narrow(1, 2, 1).unwrap().permute(&[2, 1, 0]).unwrap(),
        x.narrow(0, 1, 1).unwrap().expand(&[2, 3, 4]).unwrap(),
    ]
}

#[test]
fn task1_row_major_strides() {
    let hint = "the last axis steps by 1, and each axis over all axes after it: 4, then 3·4 = 12";
    assert_eq!(strides(&[2, 3, 4], ROW), [12, 4, 1], "{hint}");
    assert_eq!(strides(&[2, 1, 3], ROW), [3, 3, 1], "an axis of length 1 has a stride, too");
}

#[test]
fn task1_column_major_strides() {
    let hint = "the first axis steps by 1, and each axis over all axes before it: 2, then 2·3 = 6";
    assert_eq!(strides(&[2, 3, 4], COLUMN), [1, 2, 6], "{hint}");
}

#[test]
fn task1_vectors_scalars_and_empty_tensors() {
    for order in [ROW, COLUMN] {
        assert_eq!(strides(&[5], order), [1], "one axis is the same in either order");
        assert!(strides(&[], order).is_empty(), "a scalar has no axes");
    }
    let hint = "an axis of length 0 counts as 1 when other axes step over it";
    assert_eq!(strides(&[3, 0, 2], ROW), [2, 2, 1], "{hint}");
}

#[test]
fn task1_positions_by_hand() {
    assert_eq!(position(&[1, 1], &[3, 1], 0), 4, "1·3 + 1·1");
    assert_eq!(position(&[1, 1], &[1, 2], 0), 3, "1·1 + 1·2");
    assert_eq!(position(&[1, 1], &[3, 1], 10), 14, "the first element is at 10: is the offset added?");
    assert_eq!(position(&[2, 1], &[0, 1], 0), 1, "a stride of 0 stays where it is");
    assert_eq!(position(&[], &[], 7), 7, "a scalar is at the offset");
}

#[test]
fn task1_indices_by_hand() {
    assert_eq!(index_of(5, &[2, 3]), [1, 2], "5 / 3 = 1, remainder 2");
    let hint = "do you begin with the last axis?";
    assert_eq!(index_of(6, &[2, 3, 4]), [0, 1, 2], "6 / 4 = 1, remainder 2; 1 / 3 = 0, remainder 1: {hint}");
    assert_eq!(index_of(23, &[2, 3, 4]), [1, 2, 3], "the last of 24 elements");
    assert_eq!(index_of(0, &[]), Vec::<usize>::new(), "the only element of a scalar has an empty index");
}

#[test]
fn task1_real_tensors_are_read_this_way() {
    for view in views() {
        let (strides, offset) = (view.layout().strides(), view.layout().offset());
        for number in 0..view.num_elements() {
            let index = index_of(number, view.shape());
            // The numbers in memory are 0, 1, 2, …: each element is its own position.
            let want = view.get::<i64>(&index).unwrap() as usize;
            assert_eq!(
                position(&index, strides, offset),
                want,
                "element {index:?}, strides {strides:?}, offset {offset}"
            );
        }
    }
}

#[test]
fn task2_filling_by_hand() {
    let values = [1, 2, 3, 4, 5, 6];
    let rows = array![[1, 2, 3], [4, 5, 6]].into_dyn();
    assert_eq!(fill(&values, &[2, 3], ROW), rows, "row-major: row by row");
    let columns = array![[1, 3, 5], [2, 4, 6]].into_dyn();
    assert_eq!(fill(&values, &[2, 3], COLUMN), columns, "column-major: column by column");
}

#[test]
fn task2_flattening_by_hand() {
    let x = array![[1, 2, 3], [4, 5, 6]].into_dyn();
    assert_eq!(flatten(x.view(), ROW), [1, 2, 3, 4, 5, 6], "row by row");
    assert_eq!(flatten(x.view(), COLUMN), [1, 4, 2, 5, 3, 6], "column by column");
    let hint =
        "the rows of the transposed array are the columns of the original: the index counts, not the memory";
    assert_eq!(flatten(x.t(), ROW), [1, 4, 2, 5, 3, 6], "{hint}");
}

#[test]
fn task2_there_and_back() {
    for shape in [&[][..], &[7], &[2, 3, 2], &[2, 0, 3]] {
        let values: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(|i| i * i).collect();
        for order in [ROW, COLUMN] {
            let filled = fill(&values, shape, order);
            assert_eq!(filled.shape(), shape, "the result has the shape that was asked for");
            assert_eq!(flatten(filled.view(), order), values, "{order:?}: flatten returns what fill put in");
        }
    }
}

#[test]
fn task2_three_axes() {
    let x: ArrayD<i64> = counting(&[2, 3, 2]).array().unwrap().to_owned();
    let hint = "NumPy's ravel(order='F'): the first index changes fastest, the last slowest";
    assert_eq!(flatten(x.view(), COLUMN), [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11], "{hint}");
    let want = array![[[0, 6], [2, 8], [4, 10]], [[1, 7], [3, 9], [5, 11]]].into_dyn();
    assert_eq!(fill(&flatten(x.view(), ROW), &[2, 3, 2], COLUMN), want, "NumPy's reshape(order='F')");
}

#[test]
fn task2_reshaping() {
    let x = array![[1, 2, 3], [4, 5, 6]].into_dyn();
    let rows = array![[1, 2], [3, 4], [5, 6]].into_dyn();
    assert_eq!(reshape(x.view(), &[3, 2], ROW), rows, "read row by row, written row by row");
    let columns = array![[1, 5], [4, 3], [2, 6]].into_dyn();
    assert_eq!(
        reshape(x.view(), &[3, 2], COLUMN),
        columns,
        "read column by column: 1 4 2 5 3 6, and written column by column"
    );
    let x: ArrayD<i64> = counting(&[2, 3, 2]).array().unwrap().to_owned();
    let want = array![[0, 8, 1, 9], [6, 4, 7, 5], [2, 10, 3, 11]].into_dyn();
    assert_eq!(reshape(x.view(), &[3, 4], COLUMN), want, "NumPy's reshape((3, 4), order='F')");
}

#[test]
fn task3_shapes_are_paired_from_the_last_axis() {
    let shape = |left: &[usize], right: &[usize]| broadcast_shapes(left, right).map(|shape| shape.to_vec());
    let hint = "4 and 1 are a pair, 1 and 3 are a pair, and 2 has no partner: are axes paired from the last?";
    assert_eq!(shape(&[2, 1, 4], &[3, 1]).ok(), Some(vec![2, 3, 4]), "{hint}");
    assert_eq!(shape(&[3, 1], &[2, 1, 4]).ok(), Some(vec![2, 3, 4]), "the same the other way round: {hint}");
    assert_eq!(shape(&[3], &[2, 3]).ok(), Some(vec![2, 3]), "a row is repeated for each of two rows");
    assert_eq!(shape(&[], &[5]).ok(), Some(vec![5]), "a scalar is broadcast to any shape");
    assert_eq!(shape(&[0], &[1]).ok(), Some(vec![0]), "1 becomes 0 as well: it is repeated zero times");
}

#[test]
fn task3_mismatched_shapes_are_rejected() {
    // A matching pair comes first, to catch a function that rejects everything.
    assert!(broadcast_shapes(&[2, 3], &[2, 1]).is_ok(), "3 and 1 are a pair, and 2 and 2");
    let hint = "only a 1 is repeated. A 2 never becomes a 4, although 4 is a multiple of 2";
    for [left, right] in [[&[2, 3][..], &[2]], [&[2][..], &[4]], [&[0][..], &[2]]] {
        match broadcast_shapes(left, right) {
            Err(TensorError::NotBroadcastable { left: l, right: r }) => {
                assert_eq!((&l[..], &r[..]), (left, right), "the error names both shapes as they were given");
            }
            other => panic!("{left:?} and {right:?} give {other:?}. {hint}"),
        }
    }
}

#[test]
fn task3_repeated_axes_have_stride_0() {
    let hint = "an axis of length 1 that is repeated does not step: its stride is 0";
    assert_eq!(expanded_axes(&[(1, 5), (3, 1)], &[2, 3]).as_deref(), Some(&[(2, 0), (3, 1)][..]), "{hint}");
    let hint = "missing axes are added in front, because axes are paired from the last";
    assert_eq!(expanded_axes(&[(3, 1)], &[4, 3]).as_deref(), Some(&[(4, 0), (3, 1)][..]), "{hint}");
    let (axes, hint) = ([(2, 3), (1, 3)], "axes that keep their length keep their stride");
    assert_eq!(expanded_axes(&axes, &[2, 1]).as_deref(), Some(&axes[..]), "{hint}");
}

#[test]
fn task3_only_ones_are_repeated() {
    assert_eq!(
        expanded_axes(&[(2, 1)], &[2]).as_deref(),
        Some(&[(2, 1)][..]),
        "the same shape changes nothing"
    );
    assert_eq!(expanded_axes(&[(2, 1)], &[4]), None, "a 2 never becomes a 4");
    assert_eq!(expanded_axes(&[(3, 1)], &[1]), None, "a 3 never becomes a 1");
    assert_eq!(expanded_axes(&[(2, 2), (2, 1)], &[2]), None, "an extra axis does not vanish");
}

/// An image of three channels and two by two pixels, minus the mean of each channel, as networks expect it.
#[test]
fn task3_an_image_minus_its_mean() {
    let image = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0, 5.0, 5.0, 5.0, 5.0];
    let (mean, pixels, means) = ([2.5, 25.0, 5.0], [3, 2, 2], [3, 1, 1]);
    let shape = broadcast_shapes(&pixels, &means).unwrap();
    assert_eq!(shape.dims(), pixels, "a mean is repeated for every pixel of its channel");
    let expanded = expanded_axes(&[(3, 1), (1, 1), (1, 1)], &shape).unwrap();
    let dense = strides(&pixels, ROW);
    let difference = (0..12).map(|number| {
        let index = index_of(number, &shape);
        image[position(&index, &dense, 0)] - mean[position(&index, &strides_of(&expanded), 0)]
    });
    let want = [-1.5, -0.5, 0.5, 1.5, -15.0, -5.0, 5.0, 15.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(
        difference.collect::<Vec<f64>>(),
        want,
        "each channel is reduced by its own mean, at every pixel"
    );
}

#[test]
fn task4_neighbours_merge() {
    let hint =
        "12 = 3·4 and 4 = 4·1: each axis steps over exactly the next one, so that all are one run of 24";
    assert_eq!(merged_axes(&[(2, 12), (3, 4), (4, 1)])[..], [(24, 1)], "{hint}");
    let hint = "100 is more than 3·4: there is a gap between the first axis and the second";
    assert_eq!(merged_axes(&[(2, 100), (3, 4), (4, 1)])[..], [(2, 100), (12, 1)], "{hint}");
    assert_eq!(
        merged_axes(&[(3, 1), (2, 3)])[..],
        [(3, 1), (2, 3)],
        "a transposed matrix: the outer axis steps by 1"
    );
    assert_eq!(merged_axes(&[(3, 0), (2, 1)])[..], [(3, 0), (2, 1)], "a repeated row starts again each time");
}

#[test]
fn task4_axes_of_length_1_do_not_count() {
    let hint = "an axis of length 1 is never stepped along, so its stride does not matter";
    assert_eq!(merged_axes(&[(2, 12), (1, 7), (3, 4), (4, 1), (1, 99)])[..], [(24, 1)], "{hint}");
    assert!(merged_axes(&[(1, 5), (1, 9)]).is_empty(), "{hint}");
}

#[test]
fn task4_merged_axes_are_cut_up() {
    let axes =
        |merged: &[(usize, usize)], shape: &[usize]| reshaped_axes(merged, shape).map(|axes| axes.to_vec());
    assert_eq!(axes(&[(24, 1)], &[4, 6]), Some(vec![(4, 6), (6, 1)]), "a run of 24: 4 times 6");
    let gap = [(2, 100), (12, 1)];
    let hint = "the last axes take what they need from the 12, then the first takes from the 2";
    assert_eq!(axes(&gap, &[2, 3, 4]), Some(vec![(2, 100), (3, 4), (4, 1)]), "{hint}");
    assert_eq!(
        axes(&gap, &[2, 1, 12]).map(|axes| axes[2]),
        Some((12, 1)),
        "an axis of length 1 fits anywhere"
    );
    assert_eq!(axes(&[], &[]), Some(vec![]), "a scalar remains a scalar");
}

#[test]
fn task4_no_axis_crosses_a_gap() {
    let gap = [(2, 100), (12, 1)];
    assert!(reshaped_axes(&gap, &[2, 12]).is_some(), "2 and 12 are the runs themselves");
    let hint = "an axis of 4 would need the 2 that are left of the 12, and then continue after the gap";
    assert_eq!(reshaped_axes(&gap, &[4, 6]), None, "{hint}");
    assert_eq!(
        reshaped_axes(&gap, &[24]),
        None,
        "one axis has one stride, and cannot step over a gap halfway"
    );
    assert_eq!(reshaped_axes(&[(3, 1), (2, 3)], &[6]), None, "a transposed matrix is not one run of 6");
}

#[test]
fn task4_elements_stay_where_they_are() {
    for view in views() {
        let (old, offset) = (axes_of(&view), view.layout().offset());
        for shape in
            [&[24][..], &[4, 6], &[6, 4], &[2, 12], &[3, 8], &[12], &[2, 6], &[3, 2, 2], &[4], &[2, 2]]
        {
            if shape.iter().product::<usize>() != view.num_elements() {
                continue;
            }
            let fits = view.reshape(shape).unwrap().shares_storage(&view);
            let reshaped = reshaped_axes(&merged_axes(&old), shape);
            let what = format!("{old:?} as {shape:?}");
            assert_eq!(reshaped.is_some(), fits, "{what}: `Some` if no element has to move, else `None`");
            let places = |axes: &[(usize, usize)], shape: &[usize]| -> Vec<usize> {
                (0..view.num_elements())
                    .map(|i| position(&index_of(i, shape), &strides_of(axes), offset))
                    .collect()
            };
            if let Some(axes) = reshaped {
                let hint = "the elements, counted row by row, are not the same as before";
                assert_eq!(places(&axes, shape), places(&old, view.shape()), "{what}: {hint}");
            }
        }
    }
}

#[test]
fn task5_a_frame_of_one_value() {
    let x = array![[1, 2], [3, 4]].into_dyn();
    let want = array![[9, 9, 9], [1, 2, 9], [3, 4, 9]].into_dyn();
    let got = pad_constant(x.view(), &[(1, 0), (0, 1)], 9);
    assert_eq!(got, want, "one row before, one column after: are axes, or before and after, swapped?");
    assert_eq!(pad_constant(x.view(), &[(0, 0), (0, 0)], 9), x, "without padding, nothing changes");
}

#[test]
fn task5_more_axes() {
    let x = ArrayD::from_elem(IxDyn(&[1, 2, 1]), 5);
    let padded = pad_constant(x.view(), &[(2, 1), (0, 1), (1, 0)], 0);
    assert_eq!(padded.shape(), [4, 3, 2]);
    let inside: Vec<_> = padded.indexed_iter().filter(|(_, value)| **value == 5).map(|(at, _)| at).collect();
    let want = [IxDyn(&[2, 0, 1]), IxDyn(&[2, 1, 1])];
    assert_eq!(inside, want, "each index grows by the padding before its own axis");
}

/// The sources of the positions from two before an axis of three to two after it.
fn around(mode: PadMode) -> Vec<i64> {
    (-2..5).map(|place| pad_source(mode, place, 3)).collect()
}

#[test]
fn task5_the_nearest_element() {
    assert_eq!(around(PadMode::Replicate), [0, 0, 0, 1, 2, 2, 2], "the edge is repeated");
    assert_eq!(pad_source(PadMode::Replicate, -100, 3), 0, "however far it is");
}

#[test]
fn task5_the_other_end() {
    let hint = "before the first element comes the last: in Rust −1 % 3 is −1, not 2";
    assert_eq!(around(PadMode::Circular), [1, 2, 0, 1, 2, 0, 1], "{hint}");
    assert_eq!(pad_source(PadMode::Circular, -7, 3), 2, "round and round: {hint}");
}

#[test]
fn task5_the_mirrored_element() {
    let hint = "the mirror runs through the edge element, which appears once: −1 is 1, and 3 is 1";
    assert_eq!(around(PadMode::Reflect), [2, 1, 0, 1, 2, 1, 0], "{hint}");
    assert_eq!(pad_source(PadMode::Reflect, 0, 1), 0, "one element is its own neighbour");
}
