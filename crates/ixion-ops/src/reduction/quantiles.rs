//! Quantiles: quantile and nanquantile.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta};
use crate::reduction::along_axes::Axes;
use crate::support::broadcast::TensorOrScalar;
use crate::support::choices::choices;
use crate::support::delegation::delegating;
use crate::support::float::{self, SHARE, with_float};
use crate::support::order::First;
use ixion_kernels::parallel::for_each_chunk;
use ixion_tensor::{DType, Dim, Float, Limits, Scalar, TensorView, TensorViewMut};

choices! {
    /// The value of a quantile that lies between two elements.
    pub enum Interpolation {
        /// Linear interpolation.
        Linear = "linear",
        /// The smaller element.
        Lower = "lower",
        /// The larger element.
        Higher = "higher",
        /// The nearest element; halfway, the one at an even place in sorted order.
        Nearest = "nearest",
        /// The mean of both elements.
        Midpoint = "midpoint",
    }
}

delegating! {
    {
        /// The quantile, from 0 to 1: a number, or a vector of several, for which the output has an additional first axis.
        q: TensorOrScalar,
        /// The axis; a negative value counts from the end. By default all axes.
        dim: Option<i64> = None,
        /// Whether to keep the reduced axes, with length 1.
        keepdim: bool = false,
        /// The value of a quantile that lies between two elements.
        interpolation: Interpolation = Interpolation::Linear,
    }

    /// `torch.quantile`: the values below which given parts of all elements lie; NaN if there is one among them.
    Quantile for "aten::quantile" |layer| Quantiles {
        q: layer.q,
        dim: layer.dim,
        keepdim: layer.keepdim,
        interpolation: layer.interpolation,
        skip_nan: false,
    };

    /// `torch.nanquantile`: the values below which given parts of the elements lie, without those that are NaN.
    NanQuantile for "aten::nanquantile" |layer| Quantiles {
        q: layer.q,
        dim: layer.dim,
        keepdim: layer.keepdim,
        interpolation: layer.interpolation,
        skip_nan: true,
    };
}

/// Quantiles along an axis, or of all elements.
#[derive(Debug, Clone)]
struct Quantiles {
    q: TensorOrScalar,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: Interpolation,
    skip_nan: bool,
}

/// Checks that a quantile is between 0 and 1, which NaN is not.
fn check(q: f64) -> Result<()> {
    if (0.0..=1.0).contains(&q) {
        return Ok(());
    }
    Err(LayerError::invalid("q", q, "it must be between 0 and 1"))
}

impl Quantiles {
    fn axes(&self, rank: usize) -> Result<Axes> {
        Axes::along(self.dim, self.keepdim, rank)
    }

    /// The number of quantiles, if they are a vector.
    fn count(&self, inputs: &[TensorMeta]) -> Result<Option<Dim>> {
        let position = match self.q {
            TensorOrScalar::Input(position) => position,
            TensorOrScalar::Number(number) => {
                let q = match number {
                    Scalar::Bool(q) => f64::from(u8::from(q)),
                    Scalar::Int(q) => q as f64,
                    Scalar::Float(q) => q,
                    Scalar::Complex(_) => f64::NAN,
                };
                return check(q).map(|()| None);
            }
        };
        let q = &inputs[position];
        if q.dtype().is_complex() || q.dtype() == DType::Bool {
            return Err(LayerError::dtype("`q`", "real numbers", q.dtype()));
        }
        match q.dims() {
            [] => Ok(None),
            [count] => Ok(Some(count.clone())),
            _ => Err(LayerError::shape("`q`", "a number or a vector", q)),
        }
    }

    fn run<T: Float>(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let q = self.q.converted(inputs, T::DTYPE)?.view().to_vec::<T>()?;
        q.iter().try_for_each(|q| check(q.to_f64().unwrap_or(f64::NAN)))?;
        let axes = self.axes(inputs[0].shape().rank())?;
        let len = axes.len(inputs[0].shape());
        let rows = float::read::<T>(&axes.rows(&inputs[0])?)?;
        // The axis of several quantiles is the first one of the output, but their values are computed row by row.
        let rank = output.shape().rank();
        let first = match self.q {
            TensorOrScalar::Input(position) => inputs[position].shape().rank().min(rank),
            TensorOrScalar::Number(_) => 0,
        };
        let order: Vec<usize> = (first..rank).chain(0..first).collect();
        let layout = output.layout().permute(&order)?;
        let per_row = q.len().max(1);
        float::write::<T>(&mut output.reborrow().with_layout(layout)?, |output| {
            let share = SHARE.div_ceil(len.max(1)).saturating_mul(per_row);
            for_each_chunk::<_, LayerError>(output, share, &|start, found| {
                limits.check_deadline()?;
                let mut copy: Vec<T> = Vec::with_capacity(len);
                for (index, found) in found.chunks_exact_mut(per_row).enumerate() {
                    copy.clear();
                    copy.extend(rows.iter().skip((start / per_row + index) * len).take(len));
                    self.of_row(&mut copy, &q, found);
                }
                Ok(())
            })
        })
    }

    /// Writes the quantiles of a row, whose order changes.
    fn of_row<T: Float>(&self, row: &mut [T], q: &[T], found: &mut [T]) {
        let nans = row.iter().filter(|x| x.is_nan()).count();
        let mut row = Row::new(row, q.len());
        for (found, &q) in found.iter_mut().zip(q) {
            *found = self.quantile(q, &mut row, nans);
        }
    }

    fn quantile<T: Float>(&self, q: T, row: &mut Row<'_, T>, nans: usize) -> T {
        let last = row.elements.len().saturating_sub(1);
        // NaN is last in sorted order.
        let rank = match (self.skip_nan, nans) {
            (true, _) => q * T::of(last.saturating_sub(nans) as f64),
            (false, 0) => q * T::of(last as f64),
            (false, _) => T::of(last as f64),
        };
        let rank = match self.interpolation {
            Interpolation::Lower => rank.floor(),
            Interpolation::Higher => rank.ceil(),
            Interpolation::Nearest => rank.round_half_even(),
            Interpolation::Linear | Interpolation::Midpoint => rank,
        };
        let place = |rank: T| rank.to_usize().unwrap_or(0).min(last);
        let below = place(rank);
        let [low, high] = row.pair(below, place(rank.ceil()));
        match self.interpolation {
            Interpolation::Linear => between(low, high, rank - T::of(below as f64)),
            Interpolation::Midpoint => between(low, high, T::of(0.5)),
            _ => low,
        }
    }
}

/// The number between two others, at a distance from the first one that is `weight` of theirs.
fn between<T: Float>(low: T, high: T, weight: T) -> T {
    let distance = high - low;
    if weight < T::of(0.5) { low + weight * distance } else { high - distance * (T::one() - weight) }
}

/// A row in which elements are found by their places in sorted order.
struct Row<'a, T> {
    elements: &'a mut [T],
    is_sorted: bool,
}

impl<'a, T: Float> Row<'a, T> {
    /// A row in which a number of quantiles are looked for. It is sorted if that is less work than finding each of them.
    fn new(elements: &'a mut [T], quantiles: usize) -> Self {
        const FEW: usize = 4;
        let is_sorted = quantiles > FEW;
        if is_sorted {
            elements.sort_unstable_by(|a, b| First::Smallest.order(a, b));
        }
        Self { elements, is_sorted }
    }

    /// The elements at two places in sorted order, of which the second is the first or the one after it.
    fn pair(&mut self, below: usize, above: usize) -> [T; 2] {
        if self.is_sorted || below >= self.elements.len() {
            return [below, above].map(|place| self.elements.get(place).copied().unwrap_or(T::nan()));
        }
        let (_, &mut low, rest) =
            self.elements.select_nth_unstable_by(below, |a, b| First::Smallest.order(a, b));
        if below == above {
            return [low, low];
        }
        let high = rest.iter().copied().min_by(|a, b| First::Smallest.order(a, b));
        [low, high.unwrap_or(low)]
    }
}

impl Layer for Quantiles {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        if !matches!(input.dtype(), DType::F32 | DType::F64) {
            return Err(LayerError::dtype("the input", "f32 or f64", input.dtype()));
        }
        if input.num_elements() == 0usize {
            return Err(LayerError::shape("the input", "at least one element", input));
        }
        let dims = self.axes(input.rank())?.dims(input);
        Ok(vec![input.with_dims(self.count(inputs)?.into_iter().chain(dims))])
    }
}

impl CpuLayer for Quantiles {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (inputs, limits) = (io.inputs, io.context.limits());
        with_float!(inputs[0].dtype(), T => self.run::<T>(inputs, &mut io.outputs[0], limits))
    }
}

operators! { Quantile, NanQuantile }

#[cfg(test)]
mod tests {
    use super::{Row, between};
    use crate::op::TensorMeta;
    use crate::support::testing::{assert_close, on_threads, operator, tensor, waves};
    use ixion_tensor::{DType, Dim, Tensor};

    const NAN: f64 = f64::NAN;

    fn run(op_type: &str, params: &[(&str, &str)], x: &Tensor) -> Tensor {
        operator(op_type, params).run_one(&[x]).unwrap()
    }

    /// PyTorch's results.
    #[test]
    fn quantiles_between_elements() {
        let x = tensor(&[6], &[3.0, 0.0, 5.0, 1.0, 4.0, 2.0]);
        let q = tensor(&[6], &[0.1, 0.3, 0.5, 0.7, 0.9, 0.2]);
        for (interpolation, want) in [
            ("linear", [0.5, 1.5, 2.5, 3.5, 4.5, 1.0]),
            ("lower", [0.0, 1.0, 2.0, 3.0, 4.0, 1.0]),
            ("higher", [1.0, 2.0, 3.0, 4.0, 5.0, 1.0]),
            ("nearest", [0.0, 2.0, 2.0, 4.0, 4.0, 1.0]),
            ("midpoint", [0.5, 1.5, 2.5, 3.5, 4.5, 1.0]),
        ] {
            let params = [("interpolation", interpolation)];
            let several = operator("aten::quantile", &params).with_names(&["input", "q"]);
            assert_close(&several.run_one(&[&x, &q]).unwrap(), &[6], &want);
            for (place, want) in want.into_iter().enumerate() {
                let one = several.run_one(&[&x, &q.select(0, place).unwrap()]).unwrap();
                assert_close(&one, &[], &[want]);
            }
        }
    }

    #[test]
    fn axes_and_nan() {
        let x = tensor(&[2, 3], &[1.0f32, f32::NAN, 2.0, 5.0, 3.0, 4.0]);
        let params = [("q", "0.25"), ("dim", "1")];
        assert_close(&run("aten::quantile", &params, &x), &[2], &[NAN, 3.5]);
        assert_close(&run("aten::nanquantile", &params, &x), &[2], &[1.25, 3.5]);
        assert_close(&run("aten::quantile", &[("q", "1"), ("keepdim", "True")], &x), &[1, 1], &[NAN]);
        assert_close(&run("aten::nanquantile", &[("q", "1")], &x), &[], &[5.0]);
        let q = tensor(&[2], &[0.0f32, 0.5]);
        let params = [("dim", "0"), ("keepdim", "True")];
        let along_rows = operator("aten::nanquantile", &params).with_names(&["input", "q"]);
        let found = along_rows.run_one(&[&x, &q]).unwrap();
        assert_close(&found, &[2, 1, 3], &[1.0, 3.0, 2.0, 3.0, 3.0, 3.0]);
        let nothing = tensor(&[2], &[NAN; 2]);
        assert_close(&run("aten::nanquantile", &[("q", "0.5")], &nothing), &[], &[NAN]);
        let endless = tensor(&[2], &[1.0, f64::INFINITY]);
        assert_close(&run("aten::quantile", &[("q", "0.25")], &endless), &[], &[f64::INFINITY]);
        assert_close(&run("aten::quantile", &[("q", "0.5")], &endless), &[], &[NAN]);
    }

    #[test]
    fn unusual_inputs() {
        let refused = |params: &[(&str, &str)], x: &Tensor| {
            assert!(operator("aten::quantile", params).run(&[x]).is_err(), "{params:?}");
        };
        let x = waves(&[2, 3]);
        refused(&[("q", "1.5")], &x);
        refused(&[("q", "nan")], &x);
        refused(&[("q", "0.5"), ("dim", "2")], &x);
        refused(&[("q", "0.5"), ("interpolation", "cubic")], &x);
        refused(&[("q", "0.5")], &x.cast(DType::F16).unwrap());
        refused(&[("q", "0.5")], &waves(&[0]));
        let computed = operator("aten::quantile", &[("dim", "1")]).with_names(&["input", "q"]);
        assert!(computed.run(&[&x, &tensor(&[1], &[-0.5])]).is_err());
        assert!(computed.run(&[&x, &tensor(&[1, 1], &[0.5])]).is_err());
        assert_eq!(computed.run_one(&[&x, &tensor::<f64>(&[0], &[])]).unwrap().shape().dims(), [0, 2]);
        computed.survives(2);
        operator("aten::nanquantile", &[("q", "0.5")]).survives(1);
        let n = TensorMeta::new(DType::F32, [Dim::symbol("n"), Dim::symbol("m")]);
        let q = TensorMeta::new(DType::F32, [Dim::symbol("k")]);
        assert_eq!(computed.infer(&[n, q]).unwrap()[0].to_string(), "k×n f32");
    }

    #[test]
    fn few_places_are_found_as_in_sorted_order() {
        let x = waves(&[40]).to_vec::<f64>().unwrap();
        let mut sorted = x.clone();
        let sorted = Row::new(&mut sorted, 9).elements;
        for below in 0..39 {
            let mut row = x.clone();
            assert_eq!(Row::new(&mut row, 1).pair(below, below + 1), [sorted[below], sorted[below + 1]]);
        }
        assert_eq!([0.25, 0.75].map(|weight| between(1.0, 3.0, weight)), [1.5, 2.5]);
    }

    #[test]
    fn threads_do_not_change_the_results() {
        let (x, q) = (waves(&[300, 200]), tensor(&[2], &[0.3, 0.7]));
        let layer = operator("aten::quantile", &[("dim", "1")]).with_names(&["input", "q"]);
        let (alone, shared) = on_threads(&[2], || layer.run_one(&[&x, &q]).unwrap());
        assert!(shared.iter().all(|found| *found == alone));
    }
}
