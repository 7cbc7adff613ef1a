//! Derivatives of sampled functions by finite differences.

use crate::op::{
    CpuLayer, FieldValue, FromOperator, FromParameter, Io, Layer, LayerError, OperatorReader, Result,
    TensorMeta, Written, exactly,
};
use crate::support::arguments::OutputCount;
use crate::support::broadcast::{TensorOrScalar, common};
use crate::support::number;
use crate::support::number::Number;
use crate::support::promotion::promote;
use crate::support::rows::Rows;
use ixion_tensor::{Complex, DType, TensorView, TensorViewMut, resolve_axis};
use std::ops::RangeInclusive;

/// Where the points along the axes are.
#[derive(Debug, Clone, PartialEq)]
pub enum Spacing {
    /// The distance between adjacent points: one for all axes, or one for each.
    Distances(Vec<f64>),
    /// All inputs behind the first, of which this is the number: the distance between adjacent points of all axes, or a vector
    /// with the coordinates of the points along each axis.
    Inputs(usize),
}

impl FieldValue for Spacing {
    const KIND: &'static str = "a number, a list of numbers, or inputs";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        if let Some(distances) = <Option<Vec<f64>> as FieldValue>::read(reader, key)? {
            return Ok(distances.map(Self::Distances));
        }
        if reader.later_input(key)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Self::Inputs(reader.num_inputs().saturating_sub(1))))
    }

    fn num_inputs(&self) -> usize {
        match self {
            Self::Distances(_) => 0,
            Self::Inputs(count) => *count,
        }
    }

    fn written(&self) -> Written {
        match self {
            Self::Distances(distances) => Written::param(distances.to_parameter()),
            Self::Inputs(_) => Written::Unwritable,
        }
    }
}

crate::operator! {
    /// `torch.gradient`: the derivatives along axes, estimated from sampled values by central differences, or by differences to
    /// one side at the ends: one output for each axis. Integers become f32.
    pub struct Gradient for "aten::gradient" {
        /// The distance between adjacent points, one for all axes or for each; or inputs, a vector of coordinates for each axis.
        spacing: Spacing = Spacing::Distances(vec![1.0]),
        /// The axes; negative values count from the end. All axes by default.
        dim: Option<Vec<i64>> = None,
        /// The order of accuracy at the ends, 1 or 2.
        edge_order: usize = 1,
        /// The number of outputs: one for each axis.
        outputs: OutputCount,
    }
    validate |layer| {
        match layer.edge_order {
            1 | 2 => Ok(()),
            other => Err(LayerError::invalid("edge_order", other, "it must be 1 or 2")),
        }
    }
}

/// The points along one axis.
enum Points<T> {
    /// The distance between adjacent points.
    Even(T),
    /// Each distance between adjacent points.
    Uneven(Vec<T>),
}

impl Gradient {
    /// The axes, in the order of the outputs.
    fn axes(&self, rank: usize) -> Result<Vec<usize>> {
        let Some(dim) = &self.dim else { return Ok((0..rank).collect()) };
        let mut axes = Vec::with_capacity(dim.len());
        for &axis in dim {
            let axis = resolve_axis(axis, rank)?;
            if axis >= rank || axes.contains(&axis) {
                let reason = format!("expected different ones of the {rank} axes");
                return Err(LayerError::invalid("dim", format!("{dim:?}"), reason));
            }
            axes.push(axis);
        }
        Ok(axes)
    }

    /// The input with the coordinates along an axis, if they are vectors.
    fn coordinates(&self, inputs: &[TensorMeta], index: usize) -> Option<usize> {
        match self.spacing {
            Spacing::Inputs(_) if inputs.get(1).is_some_and(|input| input.rank() > 0) => Some(1 + index),
            _ => None,
        }
    }

    /// Checks that there is a spacing for each axis.
    fn check_spacing(&self, inputs: &[TensorMeta], axes: &[usize]) -> Result<()> {
        let found = match &self.spacing {
            Spacing::Distances(distances) => distances.len(),
            Spacing::Inputs(count) => *count,
        };
        if found != axes.len() && (found != 1 || self.coordinates(inputs, 0).is_some()) {
            return Err(LayerError::shape(
                "`spacing`",
                format!("one for each of {} axes", axes.len()),
                found,
            ));
        }
        for (position, input) in inputs.iter().enumerate().skip(1) {
            let what = || format!("input {position}, the spacing");
            if input.dtype().is_complex() || input.dtype() == DType::Bool {
                return Err(LayerError::dtype(what(), "real numbers", input.dtype()));
            }
            if self.coordinates(inputs, 0).is_none() {
                continue;
            }
            let len = axes.get(position - 1).and_then(|&axis| inputs[0].dims().get(axis));
            if input.rank() != 1 || len.is_some_and(|len| len.differs(&input.num_elements())) {
                let len = len.map(ToString::to_string).unwrap_or_default();
                return Err(LayerError::shape(what(), format!("a vector of {len} coordinates"), input));
            }
        }
        Ok(())
    }

    /// The element type of an output.
    fn dtype(&self, inputs: &[TensorMeta], index: usize) -> DType {
        let coordinates = self.coordinates(inputs, index);
        let operands = [0].into_iter().chain(coordinates).map(TensorOrScalar::Input);
        let dtype = common(inputs, &operands.collect::<Vec<_>>());
        let are_integers = |position: usize| inputs[position].dtype().is_integer();
        // Quotients of integers are f32.
        if coordinates.is_some_and(are_integers) || dtype.is_integer() {
            promote(dtype, DType::F32)
        } else {
            dtype
        }
    }

    /// The points along an axis.
    fn points<T: Number>(&self, inputs: &[TensorView<'_>], index: usize) -> Result<Points<T>> {
        match &self.spacing {
            Spacing::Distances(distances) => {
                let distance = distances.get(index).or(distances.first()).copied().unwrap_or(1.0);
                Ok(Points::Even(T::of(distance)))
            }
            Spacing::Inputs(_) => match self.coordinates(&TensorMeta::of_all(inputs), index) {
                Some(position) => {
                    let places = number::read::<T>(&inputs[position])?;
                    Ok(Points::Uneven(places.windows(2).map(|pair| pair[1] - pair[0]).collect()))
                }
                None => {
                    let position = if inputs.len() > 2 { 1 + index } else { 1 };
                    let distance = number::read::<T>(&inputs[position])?;
                    Ok(Points::Even(distance.first().copied().unwrap_or(T::of(1.0))))
                }
            },
        }
    }

    fn run<T: Number>(
        &self,
        inputs: &[TensorView<'_>],
        index: usize,
        axis: usize,
        output: &mut TensorViewMut<'_>,
    ) -> Result<()> {
        let points = self.points::<T>(inputs, index)?;
        let rows = Rows::new(axis as i64, inputs[0].shape())?;
        let values = number::read::<T>(&rows.of(&inputs[0])?)?;
        let is_second_order = self.edge_order == 2;
        number::write::<T>(&mut rows.of_output(output)?, |output| {
            let len = rows.len.max(1);
            for (from, to) in values.chunks_exact(len).zip(output.chunks_exact_mut(len)) {
                match &points {
                    Points::Even(distance) => even(from, *distance, is_second_order, to),
                    Points::Uneven(distances) => uneven(from, distances, is_second_order, to),
                }
            }
            Ok(())
        })
    }
}

/// Derivatives at points of the same distance.
fn even<T: Number>(values: &[T], distance: T, is_second_order: bool, to: &mut [T]) {
    for (window, to) in values.windows(3).zip(to.iter_mut().skip(1)) {
        *to = (window[2] - window[0]) / distance / T::of(2.0);
    }
    if let [first, .., last] = to {
        *first = even_end(values.iter(), distance, is_second_order);
        *last = even_end(values.iter().rev(), T::of(0.0) - distance, is_second_order);
    }
}

/// The derivative at the first of some points. Those at the upper end are passed in reverse order, with a negative distance.
fn even_end<'a, T: Number>(mut values: impl Iterator<Item = &'a T>, distance: T, is_second_order: bool) -> T {
    match (values.next(), values.next(), values.next()) {
        (Some(&x), Some(&y), Some(&z)) if is_second_order => {
            (y * T::of(2.0) - x * T::of(1.5) - z * T::of(0.5)) / distance
        }
        (Some(&x), Some(&y), _) => (y - x) / distance,
        _ => T::of(f64::NAN),
    }
}

/// Derivatives at points whose distances are given.
fn uneven<T: Number>(values: &[T], distances: &[T], is_second_order: bool, to: &mut [T]) {
    for ((window, pair), to) in values.windows(3).zip(distances.windows(2)).zip(to.iter_mut().skip(1)) {
        let (before, after) = (pair[0], pair[1]);
        let both = before + after;
        *to = (T::of(0.0) - after) / (before * both) * window[0]
            + (after - before) / (before * after) * window[1]
            + before / (after * both) * window[2];
    }
    if let [first, .., last] = to {
        let negative = distances.iter().rev().map(|&distance| T::of(0.0) - distance);
        *first = uneven_end(values.iter(), distances.iter().copied(), is_second_order);
        *last = uneven_end(values.iter().rev(), negative, is_second_order);
    }
}

/// As [`even_end`], given each distance.
fn uneven_end<'a, T: Number>(
    mut values: impl Iterator<Item = &'a T>,
    mut distances: impl Iterator<Item = T>,
    is_second_order: bool,
) -> T {
    let points = (values.next(), values.next(), values.next());
    match (points, distances.next(), distances.next()) {
        ((Some(&x), Some(&y), Some(&z)), Some(near), Some(far)) if is_second_order => {
            let both = near + far;
            let of_first = T::of(0.0) - (near + both) / (near * both);
            of_first * x + both / (near * far) * y - near / (far * both) * z
        }
        ((Some(&x), Some(&y), _), Some(near), _) => (y - x) / near,
        _ => T::of(f64::NAN),
    }
}

impl Layer for Gradient {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let input = &inputs[0];
        if matches!(input.dtype(), DType::Bool | DType::U8) {
            return Err(LayerError::dtype("the input", "numbers other than u8", input.dtype()));
        }
        let axes = self.axes(input.rank())?;
        if axes.len() != self.outputs.0 {
            return Err(LayerError::OutputCount { wanted: axes.len(), found: self.outputs.0 });
        }
        for &axis in &axes {
            let (len, least) = (&input.dims()[axis], self.edge_order + 1);
            if len.fixed().is_some_and(|len| usize::try_from(len).is_ok_and(|len| len < least)) {
                let wanted = format!("at least {least} elements for `edge_order={}`", self.edge_order);
                return Err(LayerError::shape(format!("axis {axis} of the input"), wanted, len));
            }
        }
        self.check_spacing(inputs, &axes)?;
        let meta = |index| input.with_dtype(self.dtype(inputs, index));
        Ok((0..axes.len()).map(meta).collect())
    }
}

impl CpuLayer for Gradient {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let axes = self.axes(io.inputs[0].shape().rank())?;
        let (limits, bytes) = (io.context.limits(), (io.inputs[0].num_elements() as u64).saturating_mul(32));
        limits.check_tensor("the points of a gradient", bytes)?;
        for (index, (axis, output)) in axes.into_iter().zip(io.outputs.iter_mut()).enumerate() {
            limits.check_deadline()?;
            // In double precision, because differences lose digits.
            if output.dtype().is_complex() {
                self.run::<Complex<f64>>(io.inputs, index, axis, output)?;
            } else {
                self.run::<f64>(io.inputs, index, axis, output)?;
            }
        }
        Ok(())
    }
}

operators! {
    Gradient;
    lists "aten::gradient";
    overload "aten::gradient"(input, dim, edge_order) of 3
}

#[cfg(test)]
mod tests {
    use crate::op::{Result, TensorMeta};
    use crate::support::testing::{assert_close, operator, tensor};
    use ixion_tensor::{Complex, DType, Dim, Tensor};

    fn gradient(params: &[(&str, &str)], x: &Tensor) -> Result<Vec<Tensor>> {
        let axes = params
            .iter()
            .find(|param| param.0 == "dim")
            .map_or(x.rank(), |param| param.1.matches(',').count() + 1);
        operator("aten::gradient", params).with_outputs(axes).run(&[x])
    }

    fn one(params: &[(&str, &str)], x: &Tensor) -> Tensor {
        gradient(params, x).unwrap().remove(0)
    }

    /// PyTorch's results.
    #[test]
    fn differences() {
        let x = tensor(&[6], &[1.0, 2.0, 4.0, 7.0, 11.0, 16.5]);
        assert_close(&one(&[], &x), &[6], &[1.0, 1.5, 2.5, 3.5, 4.75, 5.5]);
        let params = [("spacing", "0.5"), ("edge_order", "2")];
        assert_close(&one(&params, &x), &[6], &[1.0, 3.0, 5.0, 7.0, 9.5, 12.5]);
        let both = gradient(&[("spacing", "(1,2)")], &tensor(&[2, 3], &[1i64, 2, 4, 8, 16, 32])).unwrap();
        assert_close(&both[0], &[2, 3], &[7.0, 14.0, 28.0, 7.0, 14.0, 28.0]);
        assert_close(&both[1], &[2, 3], &[0.5, 0.75, 1.0, 4.0, 6.0, 8.0]);
        assert_eq!(both[0].dtype(), DType::F32);
        let z = tensor(&[2], &[Complex::new(1.0f32, 2.0), Complex::new(3.0, 0.0)]);
        let slope = Complex::new(2.0f32, -2.0);
        assert_eq!(one(&[("dim", "-1")], &z).to_vec::<Complex<f32>>().unwrap(), [slope; 2]);
        let endless = tensor(&[4], &[1.0, f64::INFINITY, 3.0, 4.0]);
        assert_close(&one(&[], &endless), &[4], &[f64::INFINITY, 1.0, f64::NEG_INFINITY, 1.0]);
    }

    #[test]
    fn coordinates() {
        let x = tensor(&[4], &[1.0f32, 2.0, 4.0, 8.0]);
        let places = tensor(&[4], &[0.0f32, 1.0, 3.0, 4.0]);
        let along = |params: &[(&str, &str)], places: &Tensor| {
            let layer = operator("aten::gradient", params).with_names(&["input", "spacing"]);
            layer.run_one(&[&x, places])
        };
        assert_close(&along(&[], &places).unwrap(), &[4], &[1.0, 1.0, 3.0, 4.0]);
        let second = along(&[("edge_order", "2")], &places).unwrap();
        assert_close(&second, &[4], &[1.0, 1.0, 3.0, 5.0]);
        assert_close(&along(&[], &tensor(&[], &[0.5])).unwrap(), &[4], &[2.0, 3.0, 6.0, 8.0]);
        let wide = along(&[], &places.cast(DType::F64).unwrap()).unwrap();
        assert_eq!(wide.dtype(), DType::F64);
        let integers = operator("aten::gradient", &[]).with_names(&["input", "spacing"]);
        let integers =
            integers.run_one(&[&tensor(&[3], &[1i64, 4, 9]), &tensor(&[3], &[0i64, 1, 3])]).unwrap();
        assert_close(&integers, &[3], &[3.0, 2.833_333_3, 2.5]);
        let halves = operator("aten::gradient", &[]).with_names(&["input", "spacing"]);
        let halves =
            halves.run_one(&[&x.cast(DType::F16).unwrap(), &tensor(&[4], &[0i64, 1, 3, 4])]).unwrap();
        assert_eq!(halves.dtype(), DType::F32);
        assert_close(&halves, &[4], &[1.0, 1.0, 3.0, 4.0]);
        for wrong in [&[3][..], &[5], &[4, 1]] {
            let count = wrong.iter().product();
            assert!(along(&[], &tensor(wrong, &vec![1.0; count])).is_err(), "{wrong:?}");
        }
        let plane = operator("aten::gradient", &[]).with_names(&["input", "spacing"]).with_outputs(2);
        let sides = plane.run(&[
            &tensor(&[2, 2], &[1.0, 2.0, 4.0, 8.0]),
            &tensor(&[2], &[0.0, 2.0]),
            &tensor(&[2], &[0.0, 4.0]),
        ]);
        let sides = sides.unwrap();
        assert_close(&sides[0], &[2, 2], &[1.5, 3.0, 1.5, 3.0]);
        assert_close(&sides[1], &[2, 2], &[0.25, 0.25, 1.0, 1.0]);
    }

    #[test]
    fn unusual_inputs() {
        let x = tensor(&[2, 3], &[1.0; 6]);
        for params in [
            &[("edge_order", "3")][..],
            &[("edge_order", "2")],
            &[("dim", "(0,0)")],
            &[("dim", "2")],
            &[("spacing", "(1,2,3)")],
            &[("spacing", "word")],
        ] {
            assert!(gradient(params, &x).is_err(), "{params:?}");
        }
        assert!(operator("aten::gradient", &[]).run(&[&x]).is_err());
        assert!(
            gradient(&[], &tensor(&[2], &[1u8, 2])).is_err() && gradient(&[], &tensor(&[1], &[1.0])).is_err()
        );
        assert_eq!(
            gradient(&[("dim", "1")], &tensor::<f32>(&[0, 3], &[])).unwrap()[0].shape().dims(),
            [0, 3]
        );
        operator("aten::gradient", &[]).survives(1);
        operator("aten::gradient", &[("dim", "0")]).with_names(&["input", "spacing"]).survives(2);
        let n = TensorMeta::new(DType::F16, [Dim::symbol("n")]);
        assert_eq!(operator("aten::gradient", &[]).infer(&[n]).unwrap()[0].to_string(), "n f16");
    }
}
