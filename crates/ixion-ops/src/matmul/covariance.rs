//! Covariances and correlations.

use crate::attention::dot_product::OptionalInput;
use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::number;
use crate::support::number::Number;
use crate::support::promotion::promote;
use ixion_kernels::matrix::{Field, adjoint, product};
use ixion_tensor::{Complex, DType, Dim, Limits, TensorView, TensorViewMut};
use ndarray::{Array2, ArrayView2};
use std::borrow::Cow;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.cov`: the covariance matrix of variables (rows) with observations (columns): mean products of deviations from the
    /// rows' means, the second one conjugated if complex. A vector is a single row; its result is a scalar.
    pub struct Cov for "aten::cov" {
        /// Subtracted from the number of observations in the divisor: 1 is Bessel's correction, 0 gives the plain mean.
        correction: i64 = 1,
        /// How often each observation is counted.
        fweights: OptionalInput = OptionalInput(None),
        /// The weight of each observation.
        aweights: OptionalInput = OptionalInput(None),
    }
}

crate::operator! {
    /// `torch.corrcoef`: the matrix of Pearson correlation coefficients of the rows: their covariance divided by both standard
    /// deviations, from -1 to 1.
    pub struct Corrcoef for "aten::corrcoef" {}
}

/// Infers the shape and type of a covariance matrix.
fn covariances(input: &TensorMeta, weights: Option<DType>) -> Result<Vec<TensorMeta>> {
    number::check("the input", input.dtype())?;
    let both = weights.map_or(input.dtype(), |weights| promote(input.dtype(), weights));
    let dtype = if both.is_float() || both.is_complex() { both } else { DType::F32 };
    let rows = match input.dims() {
        [] | [_] => &Dim::Fixed(1),
        [rows, _] => rows,
        _ => return Err(LayerError::shape("the input", "a matrix or a vector", input)),
    };
    let dims = match rows.fixed() {
        Some(1) => Vec::new(),
        Some(_) => vec![rows.clone(); 2],
        None => return Err(LayerError::Unsupported("the number of rows must be known".to_owned())),
    };
    Ok(vec![input.with_dtype(dtype).with_dims(dims)])
}

/// A matrix in row-major order.
struct Rows<T> {
    numbers: Vec<T>,
    count: usize,
    len: usize,
}

impl<T: Number + Field> Rows<T> {
    /// The input as rows.
    fn of(input: &TensorView<'_>) -> Result<Self> {
        let (count, len) = match input.shape().dims() {
            [rows, columns] => (*rows, *columns),
            dims => (1, dims.iter().product()),
        };
        Ok(Self { numbers: number::read::<T>(input)?.into_owned(), count, len })
    }

    fn view(&self) -> Result<ArrayView2<'_, T>> {
        Ok(ArrayView2::from_shape((self.count, self.len), &self.numbers)?)
    }

    /// The rows with each column multiplied by its weight.
    fn weighted(&self, weights: Option<&[T]>) -> Self {
        let mut numbers = self.numbers.clone();
        if let Some(weights) = weights {
            for row in numbers.chunks_exact_mut(self.len.max(1)) {
                row.iter_mut().zip(weights).for_each(|(x, &weight)| *x = *x * weight);
            }
        }
        Self { numbers, ..*self }
    }
}

/// The weights of the columns.
struct Weights {
    /// The weight of each column, if they differ.
    each: Option<Vec<f64>>,
    sum: f64,
    /// The divisor of the sums of products.
    norm: f64,
}

impl Cov {
    fn weights(&self, inputs: &[TensorView<'_>], count: usize) -> Result<Weights> {
        let read = |input: OptionalInput| -> Result<Option<Vec<f64>>> {
            let numbers = input.0.map(|position| number::read::<f64>(&inputs[position])).transpose()?;
            Ok(numbers.map(Cow::into_owned))
        };
        let (frequencies, importances) = (read(self.fweights)?, read(self.aweights)?);
        let products = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a * b).collect() };
        let ones = vec![1.0; count];
        let each = products(frequencies.as_ref().unwrap_or(&ones), importances.as_ref().unwrap_or(&ones));
        let (sum, correction) = (<f64 as Number>::sum(&each), self.correction as f64);
        let mut given = [&frequencies, &importances].into_iter().flatten();
        if given.any(|all| all.iter().any(|weight| *weight < 0.0)) || (count > 0 && sum == 0.0) {
            return Err(LayerError::Unsupported("weights must not be negative or all 0".to_owned()));
        }
        let taken = match &importances {
            Some(importances) if correction != 0.0 => {
                correction * <f64 as Number>::sum(&products(&each, importances)) / sum
            }
            _ => correction,
        };
        let differ = frequencies.is_some() || importances.is_some();
        Ok(Weights { each: differ.then_some(each), sum, norm: (sum - taken).max(0.0) })
    }
}

/// The covariances of rows.
fn covariance<T: Number + Field>(mut rows: Rows<T>, weights: &Weights, limits: &Limits) -> Result<Array2<T>> {
    let each = weights.each.as_ref();
    let each = each.map(|each| each.iter().map(|&weight| T::nearest(weight)).collect::<Vec<T>>());
    let (weighted, sum, norm) =
        (rows.weighted(each.as_deref()), T::nearest(weights.sum), T::nearest(weights.norm));
    let len = rows.len.max(1);
    for (row, weighted) in rows.numbers.chunks_exact_mut(len).zip(weighted.numbers.chunks_exact(len)) {
        let mean = T::sum(weighted) / sum;
        row.iter_mut().for_each(|x| *x = *x - mean);
    }
    let weighted = rows.weighted(each.as_deref());
    let mut sums = product(&rows.view()?, &adjoint(&weighted.view()?).view(), limits)?;
    sums.iter_mut().for_each(|sum| *sum = *sum / norm);
    Ok(sums)
}

fn write<T: Number>(output: &mut TensorViewMut<'_>, numbers: &Array2<T>) -> Result<()> {
    number::write::<T>(output, |output| {
        output.iter_mut().zip(numbers).for_each(|(to, &number)| *to = number);
        Ok(())
    })
}

impl Layer for Cov {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let count = inputs[0].dims().last().cloned().unwrap_or(Dim::Fixed(1));
        for (what, position) in [("fweights", self.fweights.0), ("aweights", self.aweights.0)] {
            let Some(weights) = position.map(|position| &inputs[position]) else { continue };
            if weights.rank() > 1 || weights.dims().first().unwrap_or(&Dim::Fixed(1)).differs(&count) {
                return Err(LayerError::shape(what, format!("a vector of {count} elements"), weights));
            }
            let dtype = weights.dtype();
            let (fits, wanted) = if what == "fweights" {
                (dtype.is_integer(), "integers")
            } else {
                (dtype.is_float(), "floats")
            };
            if !fits {
                return Err(LayerError::dtype(what, wanted, dtype));
            }
        }
        covariances(&inputs[0], self.aweights.0.map(|position| inputs[position].dtype()))
    }
}

impl CpuLayer for Cov {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let weights = self.weights(io.inputs, io.inputs[0].shape().last().copied().unwrap_or(1))?;
        let (output, limits) = (&mut io.outputs[0], io.context.limits());
        if output.dtype().is_complex() {
            return write(output, &covariance(Rows::<Complex<f64>>::of(&io.inputs[0])?, &weights, limits)?);
        }
        write(output, &covariance(Rows::<f64>::of(&io.inputs[0])?, &weights, limits)?)
    }
}

/// Divides covariances by both standard deviations.
fn correlation<T: Field>(mut covariances: Array2<T>, clip: impl Fn(T) -> T) -> Array2<T> {
    let deviations: Vec<f64> = covariances.diag().iter().map(|x| x.magnitude().sqrt()).collect();
    for ((i, j), x) in covariances.indexed_iter_mut() {
        *x = clip(*x / T::nearest(deviations[i]) / T::nearest(deviations[j]));
    }
    covariances
}

impl Layer for Corrcoef {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        covariances(&inputs[0], None)
    }
}

impl CpuLayer for Corrcoef {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let usual = Cov { correction: 1, fweights: OptionalInput(None), aweights: OptionalInput(None) };
        let weights = usual.weights(io.inputs, io.inputs[0].shape().last().copied().unwrap_or(1))?;
        let (output, limits) = (&mut io.outputs[0], io.context.limits());
        if output.dtype().is_complex() {
            let clip = |z: Complex<f64>| Complex::new(z.re.clamp(-1.0, 1.0), z.im.clamp(-1.0, 1.0));
            let found = covariance(Rows::<Complex<f64>>::of(&io.inputs[0])?, &weights, limits)?;
            return write(output, &correlation(found, clip));
        }
        let found = covariance(Rows::<f64>::of(&io.inputs[0])?, &weights, limits)?;
        write(output, &correlation(found, |x| x.clamp(-1.0, 1.0)))
    }
}

operators! { Cov, Corrcoef }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, tensor};

    #[test]
    fn covariances_and_correlations() {
        let x = tensor(&[2, 3], &[1.0, 2.0, 3.0, 6.0, 2.0, 4.0]);
        let run = |op_type, params| operator(op_type, params).run_one(&[&x]).unwrap();
        assert_close(&run("aten::cov", &[]), &[2, 2], &[1.0, -1.0, -1.0, 4.0]);
        assert_close(
            &run("aten::cov", &[("correction", "0")]),
            &[2, 2],
            &[2.0 / 3.0, -2.0 / 3.0, -2.0 / 3.0, 8.0 / 3.0],
        );
        assert_close(&run("aten::corrcoef", &[]), &[2, 2], &[1.0, -0.5, -0.5, 1.0]);
        let inf = f64::INFINITY;
        assert_close(&run("aten::cov", &[("correction", "9")]), &[2, 2], &[inf, -inf, -inf, inf]);
        let one = operator("aten::cov", &[]).run_one(&[&tensor(&[2], &[2.0, 4.0])]).unwrap();
        assert_close(&one, &[], &[2.0]);
    }

    #[test]
    fn weighted_columns() {
        let x = tensor(&[1, 3], &[1.0, 2.0, 9.0]);
        let often = operator("aten::cov", &[]).with_names(&["input", "fweights"]);
        assert_close(&often.run_one(&[&x, &tensor(&[3], &[2i64, 2, 0])]).unwrap(), &[], &[1.0 / 3.0]);
        assert!(often.run_one(&[&x, &tensor(&[3], &[1i64, -1, 1])]).is_err());
        assert!(often.run_one(&[&x, &tensor(&[2], &[1i64, 1])]).is_err());
        assert!(often.run_one(&[&x, &tensor(&[3], &[1.0, 1.0, 1.0])]).is_err());
    }

    #[test]
    fn odd_inputs() {
        ["aten::cov", "aten::corrcoef"].iter().for_each(|op_type| operator(op_type, &[]).survives(1));
    }
}
