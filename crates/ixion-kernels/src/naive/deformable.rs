//! Deformable convolution of images, by its definition.

use crate::Float;
use crate::window::Window;
use ndarray::{Array4, ArrayView2, ArrayView4};

/// How a window slides over images while every tap samples a position of its own, as in `torchvision.ops.deform_conv2d`.
#[derive(Debug, Clone, PartialEq)]
pub struct Deforming {
    /// The window along rows and columns.
    pub windows: [Window; 2],
    /// The number of groups of channels; each output sees the channels of its own group.
    pub groups: usize,
    /// The number of groups of input channels that sample the same positions.
    pub offset_groups: usize,
}

impl Deforming {
    /// The number of taps of the window.
    pub fn taps(&self) -> usize {
        self.windows.iter().map(|window| window.kernel).product()
    }

    /// The coordinate along an axis (rows, then columns) that a tap samples while the window is at `position` and the tap
    /// is moved by `offset`.
    pub fn place<T: Float>(&self, axis: usize, position: usize, tap: usize, offset: T) -> T {
        let window = self.windows[axis];
        let at = T::of((position * window.stride + tap * window.dilation) as f64);
        at - T::of(window.pad_before as f64) + offset
    }
}

/// The four elements around a position of an image with `lens` rows and columns, with their weights. An element outside
/// is `None`; if the position is one element or more outside, all are.
pub fn around<T: Float>(place: [T; 2], lens: [usize; 2]) -> [Option<(usize, T)>; 4] {
    let is_near = |(&at, &len): (&T, &usize)| at > -T::one() && at < T::of(len as f64);
    if !place.iter().zip(&lens).all(is_near) {
        return [None; 4];
    }
    let [y, x] = place.map(|at| (at.floor().to_isize().unwrap_or(-1), at - at.floor()));
    [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(down, right)| {
        let row = usize::try_from(y.0 + down).ok().filter(|&row| row < lens[0])?;
        let column = usize::try_from(x.0 + right).ok().filter(|&column| column < lens[1])?;
        let weight = |further: isize, part: T| if further == 1 { part } else { T::one() - part };
        Some((row * lens[1] + column, weight(down, y.1) * weight(right, x.1)))
    })
}

/// The value at a position between the elements of an image, which is surrounded by zeros.
pub fn bilinear<T: Float>(picture: ArrayView2<'_, T>, place: [T; 2]) -> T {
    let columns = picture.ncols();
    let corners = around(place, picture.dim().into()).into_iter().flatten();
    corners.fold(T::zero(), |sum, (at, weight)| sum + weight * picture[(at / columns, at % columns)])
}

/// Convolves images N×C×H×W with weights O×(C/groups)×h×w. The offsets N×2·G·h·w×H'×W' move every tap at every position,
/// rows before columns; the mask N×G·h·w×H'×W' is multiplied with the sampled values.
pub fn deform_conv2d<T: Float>(
    input: ArrayView4<'_, T>,
    weight: ArrayView4<'_, T>,
    offset: ArrayView4<'_, T>,
    mask: Option<ArrayView4<'_, T>>,
    how: &Deforming,
) -> Array4<T> {
    let (samples, channels, height, width) = input.dim();
    let (out_channels, in_group, kernel, columns) = weight.dim();
    let lens = [how.windows[0].positions(height), how.windows[1].positions(width)];
    Array4::from_shape_fn((samples, out_channels, lens[0], lens[1]), |(n, o, i, j)| {
        let first = o / (out_channels / how.groups) * in_group;
        let mut sum = T::zero();
        for (c, y, x) in (0..in_group * kernel * columns)
            .map(|at| (at / (kernel * columns), at / columns % kernel, at % columns))
        {
            let channel = first + c;
            let tap = channel / (channels / how.offset_groups) * how.taps() + y * columns + x;
            let place = [
                how.place(0, i, y, offset[(n, 2 * tap, i, j)]),
                how.place(1, j, x, offset[(n, 2 * tap + 1, i, j)]),
            ];
            let seen = bilinear(input.slice(ndarray::s![n, channel, .., ..]), place);
            sum += weight[(o, c, y, x)] * mask.map_or(T::one(), |mask| mask[(n, tap, i, j)]) * seen;
        }
        sum
    })
}
