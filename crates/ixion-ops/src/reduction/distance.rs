//! Norms of vectors, and distances between vectors.

pub mod all_pairs;
pub mod within;

use crate::op::{CpuLayer, FromOperator, Io, Layer, LayerError, Result, TensorMeta, exactly};
use crate::reduction::along_axes::Axes;
use crate::support::arguments::InputIndex;
use crate::support::broadcast::{Converted, broadcast};
use crate::support::float;
use crate::support::float::with_float;
use crate::support::number;
use ixion_kernels::{Float, reduce, widest};
use ixion_tensor::{Complex, DType, Limits, Shape, TensorView, TensorViewMut};
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.functional.normalize`: divides the input, real or complex, by its p-norm along axes, or by `eps` if that is
    /// larger.
    pub struct Normalize for "F.normalize" {
        /// The order p of the norm.
        p: f64 = 2.0,
        /// The axes; negative values count from the end.
        dim: Vec<i64> = vec![1],
        /// The smallest divisor.
        eps: f64 = 1e-12,
    }
}

crate::operator! {
    /// `torch.nn.functional.pairwise_distance`: the distance between vectors along the last axis: the p-norm of
    /// x1 − x2 + `eps`.
    pub struct PairwiseDistance for "F.pairwise_distance", "aten::pairwise_distance" {
        /// The second vectors, which are broadcast.
        x2: InputIndex,
        /// The order p of the norm.
        p: f64 = 2.0,
        /// The value that is added to each difference.
        eps: f64 = 1e-6,
        /// Whether to keep the last axis, with length 1.
        keepdim: bool = false,
    }
}

crate::operator! {
    /// `torch.nn.functional.cosine_similarity`: the cosine of the angle between vectors along an axis: x1·x2 over the product
    /// of their norms.
    pub struct CosineSimilarity for "F.cosine_similarity", "torch.cosine_similarity", "aten::cosine_similarity" {
        /// The second vectors, which are broadcast.
        x2: InputIndex,
        /// The axis; a negative value counts from the end.
        dim: i64 = 1,
        /// The smallest value that each norm counts as.
        eps: f64 = 1e-8,
    }
}

impl Normalize {
    /// Divides each row of elements by its norm.
    fn run<T: number::Number>(
        &self,
        input: &TensorView<'_>,
        output: &mut TensorViewMut<'_>,
        norm: impl Fn(&[T]) -> f64,
        divide: impl Fn(T, f64) -> T,
    ) -> Result<()> {
        let axes = Axes::new(Some(&self.dim), true, input.shape().rank())?;
        let (rows, len) = (axes.rows(input)?, axes.len(input.shape()).max(1));
        let rows = number::read::<T>(&rows)?;
        let layout = *axes.rows(&output.as_view())?.layout();
        number::write::<T>(&mut output.reborrow().with_layout(layout)?, |output| {
            for (row, output) in rows.chunks_exact(len).zip(output.chunks_exact_mut(len)) {
                let norm = norm(row);
                // Like `clamp_min`, this keeps a NaN.
                let divisor = if norm < self.eps { self.eps } else { norm };
                widest!(|| output.iter_mut().zip(row).for_each(|(y, &x)| *y = divide(x, divisor)));
            }
            Ok(())
        })
    }
}

impl Layer for Normalize {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Axes::new(Some(&self.dim), true, inputs[0].rank())?;
        if inputs[0].dtype().is_complex() {
            return Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec())]);
        }
        float::same_as_input(inputs)
    }
}

impl CpuLayer for Normalize {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output) = (&io.inputs[0], &mut io.outputs[0]);
        if input.dtype().is_complex() {
            let norm = |row: &[Complex<f64>]| {
                let lengths: Vec<f64> = row.iter().map(|z| z.norm()).collect();
                reduce::norm(&lengths, self.p)
            };
            return self.run::<Complex<f64>>(input, output, norm, |z, divisor| z / divisor);
        }
        with_float!(input.dtype(), T => {
            self.run::<T>(input, output, |row| reduce::norm(row, self.p), |x, divisor| x / T::of(divisor))
        })
    }
}

/// The shape rule of both distances: one element for each pair of vectors along `dim`.
fn infer(inputs: &[TensorMeta], x2: InputIndex, dim: i64, keepdim: bool) -> Result<Vec<TensorMeta>> {
    let (x1, x2) = (&inputs[0], &inputs[x2.0]);
    float::check_real("the input", x1)?;
    check_same_type(x1, x2)?;
    let both = x1.with_dims(broadcast(x1.dims(), x2.dims())?).with_dtype(computed_in(x1.dtype()));
    let axes = Axes::new(Some(&[dim]), keepdim, both.rank())?;
    Ok(vec![both.with_dims(axes.dims(&both))])
}

/// Checks that both inputs have the same element type.
fn check_same_type(first: &TensorMeta, other: &TensorMeta) -> Result<()> {
    if first.dtype() == other.dtype() {
        return Ok(());
    }
    Err(LayerError::dtype("the other input", first.dtype(), other.dtype()))
}

/// Checks copies of this number of elements against the limits, because broadcasting can multiply the number.
fn check_held<T>(elements: usize, limits: &Limits) -> Result<()> {
    let bytes = (elements as u64).saturating_mul(size_of::<T>() as u64);
    Ok(limits.check_tensor("the elements of a distance", bytes)?)
}

/// The element type of a distance: f32 for integers.
fn computed_in(dtype: DType) -> DType {
    if dtype.is_integer() { DType::F32 } else { dtype }
}

/// Wraps a difference of small integers to their type: for u8, 2 − 3 is 255.
fn wrapped<T: Float>(dtype: DType, difference: T) -> T {
    let (low, count) = match dtype {
        DType::U8 => (0.0, 256.0),
        DType::I8 => (-128.0, 256.0),
        DType::I16 => (-32768.0, 65536.0),
        _ => return difference,
    };
    let difference = difference.to_f64().unwrap_or(f64::NAN);
    T::of((difference - low).rem_euclid(count) + low)
}

/// Calls `join` on each pair of vectors along `dim`.
fn pairs<T: Float>(
    inputs: [&TensorView<'_>; 2],
    dim: i64,
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
    mut join: impl FnMut(&[T], &[T]) -> f64,
) -> Result<()> {
    let shape: Shape = ixion_tensor::broadcast_shapes(inputs[0].shape(), inputs[1].shape())?;
    check_held::<T>(shape.num_elements().saturating_mul(2), limits)?;
    let axes = Axes::new(Some(&[dim]), false, shape.rank())?;
    let len = axes.len(&shape);
    let [first, second] = inputs.map(|input| Converted::View(*input));
    let (first, second) = (axes.rows(&first.expanded(&shape)?)?, axes.rows(&second.expanded(&shape)?)?);
    let (first, second) = (float::read::<T>(&first)?, float::read::<T>(&second)?);
    float::write::<T>(output, |output| {
        for (index, y) in output.iter_mut().enumerate() {
            let row = index * len..(index + 1) * len;
            let row = |values| <[T]>::get(values, row.clone()).unwrap_or_default();
            *y = T::of(join(row(&first), row(&second)));
        }
        Ok(())
    })
}

impl Layer for PairwiseDistance {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        infer(inputs, self.x2, -1, self.keepdim)
    }
}

impl CpuLayer for PairwiseDistance {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let dtype = io.inputs[0].dtype();
        let [first, second] =
            [0, self.x2.0].map(|position| Converted::of(&io.inputs[position], computed_in(dtype)));
        let (first, second) = (first?, second?);
        let both = [&first.view(), &second.view()];
        with_float!(io.outputs[0].dtype(), T => {
            let (eps, mut differences) = (T::of(self.eps), Vec::new());
            pairs::<T>(both, -1, &mut io.outputs[0], io.context.limits(), |a, b| {
                differences.clear();
                differences.extend(a.iter().zip(b).map(|(&a, &b)| a - b));
                if dtype.is_integer() {
                    differences.iter_mut().for_each(|x| *x = wrapped(dtype, *x));
                }
                differences.iter_mut().for_each(|x| *x += eps);
                reduce::norm(&differences, self.p)
            })
        })
    }
}

impl Layer for CosineSimilarity {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::check("the input", &inputs[0])?;
        infer(inputs, self.x2, self.dim, false)
    }
}

impl CpuLayer for CosineSimilarity {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let both = [&io.inputs[0], &io.inputs[self.x2.0]];
        with_float!(io.inputs[0].dtype(), T => pairs::<T>(both, self.dim, &mut io.outputs[0], io.context.limits(), |a, b| {
            let lengths = [a, b].map(|vector| reduce::norm(vector, 2.0).max(self.eps));
            reduce::sum_of_products(a, b) / (lengths[0] * lengths[1])
        }))
    }
}

operators! { Normalize, PairwiseDistance, CosineSimilarity; of all_pairs, within }

#[cfg(test)]
mod tests {
    use crate::support::testing::{assert_close, operator, waves};
    use ixion_tensor::Tensor;

    #[test]
    fn results_are_those_of_pytorch() {
        let x = waves(&[2, 3, 2]);
        let y: Tensor = waves(&[3, 2]).map(|y: f64| y + 0.5).unwrap();
        let unit = operator("F.normalize", &[("dim", "1"), ("p", "2")]).run_one(&[&x]).unwrap();
        assert_close(&unit, &[2, 3, 2], N1);
        let params = [("dim", "(-1)"), ("p", "1.0"), ("eps", "3.0")];
        assert_close(&operator("F.normalize", &params).run_one(&[&x]).unwrap(), &[2, 3, 2], N2);
        let params = [("p", "1.0"), ("eps", "0.001"), ("keepdim", "True")];
        let distance =
            operator("F.pairwise_distance", &params).with_names(&["x1", "x2"]).run_one(&[&x, &y]).unwrap();
        assert_close(&distance, &[2, 3, 1], PD);
        let cosine = operator("F.cosine_similarity", &[("dim", "1")]).run_one(&[&x, &y]).unwrap();
        assert_close(&cosine, &[2, 2], CS);
        operator("F.normalize", &[]).survives(1);
        operator("F.pairwise_distance", &[]).survives(2);
        operator("F.cosine_similarity", &[("dim", "-1")]).survives(2);
    }

    /// PyTorch's results.
    #[test]
    fn numbers_are_vectors_of_one_element() {
        let cosine = |dim, x: f32, y: f32| {
            let inputs = [Tensor::scalar(x), Tensor::scalar(y)];
            operator("F.cosine_similarity", &[("dim", dim)]).run_one(&inputs.each_ref())
        };
        assert_close(&cosine("0", -2.0, 3.0).unwrap(), &[], &[-1.0]);
        assert_close(&cosine("-1", 1e-12, 3.0).unwrap(), &[], &[1e-4]);
        assert!(cosine("1", 1.0, 1.0).is_err());
        let inputs = [Tensor::scalar(-2f32), Tensor::scalar(3f32)];
        let distance = operator("F.pairwise_distance", &[]).run_one(&inputs.each_ref()).unwrap();
        assert_close(&distance, &[], &[4.999_999]);
    }

    /// Products of 1e40 are too large for f32.
    #[test]
    fn long_vectors_have_an_angle_too() {
        let x = Tensor::from_vec(vec![1e20f32, 1e20], &[2]).unwrap();
        let y = Tensor::from_vec(vec![1e20f32, -1e20], &[2]).unwrap();
        let cosine = |x: &Tensor, y: &Tensor| {
            operator("F.cosine_similarity", &[("dim", "0")]).run_one(&[x, y]).unwrap()
        };
        assert_close(&cosine(&x, &x), &[], &[1.0]);
        assert_close(&cosine(&x, &y), &[], &[0.0]);
    }

    const N1: &[f64] = &[
        -0.9838699100999074,
        -0.10540925533894598,
        0.0,
        -0.8432740427115678,
        -0.17888543819998318,
        -0.5270462766947299,
        0.7022468831767834,
        0.6467616667635546,
        0.11704114719613057,
        0.6467616667635546,
        0.7022468831767834,
        -0.40422604172722165,
    ];
    const N2: &[f64] = &[
        -0.9166666666666666,
        -0.08333333333333333,
        0.0,
        -0.6666666666666666,
        -0.16666666666666666,
        -0.4166666666666667,
        0.42857142857142855,
        0.5714285714285714,
        0.08333333333333333,
        0.6666666666666666,
        0.5,
        -0.4166666666666667,
    ];
    const PD: &[f64] = &[0.998, 0.998, 0.998, 5.502, 3.75, 2.0];
    const CS: &[f64] = &[0.9604410751438787, 0.9635883018483242, -0.6601345307668106, -0.2979993916050631];
}
