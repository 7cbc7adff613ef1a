//! Work that a library of the device does instead of a kernel: matrix products, convolutions and Fourier transforms.
//!
//! A [`LibraryWork`] describes the computation by sizes and flags alone; the tensors are the arguments of
//! [`Queue::call`](super::Queue::call). They are checked against it before the library gets them.

use super::{Argument, CudaError, DeviceTensor, Result};
use crate::tensor::DType;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;

/// The libraries of a device that were found, with their versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Libraries {
    /// cuBLASLt, for matrix products.
    pub products: Option<Version>,
    /// cuDNN, for convolutions.
    pub convolutions: Option<Version>,
    /// cuFFT, for Fourier transforms.
    pub transforms: Option<Version>,
}

/// The version of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The available libraries, such as `cuBLASLt 12.9, cuDNN 9.2`.
impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [("cuBLASLt", self.products), ("cuDNN", self.convolutions), ("cuFFT", self.transforms)];
        let found = named.into_iter().filter_map(|(name, version)| Some(format!("{name} {}", version?)));
        f.write_str(&found.collect::<Vec<_>>().join(", "))
    }
}

/// A computation of a library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LibraryWork {
    /// A batch of matrix products. Its tensors are the left factor, the right factor, the addend, the bias, the result and
    /// scratch memory.
    Product(ProductWork),
    /// A convolution. Its tensors are the input, the weights, the bias, the addend, the result and scratch memory.
    Convolution(ConvolutionWork),
    /// Fourier transforms of a batch of signals. Its tensors are the signals and the results.
    Transform(TransformWork),
}

/// The memory layout of a batch of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixLayout {
    /// Whether each row is contiguous; otherwise each column is.
    pub is_row_major: bool,
    /// The distance in elements between adjacent rows, or columns.
    pub leading_dimension: usize,
    /// The distance in elements between adjacent matrices.
    pub batch_stride: usize,
}

/// The activation function that a library applies to its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// None.
    Identity,
    /// `torch.nn.ReLU`.
    Relu,
    /// `torch.nn.GELU` with `approximate='tanh'`.
    GeluTanh,
}

/// alpha·left·right + beta·added + bias, followed by an activation function. Sums are in f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductWork {
    /// The type of all tensors: f32, f16 or bf16.
    pub dtype: DType,
    /// Rows of the left factor, columns of the right factor, and the dimension that is summed over (depth).
    pub sizes: [usize; 3],
    /// The number of products.
    pub batches: usize,
    /// The left factor, rows×depth.
    pub left: MatrixLayout,
    /// The right factor, depth×columns.
    pub right: MatrixLayout,
    /// The addend, rows×columns.
    pub added: Option<MatrixLayout>,
    /// The result, rows×columns; each row is contiguous.
    pub output: MatrixLayout,
    /// The factors of the product (alpha) and of the addend (beta).
    pub scales: [f32; 2],
    /// Whether there is a bias, with a value for each column.
    pub has_bias: bool,
    /// The activation function.
    pub activation: Activation,
    /// Whether f32 may be read as TF32.
    pub allow_tf32: bool,
}

/// A convolution of channels-last tensors. Sums are in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionWork {
    /// The type of all tensors: f32, f16 or bf16.
    pub dtype: DType,
    /// Lengths of the input: N, C, D, H and W.
    pub input: [usize; 5],
    /// The strides of the input, in elements.
    pub input_strides: [usize; 5],
    /// Lengths of the output: N, C, D, H and W.
    pub output: [usize; 5],
    /// The strides of the output, in elements.
    pub output_strides: [usize; 5],
    /// Taps along D, H and W. Weights are ordered by output channel, tap, and input channel of the group.
    pub taps: [usize; 3],
    /// Strides of the window along D, H and W.
    pub stride: [usize; 3],
    /// Zero padding on each side of D, H and W.
    pub padding: [usize; 3],
    /// Distances between taps along D, H and W.
    pub dilation: [usize; 3],
    /// The number of groups of channels.
    pub groups: usize,
    /// Whether there is a bias, with a value for each output channel.
    pub has_bias: bool,
    /// Whether a tensor with the layout of the output is added.
    pub is_added: bool,
    /// Whether ReLU is applied.
    pub is_relu: bool,
    /// Whether f32 may be read as TF32.
    pub allow_tf32: bool,
}

/// The kind of a Fourier transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransformKind {
    /// Complex to complex, forward or inverse.
    Complex {
        /// Whether the exponent is negative.
        is_forward: bool,
    },
    /// Real signals to the first half of their spectrum, forward.
    FromReal,
    /// The first half of a spectrum to real signals, inverse. The input is overwritten.
    ToReal,
}

/// The memory layout of a batch of signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalLayout {
    /// The distance between adjacent elements of a signal.
    pub stride: usize,
    /// The distance in elements between adjacent signals.
    pub distance: usize,
}

/// Fourier transforms of signals of equal length, without normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransformWork {
    /// The kind of transform.
    pub kind: TransformKind,
    /// Whether elements are double precision, instead of single.
    pub is_double: bool,
    /// The length of a signal in the time domain.
    pub length: usize,
    /// The number of signals.
    pub batches: usize,
    /// The layout of the input.
    pub input: SignalLayout,
    /// The layout of the output.
    pub output: SignalLayout,
}

/// A tensor that work requires: its element type, the number of elements from the first to the last, and whether it is written.
#[derive(Debug, Clone, Copy)]
struct Requirement {
    dtype: DType,
    elements: usize,
    is_written: bool,
    is_optional: bool,
}

impl Requirement {
    fn read(dtype: DType, elements: usize) -> Self {
        Self { dtype, elements, is_written: false, is_optional: false }
    }

    fn written(dtype: DType, elements: usize) -> Self {
        Self { is_written: true, ..Self::read(dtype, elements) }
    }

    /// A tensor that is passed only if `is_used`.
    fn read_if(is_used: bool, dtype: DType, elements: usize) -> Self {
        let elements = if is_used { elements } else { 0 };
        Self { is_optional: !is_used, ..Self::read(dtype, elements) }
    }

    fn scratch() -> Self {
        Self { is_optional: true, ..Self::written(DType::U8, 0) }
    }

    fn fits(&self, argument: &Argument<'_>) -> bool {
        let has_room = |tensor: &DeviceTensor<'_>| {
            let room = tensor.span() / tensor.dtype().size();
            tensor.dtype() == self.dtype && room >= self.elements
        };
        match argument {
            Argument::None => self.is_optional,
            Argument::Read(tensor) => !self.is_written && has_room(tensor),
            Argument::Write(tensor) => self.is_written && has_room(tensor),
            _ => false,
        }
    }
}

/// The number of elements from the first to the last, for these lengths and strides.
fn span(lens: &[usize], strides: &[usize]) -> usize {
    if lens.contains(&0) {
        return 0;
    }
    let extents = lens.iter().zip(strides).map(|(len, by)| (len - 1).saturating_mul(*by));
    extents.fold(1, usize::saturating_add)
}

impl MatrixLayout {
    fn span(&self, batches: usize, [rows, columns]: [usize; 2]) -> usize {
        // Libraries treat a smaller distance as that of a contiguous line.
        let line = self.leading_dimension.max(if self.is_row_major { columns } else { rows });
        let strides = if self.is_row_major { [line, 1] } else { [1, line] };
        span(&[batches, rows, columns], &[self.batch_stride, strides[0], strides[1]])
    }
}

impl ProductWork {
    fn requirements(&self) -> SmallVec<[Requirement; 6]> {
        let [rows, columns, depth] = self.sizes;
        let (dtype, batches) = (self.dtype, self.batches);
        let added = self.added.map_or(0, |added| added.span(batches, [rows, columns]));
        SmallVec::from_slice(&[
            Requirement::read(dtype, self.left.span(batches, [rows, depth])),
            Requirement::read(dtype, self.right.span(batches, [depth, columns])),
            Requirement::read_if(self.added.is_some(), dtype, added),
            Requirement::read_if(self.has_bias, dtype, columns),
            Requirement::written(dtype, self.output.span(batches, [rows, columns])),
            Requirement::scratch(),
        ])
    }
}

impl ConvolutionWork {
    /// Returns true if the output has the lengths that windows over the input give.
    fn is_consistent(&self) -> bool {
        let positions = |axis: usize| {
            let extent = self.taps[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)?;
            let padded = self.input[2 + axis].checked_add(self.padding[axis].checked_mul(2)?)?;
            Some(padded.checked_sub(extent)?.checked_div(self.stride[axis])? + 1)
        };
        let is_divisible = |channels: usize| self.groups > 0 && channels.is_multiple_of(self.groups);
        (0..3).all(|axis| positions(axis) == Some(self.output[2 + axis]))
            && self.input[0] == self.output[0]
            && is_divisible(self.input[1])
            && is_divisible(self.output[1])
    }

    fn requirements(&self) -> SmallVec<[Requirement; 6]> {
        let (dtype, channels) = (self.dtype, self.output[1]);
        let of_group = self.input[1].checked_div(self.groups).unwrap_or(0);
        let weights =
            self.taps.iter().copied().fold(channels.saturating_mul(of_group), usize::saturating_mul);
        let output = span(&self.output, &self.output_strides);
        SmallVec::from_slice(&[
            Requirement::read(dtype, span(&self.input, &self.input_strides)),
            Requirement::read(dtype, weights),
            Requirement::read_if(self.has_bias, dtype, channels),
            Requirement::read_if(self.is_added, dtype, output),
            Requirement::written(dtype, output),
            Requirement::scratch(),
        ])
    }
}

impl TransformWork {
    fn requirements(&self) -> SmallVec<[Requirement; 6]> {
        let (real, complex) =
            if self.is_double { (DType::F64, DType::C128) } else { (DType::F32, DType::C64) };
        let half = self.length / 2 + 1;
        let [(from, from_len), (to, to_len)] = match self.kind {
            TransformKind::Complex { .. } => [(complex, self.length); 2],
            TransformKind::FromReal => [(real, self.length), (complex, half)],
            TransformKind::ToReal => [(complex, half), (real, self.length)],
        };
        let of =
            |layout: SignalLayout, len: usize| span(&[self.batches, len], &[layout.distance, layout.stride]);
        let input = match self.kind {
            TransformKind::ToReal => Requirement::written(from, of(self.input, from_len)),
            _ => Requirement::read(from, of(self.input, from_len)),
        };
        SmallVec::from_slice(&[input, Requirement::written(to, of(self.output, to_len))])
    }
}

impl LibraryWork {
    /// The name of the library.
    pub fn library(&self) -> &'static str {
        match self {
            Self::Product(_) => "cuBLASLt",
            Self::Convolution(_) => "cuDNN",
            Self::Transform(_) => "cuFFT",
        }
    }

    /// Returns true if its sizes are consistent.
    fn is_consistent(&self) -> bool {
        let has_strides = |layout: &SignalLayout| layout.stride > 0 && layout.distance > 0;
        match self {
            Self::Product(_) => true,
            Self::Convolution(work) => work.is_consistent(),
            Self::Transform(work) => has_strides(&work.input) && has_strides(&work.output),
        }
    }

    fn requirements(&self) -> SmallVec<[Requirement; 6]> {
        match self {
            Self::Product(work) => work.requirements(),
            Self::Convolution(work) => work.requirements(),
            Self::Transform(work) => work.requirements(),
        }
    }

    /// Returns an error if the sizes are inconsistent, or if a tensor is missing, too small, or of another element type.
    pub(super) fn check(&self, arguments: &[Argument<'_>]) -> Result<()> {
        let requirements = self.requirements();
        let fits = |(requirement, argument): (&Requirement, &Argument<'_>)| requirement.fits(argument);
        if self.is_consistent()
            && requirements.len() == arguments.len()
            && requirements.iter().zip(arguments).all(fits)
        {
            return Ok(());
        }
        let wanted = requirements.iter().map(|requirement| {
            let is_const = if requirement.is_written { "" } else { "const " };
            format!("{is_const}{}*[{}]", requirement.dtype, requirement.elements)
        });
        Err(CudaError::Arguments {
            unit: self.library().to_owned(),
            kernel: format!("{self:?}"),
            wanted: format!("({})", wanted.collect::<Vec<_>>().join(", ")),
            found: format!("({})", arguments.iter().map(Argument::name).collect::<Vec<_>>().join(", ")),
        })
    }
}

/// A library call, for a driver.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the emulator has no libraries"))]
pub(crate) struct Call<'a> {
    pub(crate) work: &'a LibraryWork,
    /// The addresses of the tensors; 0 for none.
    pub(crate) addresses: &'a [u64],
    /// The size of the scratch memory in bytes; its address is the last.
    pub(crate) scratch: usize,
}

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the emulator has no libraries"))]
impl Call<'_> {
    /// The addresses of the first `N` tensors; null for none.
    pub(crate) fn tensors<const N: usize>(&self) -> [*mut c_void; N] {
        std::array::from_fn(|position| self.addresses.get(position).copied().unwrap_or(0) as *mut c_void)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_reach_from_the_first_element_to_the_last() {
        let layout = MatrixLayout { is_row_major: true, leading_dimension: 10, batch_stride: 100 };
        assert_eq!(layout.span(3, [4, 5]), 2 * 100 + 3 * 10 + 4 + 1);
        let layout = MatrixLayout { is_row_major: false, ..layout };
        assert_eq!(layout.span(1, [4, 5]), 3 + 4 * 10 + 1);
        assert_eq!(layout.span(1, [0, 5]), 0);
        assert_eq!(span(&[usize::MAX, 2], &[usize::MAX, 1]), usize::MAX);
    }

    #[test]
    fn libraries_are_listed() {
        let version = |major, minor| Some(Version { major, minor });
        let found = Libraries { products: version(12, 9), convolutions: None, transforms: version(11, 4) };
        assert_eq!(found.to_string(), "cuBLASLt 12.9, cuFFT 11.4");
        assert_eq!(Libraries::default().to_string(), "");
    }
}
