//! Tensors as text: all elements, or a one-line summary.

use super::wide::{Scalar, Widen, complex_text};
use super::{Result, Tensor, with_element};
use std::fmt::{self, Write};

/// Long axes are elided if there are more elements than this.
const ELIDE_ABOVE: usize = 1000;

/// The number of elements shown at either end of an elided axis.
const EDGE: usize = 3;

/// Rows of numbers wrap before this column.
const LINE: usize = 100;

/// The number of values shown in a summary.
const FIRST: usize = 5;

/// Formats the elements in nested brackets, as NumPy and PyTorch do, and a line with element type and shape.
///
/// Above 1000 elements, only both ends of long axes are shown. Floats have four decimals unless the format specifies
/// another precision (`{:.2}`), and exponents if decimals would lose the value.
///
/// ```
/// use ixion_tensor::Tensor;
/// let x = Tensor::from_vec(vec![0.0f32, -1.5, 10.0, 0.25], &[2, 2])?;
/// assert_eq!(x.to_string(), "[[ 0.0000, -1.5000],\n [10.0000,  0.2500]]\nf32 2×2");
/// # Ok::<(), ixion_tensor::TensorError>(())
/// ```
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = Vec::new();
        let shown = shown(self).and_then(|(part, elided)| {
            each(&part, |value| values.push(value))?;
            Ok((part, elided))
        });
        match shown {
            Ok(_) if values.is_empty() => f.write_str("[]")?,
            Ok((part, elided)) => {
                let style = Style::of(&values, f.precision().unwrap_or(4));
                let texts: Vec<String> = values.iter().map(|value| style.text(value)).collect();
                let width = texts.iter().map(String::len).max().unwrap_or(0);
                let block = Block { texts: &texts, width, elided: &elided };
                let mut text = String::new();
                block.write(&mut text, part.shape(), 0, 1)?;
                f.write_str(&text)?;
            }
            Err(error) => write!(f, "({error})")?,
        }
        write!(f, "\n{} {}", self.dtype(), self.shape())
    }
}

impl Tensor {
    /// A one-line summary: element type, shape, minimum, maximum, mean and the first values. NaNs are counted and excluded
    /// from the statistics.
    ///
    /// ```
    /// use ixion_tensor::Tensor;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.5, -4.0], &[3])?;
    /// assert_eq!(x.summary(), "f32 3: min -4, max 2.5, mean -0.1667, first 1, 2.5, -4");
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    pub fn summary(&self) -> String {
        let mut statistics = Statistics::default();
        let seen = self.to_plain().and_then(|plain| each(&plain, |value| statistics.add(value)));
        let text = match seen {
            Ok(()) => statistics.to_string(),
            Err(error) => error.to_string(),
        };
        format!("{} {}: {text}", self.dtype(), self.shape())
    }
}

/// Visits all elements in row-major order.
fn each(tensor: &Tensor, mut visit: impl FnMut(Scalar)) -> Result<()> {
    fn walk<T: Widen>(tensor: &Tensor, visit: &mut dyn FnMut(Scalar)) -> Result<()> {
        tensor.array::<T>()?.iter().for_each(|&value| visit(Scalar::of(value)));
        Ok(())
    }
    with_element!(tensor.dtype(), T => walk::<T>(tensor, &mut visit))
}

/// The elements to show, and for each axis whether its middle is elided.
fn shown(tensor: &Tensor) -> Result<(Tensor, Vec<bool>)> {
    let mut part = tensor.to_plain()?;
    let mut elided = vec![false; part.rank()];
    if part.num_elements() > ELIDE_ABOVE {
        for (axis, elided) in elided.iter_mut().enumerate() {
            let (dim, index) = (part.shape()[axis], axis as i64);
            if dim > 2 * EDGE {
                let ends = [part.narrow(index, 0, EDGE)?, part.narrow(index, dim - EDGE, EDGE)?];
                part = Tensor::concat(&ends, index)?;
                *elided = true;
            }
        }
    }
    Ok((part, elided))
}

/// The number format of a tensor.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// Floats without a fraction: `3.`
    Whole,
    /// A fixed number of decimals: `3.1416`
    Decimals(usize),
    /// A fixed number of decimals and an exponent: `3.1416e-10`
    Exponent(usize),
}

impl Style {
    fn of(values: &[Scalar], precision: usize) -> Self {
        let sizes = values.iter().flat_map(parts).map(f64::abs);
        let sizes: Vec<f64> = sizes.filter(|size| size.is_finite() && *size != 0.0).collect();
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        let smallest = sizes.iter().copied().fold(f64::INFINITY, f64::min);
        if largest >= 1e8 || smallest < 1e-4 {
            Style::Exponent(precision)
        } else if sizes.iter().all(|size| size.fract() == 0.0) {
            Style::Whole
        } else {
            Style::Decimals(precision)
        }
    }

    fn text(self, value: &Scalar) -> String {
        match value {
            Scalar::Float(value) => self.float(*value),
            Scalar::Complex(value) => complex_text(*value, |part| self.float(part)),
            exact => exact.to_string(),
        }
    }

    fn float(self, value: f64) -> String {
        match self {
            _ if value.is_nan() => "nan".into(),
            _ if value.is_infinite() => value.to_string(),
            Style::Whole => format!("{value:.0}."),
            Style::Decimals(decimals) => format!("{value:.decimals$}"),
            Style::Exponent(decimals) => format!("{value:.decimals$e}"),
        }
    }
}

/// The floating-point components of a value.
fn parts(value: &Scalar) -> Vec<f64> {
    match value {
        Scalar::Float(value) => vec![*value],
        Scalar::Complex(value) => vec![value.re, value.im],
        _ => Vec::new(),
    }
}

/// The texts of all shown elements.
struct Block<'a> {
    texts: &'a [String],
    width: usize,
    elided: &'a [bool],
}

impl Block<'_> {
    /// Writes the elements from `start` on, along the axes `dims`, at nesting depth `depth`.
    fn write(&self, out: &mut String, dims: &[usize], start: usize, depth: usize) -> fmt::Result {
        let Some((&dim, inner)) = dims.split_first() else {
            return write!(out, "{:>1$}", self.text(start), self.width);
        };
        let step: usize = inner.iter().product();
        let separator = match inner.len() {
            0 => String::from(" "),
            axes => format!("{}{}", "\n".repeat(axes), " ".repeat(depth)),
        };
        let mut column = depth;
        out.push('[');
        for i in 0..dim {
            if i > 0 {
                out.push(',');
                let full = inner.is_empty() && column + self.width + 2 > LINE;
                out.push_str(&if full { format!("\n{}", " ".repeat(depth)) } else { separator.clone() });
                column = if full { depth } else { column + self.width + 2 };
            }
            if i == EDGE && self.is_elided(depth - 1) {
                write!(out, "...,{separator}")?;
                column += 5;
            }
            self.write(out, inner, start + i * step, depth + 1)?;
        }
        out.push(']');
        Ok(())
    }

    fn text(&self, position: usize) -> &str {
        self.texts.get(position).map_or("", String::as_str)
    }

    fn is_elided(&self, axis: usize) -> bool {
        self.elided.get(axis) == Some(&true)
    }
}

/// The statistics of a summary, accumulated element by element.
#[derive(Default)]
struct Statistics {
    first: Vec<Scalar>,
    count: usize,
    nans: usize,
    /// Minimum, maximum and sum of all numbers except NaN.
    range: Option<[f64; 3]>,
    trues: Option<usize>,
    largest_magnitude: Option<f64>,
}

impl Statistics {
    fn add(&mut self, value: Scalar) {
        self.count += 1;
        if self.first.len() < FIRST {
            self.first.push(value);
        }
        match value {
            Scalar::Bool(value) => *self.trues.get_or_insert(0) += usize::from(value),
            Scalar::Int(value) => self.add_number(value as f64),
            Scalar::Float(value) => self.add_number(value),
            Scalar::Complex(value) => {
                let largest = self.largest_magnitude.get_or_insert(0.0);
                *largest = largest.max(value.norm());
            }
        }
    }

    fn add_number(&mut self, value: f64) {
        if value.is_nan() {
            self.nans += 1;
            return;
        }
        let [min, max, sum] = self.range.get_or_insert([value, value, 0.0]);
        (*min, *max) = (min.min(value), max.max(value));
        *sum += value;
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("empty");
        }
        if let Some([min, max, sum]) = self.range {
            let mean = short(sum / (self.count - self.nans) as f64);
            write!(f, "min {}, max {}, mean {mean}, ", short(min), short(max))?;
        }
        if self.nans > 0 {
            write!(f, "{} NaN, ", self.nans)?;
        }
        if let Some(trues) = self.trues {
            write!(f, "{trues} true, ")?;
        }
        if let Some(largest) = self.largest_magnitude {
            write!(f, "largest magnitude {}, ", short(largest))?;
        }
        let first: Vec<String> = self.first.iter().map(short_scalar).collect();
        let more = if self.count > FIRST { ", …" } else { "" };
        write!(f, "first {}{more}", first.join(", "))
    }
}

fn short_scalar(value: &Scalar) -> String {
    match value {
        Scalar::Float(value) => short(*value),
        Scalar::Complex(value) => complex_text(*value, short),
        exact => exact.to_string(),
    }
}

/// A number with four significant digits, without trailing zeros.
fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size == 0.0 || (value.fract() == 0.0 && size < 1e9) {
        return Scalar::Float(value).to_string();
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Complex, DType};
    use insta::assert_snapshot;

    fn counting(dtype: DType, dims: &[usize]) -> Tensor {
        let len: usize = dims.iter().product();
        Tensor::arange(dtype, 0.0, len as f64, 1.0).unwrap().reshape(dims).unwrap()
    }

    #[test]
    fn small_tensors_of_any_rank() {
        assert_snapshot!(Tensor::scalar(2.5f32), @r"
        2.5000
        f32 scalar
        ");
        assert_snapshot!(counting(DType::I64, &[4]), @r"
        [0, 1, 2, 3]
        i64 4
        ");
        assert_snapshot!(counting(DType::F32, &[2, 6]), @r"
        [[ 0.,  1.,  2.,  3.,  4.,  5.],
         [ 6.,  7.,  8.,  9., 10., 11.]]
        f32 2×6
        ");
        assert_snapshot!(counting(DType::U8, &[2, 2, 3]), @r"
        [[[ 0,  1,  2],
          [ 3,  4,  5]],

         [[ 6,  7,  8],
          [ 9, 10, 11]]]
        u8 2×2×3
        ");
        assert_snapshot!(counting(DType::I8, &[2, 1, 1, 2]), @r"
        [[[[0, 1]]],


         [[[2, 3]]]]
        i8 2×1×1×2
        ");
        assert_snapshot!(counting(DType::F32, &[2, 0, 3]), @r"
        []
        f32 2×0×3
        ");
        assert_snapshot!(counting(DType::I32, &[2, 3]).permute(&[1, 0]).unwrap(), @r"
        [[0, 3],
         [1, 4],
         [2, 5]]
        i32 3×2
        ");
        assert_snapshot!(counting(DType::I32, &[2, 3]).to_blocked(1, 2).unwrap(), @r"
        [[0, 1, 2],
         [3, 4, 5]]
        i32 2×3
        ");
    }

    #[test]
    fn long_axes_are_elided_and_long_rows_broken() {
        assert_snapshot!(counting(DType::I64, &[2000]), @r"
        [   0,    1,    2, ..., 1997, 1998, 1999]
        i64 2000
        ");
        assert_snapshot!(counting(DType::F32, &[4, 30, 40]), @r"
        [[[   0.,    1.,    2., ...,   37.,   38.,   39.],
          [  40.,   41.,   42., ...,   77.,   78.,   79.],
          [  80.,   81.,   82., ...,  117.,  118.,  119.],
          ...,
          [1080., 1081., 1082., ..., 1117., 1118., 1119.],
          [1120., 1121., 1122., ..., 1157., 1158., 1159.],
          [1160., 1161., 1162., ..., 1197., 1198., 1199.]],

         [[1200., 1201., 1202., ..., 1237., 1238., 1239.],
          [1240., 1241., 1242., ..., 1277., 1278., 1279.],
          [1280., 1281., 1282., ..., 1317., 1318., 1319.],
          ...,
          [2280., 2281., 2282., ..., 2317., 2318., 2319.],
          [2320., 2321., 2322., ..., 2357., 2358., 2359.],
          [2360., 2361., 2362., ..., 2397., 2398., 2399.]],

         [[2400., 2401., 2402., ..., 2437., 2438., 2439.],
          [2440., 2441., 2442., ..., 2477., 2478., 2479.],
          [2480., 2481., 2482., ..., 2517., 2518., 2519.],
          ...,
          [3480., 3481., 3482., ..., 3517., 3518., 3519.],
          [3520., 3521., 3522., ..., 3557., 3558., 3559.],
          [3560., 3561., 3562., ..., 3597., 3598., 3599.]],

         [[3600., 3601., 3602., ..., 3637., 3638., 3639.],
          [3640., 3641., 3642., ..., 3677., 3678., 3679.],
          [3680., 3681., 3682., ..., 3717., 3718., 3719.],
          ...,
          [4680., 4681., 4682., ..., 4717., 4718., 4719.],
          [4720., 4721., 4722., ..., 4757., 4758., 4759.],
          [4760., 4761., 4762., ..., 4797., 4798., 4799.]]]
        f32 4×30×40
        ");
        assert_snapshot!(counting(DType::I16, &[50]), @r"
        [ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
         25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49]
        i16 50
        ");
    }

    #[test]
    fn numbers_of_every_kind() {
        let floats = [0.1f64, -2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0];
        let floats = Tensor::from_vec(floats.to_vec(), &[2, 3]).unwrap();
        assert_snapshot!(floats, @r"
        [[ 0.1000, -2.0000,     nan],
         [    inf,    -inf,  0.0000]]
        f64 2×3
        ");
        assert_snapshot!(format!("{floats:.1}"), @r"
        [[ 0.1, -2.0,  nan],
         [ inf, -inf,  0.0]]
        f64 2×3
        ");
        assert_snapshot!(Tensor::from_vec(vec![1e-9f32, -1.0, 12345.6], &[3]).unwrap(), @r"
        [1.0000e-9, -1.0000e0,  1.2346e4]
        f32 3
        ");
        assert_snapshot!(floats.cast(DType::Bf16).unwrap(), @r"
        [[ 0.1001, -2.0000,     nan],
         [    inf,    -inf,  0.0000]]
        bf16 2×3
        ");
        assert_snapshot!(Tensor::from_vec(vec![true, false], &[2]).unwrap(), @r"
        [ true, false]
        bool 2
        ");
        let complex = [Complex::new(1.0f32, -0.5), Complex::new(-10.0, 2.0)];
        assert_snapshot!(Tensor::from_vec(complex.to_vec(), &[2]).unwrap(), @r"
        [  1.0000-0.5000j, -10.0000+2.0000j]
        c64 2
        ");
        assert_snapshot!(Tensor::from_vec(vec![i64::MIN, 7], &[2]).unwrap(), @r"
        [-9223372036854775808,                    7]
        i64 2
        ");
    }

    #[test]
    fn one_line() {
        let x = Tensor::arange(DType::F32, -1.0, 1.0, 0.3).unwrap();
        assert_snapshot!(x.summary(), @"f32 7: min -1, max 0.8, mean -0.1, first -1, -0.7, -0.4, -0.1, 0.2, …");
        assert_snapshot!(Tensor::scalar(1e-7f32).summary(), @"f32 scalar: min 1.000e-7, max 1.000e-7, mean 1.000e-7, first 1.000e-7");
        assert_snapshot!(counting(DType::U8, &[2, 3]).summary(), @"u8 2×3: min 0, max 5, mean 2.5, first 0, 1, 2, 3, 4, …");
        assert_snapshot!(Tensor::from_vec(vec![true, false, true], &[3]).unwrap().summary(), @"bool 3: 2 true, first true, false, true");
        assert_snapshot!(Tensor::from_vec(vec![f32::NAN, 1234567.8], &[2]).unwrap().summary(), @"f32 2: min 1.235e6, max 1.235e6, mean 1.235e6, 1 NaN, first nan, 1.235e6");
        assert_snapshot!(Tensor::from_vec(vec![f32::NAN], &[1]).unwrap().summary(), @"f32 1: 1 NaN, first nan");
        assert_snapshot!(Tensor::full(&[2], Complex::new(3.0f32, -4.0)).unwrap().summary(), @"c64 2: largest magnitude 5, first 3-4j, 3-4j");
        assert_snapshot!(Tensor::zeros(DType::F64, &[0, 2]).unwrap().summary(), @"f64 0×2: empty");
    }

    #[test]
    fn every_dtype_prints() {
        for dtype in DType::ALL {
            let text = Tensor::ones(dtype, &[2]).unwrap().to_string();
            assert!(text.ends_with(&format!("{dtype} 2")), "{text}");
        }
    }
}
