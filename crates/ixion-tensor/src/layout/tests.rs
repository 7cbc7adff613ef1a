use super::*;
use proptest::prelude::*;

fn layout(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

/// Positions of all elements in row-major order of the logical shape, computed naively.
fn positions(layout: &Layout) -> Vec<usize> {
    let mut all = vec![layout.offset()];
    for (&dim, &stride) in layout.shape().iter().zip(layout.strides()) {
        all = all.iter().flat_map(|&p| (0..dim).map(move |i| p + i * stride)).collect();
    }
    all
}

#[test]
fn views_pick_the_right_elements() {
    let x = layout(&[2, 3]);
    assert_eq!(positions(&x.permute(&[1, 0]).unwrap()), [0, 3, 1, 4, 2, 5]);
    assert_eq!(positions(&x.slice(1, 0, 3, 2).unwrap()), [0, 2, 3, 5]);
    assert_eq!(positions(&x.select(0, 1).unwrap()), [3, 4, 5]);
    assert_eq!(positions(&x.narrow(1, 1, 2).unwrap()), [1, 2, 4, 5]);
    assert_eq!(positions(&layout(&[2, 1]).expand(&[2, 2, 2]).unwrap()), [0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn reshape_without_a_copy_where_possible() {
    let x = layout(&[2, 3, 4]);
    assert!(x.reshape(&Shape::new(&[6, 4]).unwrap()).unwrap().is_some());
    let transposed = x.transpose(0, 1).unwrap();
    assert_eq!(transposed.reshape(&Shape::new(&[24]).unwrap()).unwrap(), None);
    let split = transposed.reshape(&Shape::new(&[3, 2, 2, 2]).unwrap()).unwrap().unwrap();
    assert_eq!(positions(&split), positions(&transposed));
    assert!(x.reshape(&Shape::new(&[5]).unwrap()).is_err());
}

#[test]
fn empty_views_stay_within_storage() {
    let x = layout(&[2, 3]);
    let empty = x.narrow(0, 2, 0).unwrap();
    assert_eq!((empty.shape().dims(), empty.span()), (&[0, 3][..], 0));
    empty.check_within(6).unwrap();
    let emptier = layout(&[2, 0]).narrow(0, 1, 1).unwrap();
    assert_eq!((emptier.shape().dims(), emptier.offset()), (&[1, 0][..], 0));
    emptier.check_within(0).unwrap();
}

#[test]
fn bad_arguments_are_errors() {
    let x = layout(&[2, 3]);
    assert!(x.permute(&[0, 0]).is_err() && x.permute(&[0]).is_err() && x.permute(&[0, 2]).is_err());
    assert!(x.slice(0, 2, 1, 1).is_err() && x.slice(0, 0, 3, 1).is_err() && x.slice(0, 0, 2, 0).is_err());
    assert!(x.squeeze(0).is_err() && x.unsqueeze(3).is_err() && x.expand(&[3]).is_err());
    assert!(Layout::strided(*x.shape(), &[usize::MAX, 1], 1).is_err());
}

#[test]
fn blocked_layouts_know_their_padded_size() {
    let blocked = Layout::blocked(Shape::new(&[1, 20, 2, 2]).unwrap(), 1, 16).unwrap();
    assert_eq!(blocked.span(), 32 * 4);
    assert!(blocked.permute(&[0, 1, 2, 3]).is_err());
    assert!(Layout::blocked(Shape::SCALAR, 0, 16).is_err());
}

#[test]
fn only_injective_layouts_may_be_written() {
    assert!(layout(&[2, 3]).permute(&[1, 0]).unwrap().is_injective());
    assert!(!layout(&[2, 1]).expand(&[2, 3]).unwrap().is_injective());
    let overlapping = Layout::strided(Shape::new(&[3, 3]).unwrap(), &[1, 1], 0).unwrap();
    assert!(!overlapping.is_injective());
}

proptest! {
    #[test]
    fn a_reshaped_view_reads_the_same_elements(
        dims in proptest::collection::vec(1usize..5, 1..5),
        seed in 0usize..24,
        target in proptest::collection::vec(1usize..7, 1..5),
    ) {
        let rank = dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.rotate_left(seed % rank);
        let x = layout(&dims).permute(&order).unwrap();
        let target = Shape::new(&target).unwrap();
        if target.num_elements() == x.shape().num_elements()
            && let Some(view) = x.reshape(&target).unwrap()
        {
            prop_assert_eq!(positions(&view), positions(&x));
        }
    }

    #[test]
    fn injective_layouts_use_no_position_twice(
        dims in proptest::collection::vec(1usize..4, 1..4),
        strides in proptest::collection::vec(0usize..12, 3),
    ) {
        let shape = Shape::new(&dims).unwrap();
        let x = Layout::strided(shape, &strides[..dims.len()], 0).unwrap();
        let mut all = positions(&x);
        prop_assert_eq!(all.iter().max().map_or(0, |last| last + 1), x.span());
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        if x.is_injective() { prop_assert_eq!(all.len(), count); }
    }
}

#[test]
fn channels_are_innermost() {
    let shape = Shape::new(&[2, 3, 4, 5]).unwrap();
    let last = Layout::channels_last(shape);
    assert_eq!((last.strides(), last.format()), (&[60, 1, 15, 3][..], Format::Plain));
    assert!(last.is_dense() && last.is_injective() && !last.is_contiguous());
    assert!(
        !last.has_same_positions(&layout(&[2, 3, 4, 5])) && last.has_same_positions(&last.with_offset(7))
    );
    assert_eq!(last.permute(&[0, 2, 3, 1]).unwrap(), layout(&[2, 4, 5, 3]));
    assert_eq!(Layout::channels_last(Shape::new(&[2, 3]).unwrap()), layout(&[2, 3]));
    assert_eq!(Layout::channels_last(Shape::new(&[7]).unwrap()), layout(&[7]));
    let gaps = last.narrow(1, 0, 2).unwrap();
    assert!(!gaps.is_dense() && gaps.is_injective());
}

#[test]
fn orders_of_axes_are_compared() {
    let last = |dims: &[usize]| Layout::channels_last(Shape::new(dims).unwrap());
    assert!(last(&[2, 3, 1, 1]).has_same_positions(&layout(&[2, 3, 1, 1])));
    assert!(last(&[2, 6, 4, 5]).narrow(1, 2, 3).unwrap().is_ordered_as(&last(&[2, 3, 4, 5])));
    assert!(!last(&[2, 6, 4, 5]).is_ordered_as(&layout(&[2, 6, 4, 5])));
    assert!(last(&[2, 6, 4, 1]).is_ordered_as(&last(&[2, 6, 4, 1])));
    assert!(!last(&[2, 6, 4]).is_ordered_as(&last(&[2, 6, 4, 1])));
}
