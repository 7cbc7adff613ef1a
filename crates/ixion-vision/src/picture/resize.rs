//! Resampling, one axis at a time: each output value is a weighted sum of a few input values.
//!
//! Pixels are squares: the first extends from 0 to 1, and its centre is at 0.5. Source positions are computed in `f32` by
//! PyTorch's formulas, so that the results match `torch.nn.functional.interpolate` up to rounding.

use ixion_tensor::{Limits, Result};
use ndarray::{Array2, ArrayView2, Axis, Zip};
use serde::Deserialize;
use std::ops::Range;

/// The resampling filter for resizing a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Filter {
    /// The value of one input pixel (`mode="nearest"` of PyTorch).
    Nearest,
    /// Linear interpolation of the two nearest pixels in each direction, whatever the scale (`mode="bilinear"`,
    /// `align_corners=False`, `antialias=False`).
    Bilinear,
    /// The exact mean of the area that the output pixel covers. If the input size is a multiple of the output size, this is
    /// `mode="area"`; otherwise PyTorch counts partly covered pixels fully.
    Area,
    /// Keys' cubic convolution of the four nearest pixels in each direction with a = −0.75 (`mode="bicubic"`,
    /// `align_corners=False`, `antialias=False`).
    Bicubic,
}

/// A filter, and whether it is widened when downscaling.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling {
    /// The filter.
    pub(super) filter: Filter,
    /// Whether all pixels that an output pixel covers contribute.
    pub(super) antialias: bool,
}

impl Sampling {
    fn taps(self, position: usize, from: usize, to: usize) -> Vec<(usize, f32)> {
        match self.filter {
            Filter::Bilinear if self.antialias => wide_taps(position, from, to, 1.0, triangle),
            Filter::Bicubic if self.antialias => wide_taps(position, from, to, 2.0, cubic_of_pillow),
            filter => filter.taps(position, from, to),
        }
    }
}

/// The input positions under a kernel stretched by the downscaling factor, with weights that sum to 1 (`antialias=True` of
/// PyTorch, as in Pillow).
fn wide_taps(
    position: usize,
    from: usize,
    to: usize,
    reach: f32,
    kernel: impl Fn(f32) -> f32,
) -> Vec<(usize, f32)> {
    let scale = from as f32 / to as f32;
    let stretch = scale.max(1.0);
    let (centre, reach) = (scale * (position as f32 + 0.5), reach * stretch);
    let first = (centre - reach + 0.5).max(0.0) as usize;
    let end = ((centre + reach + 0.5) as usize).min(from);
    let weight = |index: usize| kernel((index as f32 + 0.5 - centre) / stretch);
    let sum: f32 = (first..end).map(weight).sum();
    (first..end).map(|index| (index, weight(index) / sum)).collect()
}

fn triangle(x: f32) -> f32 {
    (1.0 - x.abs()).max(0.0)
}

fn cubic_of_pillow(x: f32) -> f32 {
    match x.abs() {
        x if x < 1.0 => cubic_near(x, -0.5),
        x if x < 2.0 => cubic_far(x, -0.5),
        _ => 0.0,
    }
}

/// A resized axis and the part of it to compute.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resized {
    /// The length before resizing.
    pub(super) from: usize,
    /// The length after resizing.
    pub(super) to: usize,
    /// The output positions to compute.
    pub(super) window: Range<usize>,
}

/// Resizes the rows and columns of a plane.
pub(super) fn resize(
    plane: ArrayView2<'_, f32>,
    rows: &Resized,
    cols: &Resized,
    sampling: Sampling,
    limits: &Limits,
) -> Result<Array2<f32>> {
    let between = (rows.from as u64).saturating_mul(cols.window.len() as u64);
    limits.check_tensor("the resized picture", between.saturating_mul(4))?;
    let narrow = along(plane, Axis(1), cols, sampling);
    Ok(along(narrow.view(), Axis(0), rows, sampling))
}

fn along(plane: ArrayView2<'_, f32>, axis: Axis, resized: &Resized, sampling: Sampling) -> Array2<f32> {
    let mut dims = plane.raw_dim();
    dims[axis.index()] = resized.window.len();
    let mut result = Array2::zeros(dims);
    for (mut lane, position) in result.axis_iter_mut(axis).zip(resized.window.clone()) {
        for (index, weight) in sampling.taps(position, resized.from, resized.to) {
            Zip::from(&mut lane).and(plane.index_axis(axis, index)).for_each(|sum, &x| *sum += weight * x);
        }
    }
    result
}

impl Filter {
    /// The input positions that contribute to an output position, with weights that sum to 1.
    fn taps(self, position: usize, from: usize, to: usize) -> Vec<(usize, f32)> {
        let scale = from as f32 / to as f32;
        let centre = scale * (position as f32 + 0.5) - 0.5;
        let last = from - 1;
        match self {
            Filter::Nearest => vec![(((position as f32 * scale) as usize).min(last), 1.0)],
            Filter::Bilinear => {
                let centre = centre.max(0.0);
                let first = (centre as usize).min(last);
                let rest = centre - first as f32;
                vec![(first, 1.0 - rest), ((first + 1).min(last), rest)]
            }
            Filter::Bicubic => {
                let rest = centre - centre.floor();
                let (far, near) = (|x| cubic_far(x, A), |x| cubic_near(x, A));
                let weights = [far(rest + 1.0), near(rest), near(1.0 - rest), far(2.0 - rest)];
                let first = centre.floor() as i64 - 1;
                let at = |i: i64| (first + i).clamp(0, last as i64) as usize;
                (0..).map(at).zip(weights).collect()
            }
            Filter::Area => {
                let edge = |i: usize| i as f64 * from as f64 / to as f64;
                let (start, end) = (edge(position), edge(position + 1));
                let covered = |i: usize| (end.min((i + 1) as f64) - start.max(i as f64)) / (end - start);
                let indices = start as usize..(end.ceil() as usize).min(from);
                indices.map(|i| (i, covered(i) as f32)).collect()
            }
        }
    }
}

/// The parameter of Keys' "Cubic convolution interpolation" (1981) as in PyTorch and OpenCV; Pillow uses −0.5.
const A: f32 = -0.75;

/// The weight at a distance from 0 to 1.
fn cubic_near(x: f32, a: f32) -> f32 {
    ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
}

/// The weight at a distance from 1 to 2.
fn cubic_far(x: f32, a: f32) -> f32 {
    ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(from: usize, to: usize) -> Resized {
        Resized { from, to, window: 0..to }
    }

    fn plain(filter: Filter) -> Sampling {
        Sampling { filter, antialias: false }
    }

    fn resized(plane: &Array2<f32>, size: [usize; 2], sampling: Sampling) -> Array2<f32> {
        let (rows, cols) = plane.dim();
        resize(plane.view(), &whole(rows, size[0]), &whole(cols, size[1]), sampling, &Limits::default())
            .unwrap()
    }

    /// 0 7 3 10 6, 2 9 5 1 8, 4 0 7 3 10, 6 2 9 5 1
    fn sample() -> Array2<f32> {
        Array2::from_shape_fn((4, 5), |(row, col)| ((row * 5 + col) * 7 % 11) as f32)
    }

    fn check(size: [usize; 2], filter: Filter, want: &[f32]) {
        check_sampling(size, plain(filter), want);
    }

    fn check_sampling(size: [usize; 2], filter: Sampling, want: &[f32]) {
        let got = resized(&sample(), size, filter);
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(want) {
            assert!((got - want).abs() < 1e-5, "{filter:?} {size:?}: {got} {want}");
        }
    }

    // Expected values from torch 2.15.0's interpolate.
    #[test]
    #[rustfmt::skip]
    fn matches_pytorch() {
        check([3, 7], Filter::Nearest, &[
            0.0, 0.0, 7.0, 3.0, 3.0, 10.0, 6.0,
            2.0, 2.0, 9.0, 5.0, 5.0, 1.0, 8.0,
            4.0, 4.0, 0.0, 7.0, 7.0, 3.0, 10.0,
        ]);
        check([6, 3], Filter::Nearest, &[
            0.0, 7.0, 10.0, 0.0, 7.0, 10.0, 2.0, 9.0, 1.0, 4.0, 0.0, 3.0, 4.0, 0.0, 3.0, 6.0, 2.0, 5.0,
        ]);
        check([3, 7], Filter::Bilinear, &[
            0.33333337, 4.3333335, 6.190476, 3.3333335, 7.0238104, 7.5714283, 6.3333335,
            3.0, 3.857143, 4.9285717, 6.0, 3.1428566, 5.0, 9.0,
            5.666667, 3.3809526, 3.6666677, 8.666667, 5.8095236, 3.7380946, 2.4999986,
        ]);
        check([6, 3], Filter::Bilinear, &[
            2.3333333, 3.0, 7.333334, 3.3333333, 4.0, 6.5, 4.0555553, 5.333333, 5.9999986,
            2.9444442, 6.666667, 7.3333325, 3.6666667, 8.0, 5.0, 4.6666665, 9.0, 2.333334,
        ]);
        check([3, 7], Filter::Bicubic, &[
            -0.31374055, 4.864207, 6.886609, 3.2523153, 7.3246536, 8.226089, 6.06172,
            2.8819244, 3.7128274, 5.279793, 6.0, 1.371036, 4.2453523, 10.744631,
            6.07759, 2.5614524, 3.1707754, 8.747687, 6.3822713, 3.3113406, 2.1357937,
        ]);
        check([6, 3], Filter::Bicubic, &[
            2.252316, 2.8263893, 7.8281913, 3.6203713, 3.8125, 6.4236097, 4.267148, 5.4259257, 5.777197,
            2.5106325, 6.574075, 7.731673, 3.157409, 8.1875, 4.9930534, 4.525464, 9.173613, 1.5563914,
        ]);
    }

    // Expected values from torch 2.15.0's interpolate with antialias=True.
    #[test]
    #[rustfmt::skip]
    fn matches_pytorch_with_antialiasing() {
        let wide = |filter| Sampling { filter, antialias: true };
        check_sampling([2, 2], wide(Filter::Bilinear), &[4.5, 5.785714, 4.2142863, 5.142857]);
        check_sampling([3, 7], wide(Filter::Bilinear), &[
            0.6, 4.6, 6.457142, 3.6, 6.2428575, 7.0, 6.6,
            3.0, 3.857143, 4.9285717, 6.0, 3.1428566, 5.0, 9.0,
            5.4, 3.114286, 3.4, 8.4, 5.5428567, 4.1, 3.7,
        ]);
        check_sampling([2, 2], wide(Filter::Bicubic), &[4.3407464, 5.9753103, 4.189096, 5.200239]);
        check_sampling([3, 7], wide(Filter::Bicubic), &[
            -0.0645619, 4.956648, 7.320191, 3.3798625, 6.583725, 7.381555, 6.305215,
            2.9126213, 3.739612, 5.10021, 6.0, 2.1515, 4.74531, 9.840093,
            5.889805, 2.5225773, 2.6162097, 8.620138, 5.9038963, 3.789798, 3.2640245,
        ]);
        // Antialiasing does not affect the other filters.
        check_sampling([2, 1], wide(Filter::Area), &[5.1, 4.7]);
    }

    #[test]
    fn area_is_the_mean_of_the_covered_area() {
        check([2, 1], Filter::Area, &[5.1, 4.7]);
        // One and a half columns each, then half a column each.
        let row = ndarray::arr2(&[[0.0, 6.0, 3.0]]);
        assert_eq!(resized(&row, [1, 2], plain(Filter::Area)), ndarray::arr2(&[[2.0, 4.0]]));
        assert_eq!(
            resized(&row, [1, 6], plain(Filter::Area)),
            ndarray::arr2(&[[0.0, 0.0, 6.0, 6.0, 3.0, 3.0]])
        );
    }

    #[test]
    fn a_window_is_a_part_of_the_whole() {
        let all = resized(&sample(), [9, 8], plain(Filter::Bicubic));
        let rows = Resized { from: 4, to: 9, window: 2..5 };
        let cols = Resized { from: 5, to: 8, window: 1..8 };
        let part = resize(sample().view(), &rows, &cols, plain(Filter::Bicubic), &Limits::default()).unwrap();
        assert_eq!(part, all.slice(ndarray::s![2..5, 1..8]));
        let tiny = Limits { max_tensor_bytes: 100, ..Limits::default() };
        assert!(resize(sample().view(), &rows, &cols, plain(Filter::Area), &tiny).is_err());
    }

    proptest! {
        #[test]
        fn weights_sum_to_one_and_stay_inside(from in 1usize..50, to in 1usize..50) {
            let filters = [Filter::Nearest, Filter::Bilinear, Filter::Area, Filter::Bicubic];
            let samplings = filters.map(|filter| [false, true].map(|antialias| Sampling { filter, antialias }));
            for filter in samplings.into_iter().flatten() {
                for position in 0..to {
                    let taps = filter.taps(position, from, to);
                    let sum: f32 = taps.iter().map(|tap| tap.1).sum();
                    prop_assert!((sum - 1.0).abs() < 1e-5, "{:?} {}", filter, sum);
                    prop_assert!(taps.iter().all(|tap| tap.0 < from));
                    prop_assert!(from != to || taps.iter().all(|&(i, w)| w.abs() < 1e-5 || i == position));
                }
            }
        }
    }
}
