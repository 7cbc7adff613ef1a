//! Work that a library of the device does in the place of a kernel: products of matrices and convolutions.
//!
//! A [`LibraryWork`] says what is computed, in numbers alone; the tensors are the arguments of [`Queue::call`](super::Queue::call).
//! They are checked against it before a library sees them.

use super::{Argument, CudaError, DeviceTensor, Result};
use crate::tensor::DType;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;

/// The libraries of a device that were found, with their versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Libraries {
    /// cuBLASLt, which multiplies matrices.
    pub products: Option<Version>,
    /// cuDNN, which computes convolutions.
    pub convolutions: Option<Version>,
    /// cuFFT, which transforms signals.
    pub transforms: Option<Version>,
}

/// The version of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The number before the point.
    pub major: u32,
    /// The one behind it.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// `cuBLASLt 12.9, cuDNN 9.2`: those that are there.
impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [("cuBLASLt", self.products), ("cuDNN", self.convolutions), ("cuFFT", self.transforms)];
        let found = named.into_iter().filter_map(|(name, version)| Some(format!("{name} {}", version?)));
        f.write_str(&found.collect::<Vec<_>>().join(", "))
    }
}

/// What a library computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LibraryWork {
    /// A batch of products of matrices. Its tensors are the left factor, the right one, what is added, the bias, the result and
    /// scratch memory.
    Product(ProductWork),
    /// A convolution. Its tensors are the input, the weights, the bias, what is added, the result and scratch memory.
    Convolution(ConvolutionWork),
    /// Fourier transforms of a batch of signals. Its tensors are the signals and the results.
    Transform(TransformWork),
}

/// How the matrices of a batch lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixPlace {
    /// Whether rows lie in one piece each; otherwise columns do.
    pub is_by_rows: bool,
    /// How many elements apart rows, or columns, are.
    pub line: usize,
    /// How many elements apart matrices are.
    pub between: usize,
}

/// A function that a library applies to what it computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// None.
    Identity,
    /// `torch.nn.ReLU`.
    Relu,
    /// `torch.nn.GELU` with `approximate='tanh'`.
    GeluTanh,
}

/// alpha·left·right + beta·added + bias, and a function of that. Sums are in f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProductWork {
    /// The type of all tensors: f32, f16 or bf16.
    pub dtype: DType,
    /// Rows of the left factor, columns of the right one, and what is between.
    pub sizes: [usize; 3],
    /// How many products there are.
    pub batches: usize,
    /// rows×depth.
    pub left: MatrixPlace,
    /// depth×columns.
    pub right: MatrixPlace,
    /// rows×columns.
    pub added: Option<MatrixPlace>,
    /// rows×columns; rows lie in one piece each.
    pub output: MatrixPlace,
    /// Factors of the product and of what is added.
    pub scales: [f32; 2],
    /// Whether there is a bias: a number for each column.
    pub has_bias: bool,
    /// What is done to the sums.
    pub activation: Activation,
    /// Whether f32 may be read as TF32.
    pub allow_tf32: bool,
}

/// A convolution of channels that lie side by side. Sums are in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionWork {
    /// The type of all tensors: f32, f16 or bf16.
    pub dtype: DType,
    /// Lengths of the input: N, C, D, H and W.
    pub input: [usize; 5],
    /// How many elements apart its neighbours are along these axes.
    pub input_strides: [usize; 5],
    /// Lengths of the output.
    pub output: [usize; 5],
    /// How many elements apart its neighbours are.
    pub output_strides: [usize; 5],
    /// Taps along D, H and W. Weights lie in the order of output channels, taps and input channels of a group.
    pub taps: [usize; 3],
    /// Steps of the window.
    pub stride: [usize; 3],
    /// Zeros on either side.
    pub padding: [usize; 3],
    /// How far taps are apart.
    pub dilation: [usize; 3],
    /// Into how many groups channels fall.
    pub groups: usize,
    /// Whether there is a bias: a number for each output channel.
    pub has_bias: bool,
    /// Whether a tensor that lies as the output does is added.
    pub is_added: bool,
    /// Whether what is below 0 becomes 0.
    pub is_relu: bool,
    /// Whether f32 may be read as TF32.
    pub allow_tf32: bool,
}

/// What kinds of numbers are transformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transformed {
    /// Complex numbers to complex ones; forwards or backwards.
    Complex {
        /// Whether the exponent is negative.
        is_forward: bool,
    },
    /// Real numbers to the first half of their spectrum, forwards.
    FromReal,
    /// The first half of a spectrum to real numbers, backwards. The signals are destroyed.
    ToReal,
}

/// How the signals of a batch lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalPlace {
    /// How many elements apart neighbours of a signal are.
    pub step: usize,
    /// How many elements apart signals are.
    pub between: usize,
}

/// Fourier transforms of signals of one length; results are not divided by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransformWork {
    /// Of which numbers.
    pub kind: Transformed,
    /// Whether numbers are f64 rather than f32.
    pub is_double: bool,
    /// Numbers of a signal in time.
    pub length: usize,
    /// How many signals there are.
    pub batches: usize,
    /// Where the signals are.
    pub input: SignalPlace,
    /// Where the results go.
    pub output: SignalPlace,
}

/// A tensor that work needs: its type, the elements from its first to its last, and whether it is written.
#[derive(Debug, Clone, Copy)]
struct Needed {
    dtype: DType,
    elements: usize,
    is_written: bool,
    is_optional: bool,
}

impl Needed {
    fn read(dtype: DType, elements: usize) -> Self {
        Self { dtype, elements, is_written: false, is_optional: false }
    }

    fn written(dtype: DType, elements: usize) -> Self {
        Self { is_written: true, ..Self::read(dtype, elements) }
    }

    /// One that is given only if a library is to see it.
    fn if_there(is_there: bool, dtype: DType, elements: usize) -> Self {
        let elements = if is_there { elements } else { 0 };
        Self { is_optional: !is_there, ..Self::read(dtype, elements) }
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

/// The elements from the first to the last, for lengths and strides.
fn span(lens: &[usize], strides: &[usize]) -> usize {
    if lens.contains(&0) {
        return 0;
    }
    let steps = lens.iter().zip(strides).map(|(len, by)| (len - 1).saturating_mul(*by));
    steps.fold(1, usize::saturating_add)
}

impl MatrixPlace {
    fn span(&self, batches: usize, [rows, columns]: [usize; 2]) -> usize {
        // Libraries take what is less for a whole line.
        let line = self.line.max(if self.is_by_rows { columns } else { rows });
        let strides = if self.is_by_rows { [line, 1] } else { [1, line] };
        span(&[batches, rows, columns], &[self.between, strides[0], strides[1]])
    }
}

impl ProductWork {
    fn needed(&self) -> SmallVec<[Needed; 6]> {
        let [rows, columns, depth] = self.sizes;
        let (dtype, batches) = (self.dtype, self.batches);
        let added = self.added.map_or(0, |added| added.span(batches, [rows, columns]));
        SmallVec::from_slice(&[
            Needed::read(dtype, self.left.span(batches, [rows, depth])),
            Needed::read(dtype, self.right.span(batches, [depth, columns])),
            Needed::if_there(self.added.is_some(), dtype, added),
            Needed::if_there(self.has_bias, dtype, columns),
            Needed::written(dtype, self.output.span(batches, [rows, columns])),
            Needed::scratch(),
        ])
    }
}

impl ConvolutionWork {
    /// Whether the output has the lengths that windows over the input give.
    fn is_consistent(&self) -> bool {
        let positions = |axis: usize| {
            let seen = self.taps[axis].checked_sub(1)?.checked_mul(self.dilation[axis])?.checked_add(1)?;
            let room = self.input[2 + axis].checked_add(self.padding[axis].checked_mul(2)?)?;
            Some(room.checked_sub(seen)?.checked_div(self.stride[axis])? + 1)
        };
        let are_whole = |channels: usize| self.groups > 0 && channels.is_multiple_of(self.groups);
        (0..3).all(|axis| positions(axis) == Some(self.output[2 + axis]))
            && self.input[0] == self.output[0]
            && are_whole(self.input[1])
            && are_whole(self.output[1])
    }

    fn needed(&self) -> SmallVec<[Needed; 6]> {
        let (dtype, channels) = (self.dtype, self.output[1]);
        let of_group = self.input[1].checked_div(self.groups).unwrap_or(0);
        let weights =
            self.taps.iter().copied().fold(channels.saturating_mul(of_group), usize::saturating_mul);
        let output = span(&self.output, &self.output_strides);
        SmallVec::from_slice(&[
            Needed::read(dtype, span(&self.input, &self.input_strides)),
            Needed::read(dtype, weights),
            Needed::if_there(self.has_bias, dtype, channels),
            Needed::if_there(self.is_added, dtype, output),
            Needed::written(dtype, output),
            Needed::scratch(),
        ])
    }
}

impl TransformWork {
    fn needed(&self) -> SmallVec<[Needed; 6]> {
        let (real, complex) =
            if self.is_double { (DType::F64, DType::C128) } else { (DType::F32, DType::C64) };
        let half = self.length / 2 + 1;
        let [(from, given), (to, made)] = match self.kind {
            Transformed::Complex { .. } => [(complex, self.length); 2],
            Transformed::FromReal => [(real, self.length), (complex, half)],
            Transformed::ToReal => [(complex, half), (real, self.length)],
        };
        let of = |place: SignalPlace, len: usize| span(&[self.batches, len], &[place.between, place.step]);
        let input = match self.kind {
            Transformed::ToReal => Needed::written(from, of(self.input, given)),
            _ => Needed::read(from, of(self.input, given)),
        };
        SmallVec::from_slice(&[input, Needed::written(to, of(self.output, made))])
    }
}

impl LibraryWork {
    /// The library that does it.
    pub fn library(&self) -> &'static str {
        match self {
            Self::Product(_) => "cuBLASLt",
            Self::Convolution(_) => "cuDNN",
            Self::Transform(_) => "cuFFT",
        }
    }

    /// Whether its numbers go together.
    fn is_consistent(&self) -> bool {
        let goes_on = |place: &SignalPlace| place.step > 0 && place.between > 0;
        match self {
            Self::Product(_) => true,
            Self::Convolution(work) => work.is_consistent(),
            Self::Transform(work) => goes_on(&work.input) && goes_on(&work.output),
        }
    }

    fn needed(&self) -> SmallVec<[Needed; 6]> {
        match self {
            Self::Product(work) => work.needed(),
            Self::Convolution(work) => work.needed(),
            Self::Transform(work) => work.needed(),
        }
    }

    /// Refuses numbers that contradict each other, and tensors of another type, that are too small, or that are missing.
    pub(super) fn check(&self, arguments: &[Argument<'_>]) -> Result<()> {
        let needed = self.needed();
        let fits = |(needed, argument): (&Needed, &Argument<'_>)| needed.fits(argument);
        if self.is_consistent() && needed.len() == arguments.len() && needed.iter().zip(arguments).all(fits) {
            return Ok(());
        }
        let wanted = needed.iter().map(|needed| {
            let is_const = if needed.is_written { "" } else { "const " };
            format!("{is_const}{}*[{}]", needed.dtype, needed.elements)
        });
        Err(CudaError::Arguments {
            unit: self.library().to_owned(),
            kernel: format!("{self:?}"),
            wanted: format!("({})", wanted.collect::<Vec<_>>().join(", ")),
            found: format!("({})", arguments.iter().map(Argument::name).collect::<Vec<_>>().join(", ")),
        })
    }
}

/// A call of a library, for a driver.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the emulator has no libraries"))]
pub(crate) struct Call<'a> {
    pub(crate) work: &'a LibraryWork,
    /// Where the tensors are; 0 for none.
    pub(crate) addresses: &'a [u64],
    /// The bytes of scratch memory, which is the last of them.
    pub(crate) scratch: usize,
}

#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "the emulator has no libraries"))]
impl Call<'_> {
    /// Where the tensors are, of which the work has so many.
    pub(crate) fn tensors<const N: usize>(&self) -> [*mut c_void; N] {
        std::array::from_fn(|position| self.addresses.get(position).copied().unwrap_or(0) as *mut c_void)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_work_reaches_is_counted() {
        let place = MatrixPlace { is_by_rows: true, line: 10, between: 100 };
        assert_eq!(place.span(3, [4, 5]), 2 * 100 + 3 * 10 + 4 + 1);
        let place = MatrixPlace { is_by_rows: false, ..place };
        assert_eq!(place.span(1, [4, 5]), 3 + 4 * 10 + 1);
        assert_eq!(place.span(1, [0, 5]), 0);
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
