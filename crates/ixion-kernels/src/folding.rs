//! Sliding windows laid out as columns, and columns added to an image: `unfold` and `fold`.

use super::Float;
use super::columns::Columns;
use super::window::Window;
use ixion_tensor::{LimitError, Limits};

/// Elements of columns between checks of the deadline.
const BLOCK: usize = 1 << 18;

/// A window that slides over images of two axes.
#[derive(Debug, Clone, Copy)]
pub struct FoldShape {
    /// Height and width of the image.
    pub lens: [usize; 2],
    /// The window along both axes.
    pub windows: [Window; 2],
}

impl FoldShape {
    /// The number of positions of the window along both axes.
    pub fn positions(&self) -> [usize; 2] {
        [self.windows[0].positions(self.lens[0]), self.windows[1].positions(self.lens[1])]
    }

    /// Elements of the columns and of the image, for a block of planes.
    fn block(&self) -> (usize, usize) {
        let positions: usize = self.positions().iter().product();
        let plane = self.windows[0].kernel * self.windows[1].kernel * positions;
        let planes = (BLOCK / plane.max(1)).max(1);
        (plane * planes, self.lens[0] * self.lens[1] * planes)
    }
}

/// Writes what each tap of the window sees of planes of `shape.lens`: one row per plane and tap, one column per position;
/// 0 in the padding.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn unfold<T: Float>(
    shape: &FoldShape,
    planes: &[T],
    columns: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (positions, (block, pixels)) = (shape.positions(), shape.block());
    let geometry = Columns { lens: &shape.lens, positions: &positions, windows: &shape.windows };
    if planes.is_empty() {
        // Planes without pixels have windows that see only padding.
        columns.fill(T::zero());
    }
    for (planes, columns) in planes.chunks(pixels.max(1)).zip(columns.chunks_mut(block.max(1))) {
        limits.check_deadline()?;
        geometry.gather(planes, 0..positions.iter().product(), columns);
    }
    Ok(())
}

/// Adds columns, as written by [`unfold`], to planes.
///
/// # Errors
/// [`LimitError::DeadlineExceeded`] if the deadline has passed.
pub fn fold<T: Float>(
    shape: &FoldShape,
    columns: &[T],
    planes: &mut [T],
    limits: &Limits,
) -> Result<(), LimitError> {
    let (positions, (block, pixels)) = (shape.positions(), shape.block());
    let geometry = Columns { lens: &shape.lens, positions: &positions, windows: &shape.windows };
    if columns.is_empty() {
        planes.fill(T::zero());
    }
    for (columns, planes) in columns.chunks(block.max(1)).zip(planes.chunks_mut(pixels.max(1))) {
        limits.check_deadline()?;
        planes.fill(T::zero());
        geometry.scatter(columns, 0..positions.iter().product(), planes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::integer_noise;
    use super::*;
    use crate::naive;
    use proptest::prelude::*;

    fn axis() -> impl Strategy<Value = (Window, usize)> {
        (1usize..4, 1usize..4, 1usize..4, 0usize..4, 1usize..9).prop_filter_map("it fits", |sizes| {
            let (kernel, stride, dilation, pad, len) = sizes;
            let window = Window { kernel, stride, dilation, pad_before: pad, pad_after: pad };
            (window.positions(len) > 0).then_some((window, len))
        })
    }

    proptest! {
        #[test]
        fn they_equal_the_naive_ones(rows in axis(), columns in axis(), channels in 1usize..4, seed: usize) {
            let shape = FoldShape { lens: [rows.1, columns.1], windows: [rows.0, columns.0] };
            let image = integer_noise(&[channels, rows.1, columns.1], seed).into_dimensionality().unwrap();
            let want = naive::unfold(image.view(), &shape.windows);
            let mut got = vec![7.0; want.len()];
            unfold(&shape, image.as_slice().unwrap(), &mut got, &Limits::default()).unwrap();
            prop_assert_eq!(&got, want.as_slice().unwrap());
            let image = naive::fold(want.view(), &shape.windows, shape.lens);
            let mut back = vec![7.0; image.len()];
            fold(&shape, &got, &mut back, &Limits::default()).unwrap();
            prop_assert_eq!(&back, image.as_slice().unwrap());
        }
    }

    #[test]
    fn without_pixels_there_is_only_padding() {
        let window = Window { kernel: 2, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let shape = FoldShape { lens: [3, 0], windows: [window; 2] };
        let mut columns = vec![7.0f32; 4 * shape.positions().iter().product::<usize>()];
        unfold(&shape, &[], &mut columns, &Limits::default()).unwrap();
        assert!(!columns.is_empty() && columns.iter().all(|&x| x == 0.0));
        let mut planes = [7.0f32; 6];
        let narrow = Window { pad_before: 0, pad_after: 0, kernel: 4, ..window };
        let shape = FoldShape { lens: [3, 2], windows: [narrow; 2] };
        fold(&shape, &[], &mut planes, &Limits::default()).unwrap();
        assert_eq!(planes, [0.0; 6]);
    }

    #[test]
    fn blocks_of_planes_join() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let shape = FoldShape { lens: [64, 64], windows: [window; 2] };
        let image = integer_noise(&[20, 64, 64], 3).into_dimensionality().unwrap();
        let want = naive::unfold(image.view(), &shape.windows);
        let mut got = vec![7.0; want.len()];
        assert!(got.len() > 2 * BLOCK);
        unfold(&shape, image.as_slice().unwrap(), &mut got, &Limits::default()).unwrap();
        assert!(got == want.as_slice().unwrap());
        let late = Limits::default().with_timeout(std::time::Duration::ZERO);
        assert!(unfold(&shape, image.as_slice().unwrap(), &mut got, &late).is_err());
    }
}
