//! Changing the shape of a tensor: flatten, reshape, unflatten, squeeze, unsqueeze.

use crate::op::{
    FieldValue, FromOperator, Layer, LayerError, NO_KEY, OperatorReader, Result, TensorMeta, View, Written,
    exactly,
};
use crate::support::arguments::{InputIndex, ParamOrInput};
use crate::support::views::{axis_of, view_layers};
use ixion_tensor::{Dim, Layout, Shape, resolve_axes, resolve_axis};
use std::ops::RangeInclusive;

/// Implements [`Layer`] for operators whose one output has the input's elements in row-major order; the function returns its
/// dimensions.
macro_rules! reshape_layers {
    ($($name:ident |$this:ident, $inputs:ident| $dims:expr;)*) => {$(
        impl Layer for $name {
            fn num_inputs(&self) -> RangeInclusive<usize> {
                exactly(1 + self.field_inputs())
            }

            fn infer(&self, $inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
                let $this = self;
                let dims: Vec<Dim> = $dims;
                Ok(vec![$inputs[0].with_dims(dims)])
            }

            fn view(&self, _: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
                Ok(inputs[0].reshape(shape)?.map(|layout| View { input: 0, layout }))
            }
        }

        view_layers!($name);
    )*};
}

crate::operator! {
    /// `torch.flatten`: merges adjacent axes into one. A 0-D tensor becomes a vector of one element.
    pub struct Flatten for "torch.flatten", "aten::flatten" {
        /// The first axis to merge; a negative value counts from the end.
        start_dim: i64 = 0,
        /// The last axis to merge; a negative value counts from the end.
        end_dim: i64 = -1,
    }
}

crate::operator! {
    /// `torch.nn.Flatten`: merges adjacent axes into one, by default all but the first.
    pub struct FlattenModule for "nn.Flatten" {
        /// The first axis to merge; a negative value counts from the end.
        start_dim: i64 = 1,
        /// The last axis to merge; a negative value counts from the end.
        end_dim: i64 = -1,
    }
}

crate::operator! {
    /// `torch.Tensor.reshape`: returns the same elements, in row-major order, in another shape. A view where possible.
    pub struct Reshape for "Tensor.reshape", "aten::reshape", "Tensor.view", "aten::view", "torch.reshape" {
        /// The output's shape. One length may be -1 and is inferred from the others. A 0 copies the input's length of that
        /// axis, unless the input has no elements. PNNX writes `None` for the shape of a 0-D tensor.
        shape: Option<ParamOrInput<Vec<i64>>>,
    }
}

crate::operator! {
    /// `torch.ravel`: flattens the input to a vector.
    pub struct Ravel for "aten::ravel" {}
}

crate::operator! {
    /// `torch.Tensor.reshape_as`: reshapes the input to the shape of another tensor.
    pub struct ReshapeAs for "Tensor.reshape_as", "Tensor.view_as", "aten::view_as" {
        /// The tensor with the output's shape.
        other: InputIndex,
    }
}

crate::operator! {
    /// `torch.unflatten`: splits an axis into several axes.
    pub struct Unflatten for "Tensor.unflatten", "aten::unflatten", "torch.unflatten" {
        /// The axis; a negative value counts from the end.
        dim: i64,
        /// The lengths of the new axes; one may be -1 and is inferred from the others.
        sizes: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `torch.nn.Unflatten`: splits an axis into several axes.
    pub struct UnflattenModule for "nn.Unflatten" {
        /// The axis; a negative value counts from the end.
        dim: i64,
        /// The lengths of the new axes; one may be -1 and is inferred from the others.
        unflattened_size: ParamOrInput<Vec<i64>>,
    }
}

crate::operator! {
    /// `torch.squeeze`: removes axes of length 1.
    pub struct Squeeze for "torch.squeeze", "Tensor.squeeze", "aten::squeeze" {
        /// The axes to remove if their length is 1; by default all. Negative values count from the end.
        dim: Option<Vec<i64>> = None,
        /// Whether `None` means no axis.
        none: MeansNoAxis,
    }
}

/// True if the file has no axes to remove, and records an input with axes of length 1 and an output with as many axes: PNNX writes
/// an empty list as `None`. It is not a key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeansNoAxis(pub bool);

impl FieldValue for MeansNoAxis {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let is_absent = reader.param("dim").is_none_or(|dim| dim.raw() == "None");
        let (input, output) = (reader.input_shape(0), reader.output_shape(0));
        let has_ones = |dims: &&[ixion_pnnx::Dim]| dims.contains(&ixion_pnnx::Dim::Fixed(1));
        let stay = input.filter(has_ones).zip(output).is_some_and(|(from, to)| from.len() == to.len());
        Ok(Some(Self(is_absent && stay)))
    }

    fn written(&self) -> Written {
        if self.0 { Written::Unwritable } else { Written::Nothing }
    }
}

crate::operator! {
    /// `torch.unsqueeze`: inserts new axes of length 1.
    pub struct Unsqueeze for "torch.unsqueeze", "Tensor.unsqueeze", "aten::unsqueeze" {
        /// The positions of the new axes in the output; negative values count from its end.
        dim: Vec<i64>,
    }
}

reshape_layers! {
    Flatten |layer, inputs| flatten(&inputs[0], layer.start_dim, layer.end_dim)?;
    FlattenModule |layer, inputs| flatten(&inputs[0], layer.start_dim, layer.end_dim)?;
    Reshape |layer, inputs| {
        let shape = layer.shape.as_ref().map(|shape| shape.dims(inputs)).transpose()?;
        let wanted = with_copied_lengths(&inputs[0], shape.unwrap_or_default())?;
        resolve(&inputs[0], inputs[0].dims(), wanted)?
    };
    Ravel |_layer, inputs| vec![inputs[0].num_elements()];
    ReshapeAs |layer, inputs| resolve(&inputs[0], inputs[0].dims(), inputs[layer.other.0].dims().to_vec())?;
    Unflatten |layer, inputs| unflatten(&inputs[0], layer.dim, layer.sizes.dims(inputs)?)?;
    UnflattenModule |layer, inputs| unflatten(&inputs[0], layer.dim, layer.unflattened_size.dims(inputs)?)?;
    Squeeze |layer, inputs| match layer.none.0 {
        true => inputs[0].dims().to_vec(),
        false => squeeze(&inputs[0], layer.dim.as_deref())?,
    };
    Unsqueeze |layer, inputs| unsqueeze(&inputs[0], &layer.dim)?;
}

fn flatten(input: &TensorMeta, start_dim: i64, end_dim: i64) -> Result<Vec<Dim>> {
    if input.rank() == 0 {
        resolve_axis(start_dim, 0)?;
        resolve_axis(end_dim, 0)?;
        return Ok(vec![Dim::Fixed(1)]);
    }
    let (start, end) = (axis_of(start_dim, input)?, axis_of(end_dim, input)?);
    if start > end {
        let reason = format!("it must not come after `end_dim`, which is {end_dim}");
        return Err(LayerError::invalid("start_dim", start_dim, reason));
    }
    let dims = input.dims();
    let merged = dims[start..=end].iter().fold(Dim::Fixed(1), |product, dim| product * dim.clone());
    Ok(dims[..start].iter().cloned().chain([merged]).chain(dims[end + 1..].iter().cloned()).collect())
}

/// Replaces each 0 by the input's length of that axis, which is what PNNX means by it. If the input is empty, a 0 stays 0.
fn with_copied_lengths(input: &TensorMeta, mut wanted: Vec<Dim>) -> Result<Vec<Dim>> {
    if input.num_elements() == 0usize {
        return Ok(wanted);
    }
    for (axis, dim) in wanted.iter_mut().enumerate().filter(|(_, dim)| **dim == 0usize) {
        let wanted = || format!("an axis {axis}, whose length a 0 in `shape` copies");
        let copied = input.dims().get(axis);
        *dim = copied.ok_or_else(|| LayerError::shape("the input", wanted(), input))?.clone();
    }
    Ok(wanted)
}

/// The wanted lengths, with -1 replaced by the length that the others leave of `from`, which are axes of the input.
fn resolve(input: &TensorMeta, from: &[Dim], mut wanted: Vec<Dim>) -> Result<Vec<Dim>> {
    let refuse = |wanted: &[Dim]| {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let unknown = wanted.iter().filter(|len| len.starts_with('-')).count();
        let sense = match unknown {
            0 | 1 => format!("as many elements as ({}) has", wanted.join(", ")),
            _ => format!("at most one -1 in ({})", wanted.join(", ")),
        };
        Err(LayerError::shape("the input", sense, input))
    };
    let negative = |dim: &Dim| dim.fixed().is_some_and(|dim| dim < 0);
    let rest = wanted.iter().position(negative);
    if wanted.iter().filter(|dim| negative(dim)).count() > 1 || rest.is_some_and(|rest| wanted[rest] != -1i64)
    {
        return refuse(&wanted);
    }
    let others = wanted.iter().enumerate().filter(|(axis, _)| Some(*axis) != rest).map(|(_, dim)| dim);
    let (left, right) = cancelled(from, others);
    match (rest, left.fixed(), right.fixed()) {
        (None, Some(left), Some(right)) if left != right => refuse(&wanted),
        (None, ..) => Ok(wanted),
        (Some(_), _, Some(0)) => refuse(&wanted),
        (Some(_), Some(left), Some(right)) if left % right != 0 => refuse(&wanted),
        (Some(rest), ..) => {
            wanted[rest] = left.floor_div(right);
            Ok(wanted)
        }
    }
}

/// Both products without their common symbols, and without the number of the second if it divides that of the first.
fn cancelled<'a>(left: &[Dim], right: impl Iterator<Item = &'a Dim>) -> (Dim, Dim) {
    let (mut left, mut right) = (Product::of(left.iter()), Product::of(right));
    left.symbols.retain(|symbol| match right.symbols.iter().position(|other| other == symbol) {
        Some(same) => {
            right.symbols.remove(same);
            false
        }
        None => true,
    });
    if left.number.checked_rem(right.number) == Some(0) {
        (left.number, right.number) = (left.number / right.number, 1);
    }
    (left.value(), right.value())
}

/// A product of symbols and a number.
struct Product {
    symbols: Vec<Dim>,
    number: i64,
}

impl Product {
    fn of<'a>(dims: impl Iterator<Item = &'a Dim>) -> Self {
        let (numbers, symbols): (Vec<Dim>, Vec<Dim>) = dims.cloned().partition(|dim| dim.fixed().is_some());
        let number = numbers.iter().filter_map(Dim::fixed).fold(1, i64::saturating_mul);
        Self { symbols, number }
    }

    fn value(self) -> Dim {
        self.symbols.into_iter().fold(Dim::Fixed(1), |product, dim| product * dim) * self.number
    }
}

fn unflatten(input: &TensorMeta, dim: i64, sizes: Vec<Dim>) -> Result<Vec<Dim>> {
    let axis = axis_of(dim, input)?;
    let dims = input.dims();
    let parts = resolve(input, &dims[axis..=axis], sizes)?;
    Ok(dims[..axis].iter().cloned().chain(parts).chain(dims[axis + 1..].iter().cloned()).collect())
}

fn squeeze(input: &TensorMeta, dims: Option<&[i64]>) -> Result<Vec<Dim>> {
    let axes = match dims {
        Some(dims) => resolve_axes(dims, input.rank())?,
        None => (0..input.rank()).collect(),
    };
    let mut kept = Vec::with_capacity(input.rank());
    for (axis, dim) in input.dims().iter().enumerate() {
        match dim.fixed() {
            Some(1) if axes.contains(&axis) => {}
            None if axes.contains(&axis) => {
                let reason = format!("axis {axis} of {input} cannot be squeezed: its length must be known");
                return Err(LayerError::Unsupported(reason));
            }
            _ => kept.push(dim.clone()),
        }
    }
    Ok(kept)
}

fn unsqueeze(input: &TensorMeta, dims: &[i64]) -> Result<Vec<Dim>> {
    let rank = input.rank() + dims.len();
    let mut output = vec![None; rank];
    for &dim in dims {
        let axis = resolve_axis(dim, rank)?;
        if output[axis].replace(Dim::Fixed(1)).is_some() {
            return Err(LayerError::invalid("dim", format!("{dims:?}"), "it names an axis twice"));
        }
    }
    let mut old = input.dims().iter();
    Ok(output.into_iter().filter_map(|dim| dim.or_else(|| old.next().cloned())).collect())
}

operators! {
    Flatten: moves(Reshaped), FlattenModule: moves(Reshaped), Reshape: moves(Reshaped), Ravel: moves(Reshaped),
    ReshapeAs: moves(Reshaped), Unflatten: moves(Reshaped), UnflattenModule: moves(Reshaped), Squeeze: moves(Reshaped),
    Unsqueeze: moves(Unsqueezed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{counting, operator, tensor};
    use ixion_tensor::{DType, Tensor};

    fn shape_of(op_type: &str, params: &[(&str, &str)], shape: &[usize]) -> Result<Vec<usize>> {
        let input = counting(DType::I16, shape);
        let output = operator(op_type, params).run_one(&[&input])?;
        assert_eq!(output.to_vec::<i16>().unwrap(), input.to_vec::<i16>().unwrap());
        assert!(output.shares_storage(&input));
        Ok(output.shape().to_vec())
    }

    #[test]
    fn shapes_are_those_of_pytorch() {
        type Case =
            (&'static str, &'static [(&'static str, &'static str)], &'static [usize], &'static [usize]);
        let cases: &[Case] = &[
            ("torch.flatten", &[], &[], &[1]),
            ("torch.flatten", &[("start_dim", "1"), ("end_dim", "-2")], &[2, 3, 4, 5], &[2, 12, 5]),
            ("torch.flatten", &[("start_dim", "2"), ("end_dim", "2")], &[2, 3, 4], &[2, 3, 4]),
            ("torch.flatten", &[], &[2, 0, 3], &[0]),
            ("nn.Flatten", &[], &[2, 3, 4], &[2, 12]),
            ("Tensor.reshape", &[("shape", "(4,-1)")], &[2, 6], &[4, 3]),
            ("Tensor.reshape", &[("shape", "(0,2,-1)")], &[3, 8], &[3, 2, 4]),
            ("Tensor.reshape", &[("shape", "()")], &[1, 1], &[]),
            ("Tensor.reshape", &[("shape", "-1")], &[], &[1]),
            ("Tensor.view", &[("shape", "(0,5)")], &[2, 0], &[0, 5]),
            ("Tensor.view", &[("shape", "(-1,5)")], &[2, 0], &[0, 5]),
            ("Tensor.unflatten", &[("dim", "-2"), ("sizes", "(2,1,2,-1)")], &[3, 8, 5], &[3, 2, 1, 2, 2, 5]),
            ("nn.Unflatten", &[("dim", "0"), ("unflattened_size", "(3,1)")], &[3], &[3, 1]),
            ("torch.squeeze", &[], &[1, 5, 1, 11], &[5, 11]),
            ("torch.squeeze", &[("dim", "-1")], &[1, 5, 1], &[1, 5]),
            ("torch.squeeze", &[("dim", "1")], &[1, 5, 1], &[1, 5, 1]),
            ("torch.squeeze", &[("dim", "(0,2)")], &[1, 5, 1], &[5]),
            ("torch.squeeze", &[("dim", "0")], &[], &[]),
            ("torch.unsqueeze", &[("dim", "-1")], &[2, 3], &[2, 3, 1]),
            ("torch.unsqueeze", &[("dim", "0")], &[], &[1]),
            ("torch.unsqueeze", &[("dim", "(-2,-1)")], &[2], &[2, 1, 1]),
            ("torch.unsqueeze", &[("dim", "(-1,1)")], &[2, 3], &[2, 1, 3, 1]),
            ("torch.unsqueeze", &[("dim", "()")], &[2, 3], &[2, 3]),
        ];
        for (op_type, params, shape, want) in cases {
            assert_eq!(&shape_of(op_type, params, shape).unwrap(), want, "{op_type} {params:?} of {shape:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let reshape =
            |shape, input: &[usize]| shape_of("Tensor.reshape", &[("shape", shape)], input).unwrap_err();
        assert_eq!(
            reshape("(4,-1)", &[2, 3]).to_string(),
            "the input: expected as many elements as (4, -1) has, got 2×3 i16"
        );
        reshape("(-1,-1)", &[4]);
        reshape("(-2,-2)", &[4]);
        reshape("(0,-1)", &[0, 4]);
        reshape("(2,0)", &[2]);
        reshape("(9223372036854775807,9223372036854775807)", &[4]);
        assert!(shape_of("torch.flatten", &[("start_dim", "1"), ("end_dim", "0")], &[2, 3]).is_err());
        assert!(shape_of("torch.flatten", &[("start_dim", "-9223372036854775808")], &[2, 3]).is_err());
        assert!(shape_of("torch.unsqueeze", &[("dim", "(0,-3)")], &[2]).is_err());
        assert!(shape_of("torch.unsqueeze", &[("dim", "(0,1,2,3,4,5,6,7,8)")], &[]).is_err());
        assert!(shape_of("Tensor.unflatten", &[("dim", "0"), ("sizes", "(5,-1)")], &[3]).is_err());
    }

    #[test]
    fn a_shape_may_come_from_the_graph() {
        let x = counting(DType::F32, &[2, 6]);
        let sizes = tensor(&[2], &[3i64, -1]);
        let reshape = operator("Tensor.reshape", &[]).with_names(&["input", "shape"]);
        let output = reshape.run_one(&[&x, &sizes]).unwrap();
        assert_eq!((output.shape().dims(), output.shares_storage(&x)), (&[3, 4][..], true));
        assert!(matches!(reshape.run(&[&x, &x]), Err(LayerError::DType { .. })));
        let like = operator("Tensor.reshape_as", &[]).with_names(&["input", "other"]);
        assert_eq!(like.run_one(&[&x, &counting(DType::U8, &[4, 3])]).unwrap().shape().dims(), &[4, 3]);
    }

    #[test]
    fn transposed_tensors_are_copied_in_row_major_order() {
        let transposed = counting(DType::C64, &[3, 2]).permute(&[1, 0]).unwrap();
        let flat = operator("torch.flatten", &[]).run_one(&[&transposed]).unwrap();
        let want = counting(DType::C64, &[6]);
        let order = [0, 2, 4, 1, 3, 5].map(|i| want.select(0, i).unwrap());
        assert_eq!(flat, Tensor::stack(&order).unwrap());
    }

    #[test]
    fn an_empty_list_of_axes_to_remove_is_known_by_the_recorded_shapes() {
        use ixion_pnnx::Dim::Fixed;
        let read = |raw: Option<&str>, input: &[ixion_pnnx::Dim], output: &[ixion_pnnx::Dim]| {
            let params = raw.map(|raw| ("dim".to_owned(), crate::op::RuntimeParameter::parse(raw)));
            let (params, attrs) = (params.into_iter().collect(), std::collections::BTreeMap::new());
            let names = [None];
            let reader = OperatorReader::new(&params, &attrs, &names, 1);
            MeansNoAxis::read(&mut reader.with_shapes(vec![Some(input)], vec![Some(output)]), "none").unwrap()
        };
        let (row, line, square) = ([Fixed(1), Fixed(4)], [Fixed(4)], [Fixed(4), Fixed(4)]);
        assert_eq!(read(Some("None"), &row, &row), Some(MeansNoAxis(true)));
        assert_eq!(read(None, &row, &row), Some(MeansNoAxis(true)));
        assert_eq!(read(Some("None"), &row, &line), Some(MeansNoAxis(false)));
        assert_eq!(read(Some("None"), &square, &square), Some(MeansNoAxis(false)));
        assert_eq!(read(Some("1"), &row, &row), Some(MeansNoAxis(false)));
        assert_eq!(MeansNoAxis(true).written(), Written::Unwritable);
    }

    #[test]
    fn symbols_multiply_and_cancel() {
        let dims = [Dim::symbol("n"), Dim::Fixed(3), Dim::symbol("h"), Dim::Fixed(4)];
        let input = TensorMeta::new(DType::F32, dims);
        let infer = |op_type, params: &[(&str, &str)]| {
            operator(op_type, params)
                .infer(std::slice::from_ref(&input))
                .map(|outputs| outputs[0].to_string())
        };
        assert_eq!(infer("torch.flatten", &[("start_dim", "1")]).unwrap(), "n×(h * 12) f32");
        assert_eq!(infer("Tensor.reshape", &[("shape", "(0,-1)")]).unwrap(), "n×(h * 12) f32");
        assert_eq!(infer("Tensor.reshape", &[("shape", "(-1,6)")]).unwrap(), "(h * n * 2)×6 f32");
        assert_eq!(infer("Tensor.reshape", &[("shape", "(0,-1,5)")]).unwrap(), "n×(h * 12 / 5)×5 f32");
        assert_eq!(infer("torch.unsqueeze", &[("dim", "1")]).unwrap(), "n×1×3×h×4 f32");
        assert!(matches!(infer("torch.squeeze", &[]), Err(LayerError::Unsupported(_))));
        assert_eq!(infer("torch.squeeze", &[("dim", "1")]).unwrap(), "n×3×h×4 f32");
    }

    #[test]
    fn odd_inputs() {
        operator("torch.flatten", &[("start_dim", "1")]).survives(1);
        operator("Tensor.reshape", &[("shape", "(2,0,-1)")]).survives(1);
        operator("Tensor.reshape", &[]).survives(2);
        operator("Tensor.reshape_as", &[]).survives(2);
        operator("Tensor.unflatten", &[("dim", "1"), ("sizes", "(-1,2)")]).survives(1);
        operator("torch.squeeze", &[]).survives(1);
        operator("torch.unsqueeze", &[("dim", "(1,-1)")]).survives(1);
    }
}
