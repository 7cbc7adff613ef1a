//! Convolution of plain tensors: direct for narrow groups, otherwise by matrix products over tiles of im2col columns. See
//! [`blocked`](super::blocked) for blocked channels.
//!
//! The columns of a whole image can be larger than all activations together, so they are built for one tile of output
//! positions at a time, in scratch memory of a fixed size that stays in the cache. The outputs of a tile stay in the
//! cache as well, from their initialisation with the bias to the addition of the product.

mod direct;
mod operands;

use super::Float;
use super::columns::{Columns, TILE_BYTES, matrix, matrix_mut};
use super::gemm::{gemm, gemm_here};
use super::parallel::{for_each_item, threads};
use direct::Direct;
use ixion_tensor::Limits;
use ixion_tensor::Result;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};
pub use operands::{ConvShape, Factors};

/// The granularity of positions in a matrix product: a multiple of the block width on every processor.
const BLOCK: usize = 48;

/// A convolution that is ready to run on samples of one shape, any number of times, without allocating.
#[derive(Debug, Clone)]
pub struct ConvPlan {
    shape: ConvShape,
    outputs: Vec<usize>,
    algorithm: Algorithm,
}

#[derive(Debug, Clone)]
enum Algorithm {
    /// Directly, for narrow groups.
    Direct(Box<Direct>),
    /// By matrix products over tiles of `tile` positions.
    Product { tile: usize },
}

/// Element types whose convolutions are compiled and optimised once, in this crate, instead of in each caller: `f32` and
/// `f64`.
pub trait Convolve: Float {
    /// The implementation of [`ConvPlan::run`].
    #[doc(hidden)]
    fn convolve(
        plan: &ConvPlan,
        input: &[Self],
        factors: &Factors<'_, Self>,
        output: &mut [Self],
        scratch: &mut [Self],
        limits: &Limits,
    ) -> Result<()>;
}

impl Convolve for f32 {
    fn convolve(
        plan: &ConvPlan,
        input: &[Self],
        factors: &Factors<'_, Self>,
        output: &mut [Self],
        scratch: &mut [Self],
        limits: &Limits,
    ) -> Result<()> {
        plan.run_as(input, factors, output, scratch, limits)
    }
}

impl Convolve for f64 {
    fn convolve(
        plan: &ConvPlan,
        input: &[Self],
        factors: &Factors<'_, Self>,
        output: &mut [Self],
        scratch: &mut [Self],
        limits: &Limits,
    ) -> Result<()> {
        plan.run_as(input, factors, output, scratch, limits)
    }
}

impl ConvPlan {
    /// Prepares a convolution for elements of `element_bytes` bytes, and for the threads of the current pool.
    pub fn new(shape: ConvShape, element_bytes: usize) -> Self {
        let outputs = shape.outputs();
        let algorithm = match Direct::suits(&shape, &outputs) {
            true => Algorithm::Direct(Box::new(Direct::new(&shape, &outputs))),
            false => Algorithm::Product { tile: tile(&shape, &outputs, element_bytes) },
        };
        Self { shape, outputs, algorithm }
    }

    /// The number of elements of scratch memory for one thread.
    fn lane(&self) -> usize {
        match &self.algorithm {
            Algorithm::Direct(direct) => direct.scratch(),
            Algorithm::Product { .. } if self.shape.is_pointwise() => 0,
            Algorithm::Product { tile } => self.shape.taps().saturating_mul(*tile),
        }
    }

    /// The number of threads that can work independently, each with its own scratch memory.
    fn lanes(&self) -> usize {
        let most = match &self.algorithm {
            Algorithm::Direct(_) => self.shape.groups,
            Algorithm::Product { tile } => self.outputs.iter().product::<usize>().div_ceil((*tile).max(1)),
        };
        threads().min(most).max(1)
    }

    /// The number of elements of scratch memory that [`ConvPlan::run`] can make use of: more than
    /// [`ConvPlan::least_scratch`] if there are several threads.
    pub fn scratch(&self) -> usize {
        self.lane().saturating_mul(self.lanes())
    }

    /// The number of elements of scratch memory that [`ConvPlan::run`] needs at least.
    pub fn least_scratch(&self) -> usize {
        self.lane()
    }

    /// The number of elements of a sample, and of its output.
    pub fn sample(&self) -> [usize; 2] {
        let pixels: usize = self.shape.lens.iter().product();
        [self.shape.channels * pixels, self.shape.out_channels * self.outputs.iter().product::<usize>()]
    }

    /// Convolves one sample. All slices are contiguous: input C×…, output O×….
    ///
    /// # Errors
    /// Fails if the deadline, which is checked for each group and tile, has passed, or if the epilogue fails.
    ///
    /// # Panics
    /// Panics if a slice is shorter than its shape requires; callers check this beforehand.
    pub fn run<T: Convolve>(
        &self,
        input: &[T],
        factors: &Factors<'_, T>,
        output: &mut [T],
        scratch: &mut [T],
        limits: &Limits,
    ) -> Result<()> {
        T::convolve(self, input, factors, output, scratch, limits)
    }

    fn run_as<T: Float>(
        &self,
        input: &[T],
        factors: &Factors<'_, T>,
        output: &mut [T],
        scratch: &mut [T],
        limits: &Limits,
    ) -> Result<()> {
        let available = scratch.len().checked_div(self.lane()).unwrap_or(usize::MAX);
        let lanes = self.lanes().min(available).max(1);
        match &self.algorithm {
            Algorithm::Direct(direct) => {
                direct.run(&self.shape, input, factors, output, (scratch, lanes), limits)
            }
            Algorithm::Product { tile } => (0..self.shape.groups).try_for_each(|group| {
                let product = Product::new(self, *tile, group, input, factors, limits);
                let positions = product.positions;
                let len = product.out_channels * positions;
                let output = &mut output[group * len..][..len];
                let output = matrix_mut(output, product.out_channels, positions, positions);
                product.tiles(0, output, scratch, (lanes, lanes > 1))
            }),
        }
    }
}

/// The number of positions per tile. Tiles have nearly equal size and consist of whole blocks of the matrix product, and
/// there are as many tiles as threads if the output is large enough.
fn tile(shape: &ConvShape, outputs: &[usize], element_bytes: usize) -> usize {
    let positions: usize = outputs.iter().product();
    let rows = match shape.is_pointwise() {
        true => (shape.channels + shape.out_channels) / shape.groups.max(1),
        false => shape.taps(),
    };
    let most = (TILE_BYTES / rows.saturating_mul(element_bytes).max(1)).max(2 * BLOCK);
    let tiles = positions.div_ceil(most).max(threads().min(positions / (2 * BLOCK))).max(1);
    positions.div_ceil(tiles).next_multiple_of(BLOCK).min(positions.max(1))
}

/// The convolution of one group by matrix products.
struct Product<'a, T> {
    plan: &'a ConvPlan,
    tile: usize,
    group: usize,
    input: &'a [T],
    weight: ArrayView2<'a, T>,
    factors: &'a Factors<'a, T>,
    limits: &'a Limits,
    out_channels: usize,
    positions: usize,
    pixels: usize,
}

impl<'a, T: Float> Product<'a, T> {
    fn new(
        plan: &'a ConvPlan,
        tile: usize,
        group: usize,
        input: &'a [T],
        factors: &'a Factors<'a, T>,
        limits: &'a Limits,
    ) -> Self {
        let (shape, taps) = (&plan.shape, plan.shape.taps());
        let (channels, out_channels) = (shape.channels / shape.groups, shape.out_channels / shape.groups);
        let pixels: usize = shape.lens.iter().product();
        Self {
            input: &input[group * channels * pixels..][..channels * pixels],
            weight: matrix(&factors.weight[group * out_channels * taps..], out_channels, taps, taps),
            positions: plan.outputs.iter().product(),
            plan,
            tile,
            group,
            factors,
            limits,
            out_channels,
            pixels,
        }
    }

    /// Computes the outputs from position `start` on, on as many threads as there are lanes of scratch memory.
    /// `in_parallel` is true if several threads compute tiles.
    fn tiles(
        &self,
        start: usize,
        output: ArrayViewMut2<'_, T>,
        scratch: &mut [T],
        (lanes, in_parallel): (usize, bool),
    ) -> Result<()> {
        let tiles = output.ncols().div_ceil(self.tile.max(1));
        let lane = scratch.len() / lanes.max(1);
        if lanes <= 1 || tiles <= 1 {
            return self.tiles_here(start, output, scratch, in_parallel);
        }
        let columns = tiles.div_ceil(lanes) * self.tile;
        let mut output = output;
        let outputs = output.axis_chunks_iter_mut(Axis(1), columns);
        // Pointwise convolutions copy nothing and have no scratch memory.
        let mut rest = scratch;
        let scratch = std::iter::repeat_with(|| rest.split_off_mut(..lane).unwrap_or_default());
        let parts = outputs.zip(scratch).enumerate();
        for_each_item(parts, &|(part, (output, scratch))| {
            self.tiles_here(start + part * columns, output, scratch, in_parallel)
        })
    }

    /// Computes outputs tile by tile on this thread.
    fn tiles_here(
        &self,
        start: usize,
        mut output: ArrayViewMut2<'_, T>,
        scratch: &mut [T],
        in_parallel: bool,
    ) -> Result<()> {
        let tiles = output.axis_chunks_iter_mut(Axis(1), self.tile.max(1)).enumerate();
        for (index, mut output) in tiles {
            self.limits.check_deadline()?;
            let start = start + index * self.tile;
            self.start_from_bias(output.view_mut());
            self.multiply(start, output.view_mut(), scratch, in_parallel);
            self.apply_epilogue(start, output)?;
        }
        Ok(())
    }

    fn start_from_bias(&self, mut output: ArrayViewMut2<'_, T>) {
        let bias = self.factors.bias.map(|bias| &bias[self.group * self.out_channels..]);
        for (channel, mut row) in output.rows_mut().into_iter().enumerate() {
            row.fill(bias.map_or(T::zero(), |bias| bias[channel]));
        }
    }

    /// Adds the matrix product of a tile to its outputs.
    fn multiply(&self, start: usize, output: ArrayViewMut2<'_, T>, scratch: &mut [T], in_parallel: bool) {
        let (shape, width, taps) = (&self.plan.shape, output.ncols(), self.weight.ncols());
        let columns = if shape.is_pointwise() {
            matrix(self.input.get(start..).unwrap_or_default(), taps, width, self.pixels)
        } else {
            let columns =
                Columns { lens: &shape.lens, positions: &self.plan.outputs, windows: &shape.windows };
            columns.gather(self.input, start..start + width, &mut scratch[..taps * width]);
            matrix(scratch, taps, width, width)
        };
        if in_parallel {
            gemm_here(self.weight, columns, output, true)
        } else {
            gemm(self.weight, columns, output, true)
        }
    }

    /// Applies the epilogue to a tile: channel by channel, or to all channels together if they are contiguous.
    fn apply_epilogue(&self, start: usize, mut output: ArrayViewMut2<'_, T>) -> Result<()> {
        if self.factors.epilogue.is_none() {
            return Ok(());
        }
        let first = self.group * self.out_channels * self.positions + start;
        if let Some(outputs) = output.as_slice_mut() {
            return self.factors.apply_epilogue(first, outputs);
        }
        for (channel, row) in output.rows_mut().into_iter().enumerate() {
            let row = row.into_slice().unwrap_or_default();
            self.factors.apply_epilogue(first + channel * self.positions, row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naive;
    use crate::parallel::tests::on_threads;
    use crate::testing::integer_noise;
    use crate::window::Window;
    use ndarray::{ArrayD, Ix4};
    use proptest::prelude::*;

    fn windows() -> impl Strategy<Value = Vec<Window>> {
        let window = (1usize..4, 1usize..4, 1usize..3, 0usize..3, 0usize..3).prop_map(
            |(kernel, stride, dilation, a, b)| Window {
                kernel,
                stride,
                dilation,
                pad_before: a,
                pad_after: b,
            },
        );
        proptest::collection::vec(window, 1..4)
    }

    fn by_matrices(
        input: &ArrayD<f64>,
        weight: &ArrayD<f64>,
        bias: Option<&[f64]>,
        windows: &[Window; 2],
        groups: usize,
    ) -> ArrayD<f64> {
        let [input, weight] = [input, weight].map(|array| array.view().into_dimensionality::<Ix4>().unwrap());
        naive::conv2d(input, weight, bias, windows, groups).into_dyn()
    }

    /// Compares a convolution with `c` channels per group with the naive one.
    fn check(shape: &ConvShape, c: usize, with_bias: bool) {
        let input = integer_noise(&[&[1, shape.channels], &shape.lens[..]].concat(), 1);
        let kernel: Vec<usize> = shape.windows.iter().map(|w| w.kernel).collect();
        let weight = integer_noise(&[&[shape.out_channels, c], &kernel[..]].concat(), 2);
        let bias = integer_noise(&[shape.out_channels], 3);
        let bias = with_bias.then(|| bias.as_slice().unwrap());
        let want = match shape.windows[..] {
            [rows, columns] => by_matrices(&input, &weight, bias, &[rows, columns], shape.groups),
            _ => naive::conv(input.view(), weight.view(), bias, &shape.windows, shape.groups),
        };
        let (input, weight) = (input.as_slice().unwrap(), weight.as_slice().unwrap());
        let (alone, pooled) = on_threads(&[1, 3], || {
            let plan = ConvPlan::new(shape.clone(), 8);
            let (mut got, mut scratch) = (vec![1.0; want.len()], vec![7.0; plan.scratch()]);
            let factors = Factors { weight, bias, epilogue: None };
            plan.run(input, &factors, &mut got, &mut scratch, &Limits::default()).unwrap();
            got
        });
        assert_eq!(alone, want.as_slice().unwrap());
        assert!(pooled.iter().all(|got| *got == alone), "{shape:?}");
    }

    proptest! {
        #[test]
        fn it_equals_the_naive_convolution(
            windows in windows(),
            groups in 1usize..4,
            (c, o) in prop_oneof![(0usize..4, 0usize..8), (7usize..11, 7usize..11)],
            lens in proptest::collection::vec(1usize..9, 3),
            width in prop_oneof![1usize..9, 9usize..36],
            with_bias: bool,
        ) {
            let lens = [&lens[1..windows.len()], &[width]].concat();
            let shape = ConvShape { channels: c * groups, out_channels: o * groups, groups, lens, windows };
            prop_assume!(shape.outputs().iter().all(|&len| len > 0));
            check(&shape, c, with_bias);
        }
    }

    #[test]
    fn distant_taps_need_little_scratch() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let far = 500_000_000;
        let windows = [
            Window { stride: far, ..window },
            Window { dilation: far, pad_before: far, pad_after: far, ..window },
        ];
        for window in windows {
            for lens in [vec![10], vec![5, 7]] {
                let mut windows = vec![Window { pad_before: 0, pad_after: 0, ..window }; lens.len()];
                windows[lens.len() - 1] = window;
                windows[0] = if lens.len() == 2 { Window { kernel: 1, ..windows[0] } } else { windows[0] };
                let shape = ConvShape { channels: 2, out_channels: 4, groups: 2, lens, windows };
                let scratch = ConvPlan::new(shape.clone(), 8).scratch();
                assert!(scratch < 1 << 16, "{shape:?} needs {scratch}");
                check(&shape, 1, true);
            }
        }
    }

    #[test]
    fn many_tiles_join_without_a_seam() {
        let window = Window { kernel: 3, stride: 1, dilation: 1, pad_before: 1, pad_after: 1 };
        let shape = ConvShape {
            channels: 40,
            out_channels: 3,
            groups: 1,
            lens: vec![40, 40],
            windows: vec![window; 2],
        };
        assert!(tile(&shape, &shape.outputs(), 8) < 1600, "one tile");
        check(&shape, 40, false);
    }
}
