//! Linear layers: products with a matrix of weights.

mod int8;

use crate::inserted::device_tactic::DeviceTactic;
use crate::op::{
    Cost, CpuLayer, ForwardContext, FromOperator, Io, Layer, LayerError, QuantizedWeight, Result,
    RuntimeAttribute, Tactic, TensorFormat, TensorMeta, Weight, exactly,
};
use crate::support::epilogue;
use crate::support::epilogue::Epilogue;
use crate::support::float;
use crate::support::float::with_real;
use crate::support::int8::{Int8, PackedBytes, has_weights};
use crate::support::number;
use crate::support::number::Number;
use crate::support::packed;
use crate::support::packed::{Early, Matrix, Packed};
use crate::support::packed_weights::numbers_of;
use ixion_kernels::Float;
use ixion_kernels::gemm::gemm;
use ixion_kernels::narrow;
use ixion_kernels::narrow::Narrow;
use ixion_kernels::packed::{Panels, SumEpilogue};
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::quantized::Strips;
use ixion_tensor::{
    Complex, DType, Dim, Format, Layout, Limits, Shape, TensorView, TensorViewMut, bf16, f16,
};
use ndarray::{ArrayView2, ArrayViewMut2, s};
use std::borrow::Cow;
use std::ops::RangeInclusive;

crate::operator! {
    /// `torch.nn.Linear` and `torch.nn.functional.linear`: the affine map x·Wᵀ + b of a …×I input with O×I weights and a bias.
    /// Output: …×O.
    pub struct Linear for "nn.Linear", "F.linear", "aten::linear" {
        /// Number of input features I; only checked against the weights.
        in_features: Option<usize> = None,
        /// Number of output features O; only checked against the weights.
        out_features: Option<usize> = None,
        /// Weights, O×I; the functional form also accepts a single row as a vector.
        weight: Weight,
        /// Bias of O elements.
        bias: Option<Weight> = None,
        /// Operations fused into this one and applied to the result before it is stored; set by Ixion's passes.
        epilogue: Option<Epilogue> = None,
        /// State for int8 execution.
        int8: Int8<Strips>,
        /// The weights for int8 execution, unless an output has too many products.
        bytes: PackedBytes,
        /// State for float execution, if the weights are stored in the file.
        packed: Packed,
        /// Whether the weights are packed before the first run.
        early: Early,
        /// The tactic on a device.
        on_device: DeviceTactic,
    }
    validate |linear| {
        let Weight::Attribute(weight) = &linear.weight else { return Ok(()) };
        let checks = [("out_features", linear.out_features, 0), ("in_features", linear.in_features, 1)];
        for (key, given, axis) in checks {
            if let (Some(given), Some(&is)) = (given, weight.shape().get(axis))
                && given != is
            {
                return Err(LayerError::invalid(key, given, format!("the weights have {is}")));
            }
        }
        Ok(())
    }
}

/// The number of rows multiplied at a time, so that the epilogue runs while they are in the cache.
const ROWS: usize = 512;

impl Linear {
    fn run<T: Float>(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let Self { weight, bias, epilogue, .. } = self;
        let weight_view = weight.view(inputs)?;
        let bias = bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let bias = bias.map(|bias| float::read::<T>(&bias)).transpose()?;
        let (features, leading) =
            inputs[0].shape().split_last().map_or((1, &[][..]), |(&last, rest)| (last, rest));
        let outputs = if weight_view.shape().rank() == 2 { weight_view.shape()[0] } else { 1 };
        let rows = leading.iter().product();
        let weights = Weights::<T>::of(weight_view, rows, (outputs, features))?;
        let mut copy = Cow::Borrowed(&[][..]);
        let input = rows_of(&inputs[0], rows, features, &mut copy)?;
        epilogue::with::<T>(epilogue.as_mut(), inputs, output, limits, |output, epilogue| {
            for_each_chunk(output, ROWS * outputs, &|start, output| {
                limits.check_deadline()?;
                let (first, rows) = (start / outputs.max(1), output.len() / outputs.max(1));
                match &bias {
                    Some(bias) => {
                        output.chunks_exact_mut(outputs.max(1)).for_each(|row| row.copy_from_slice(bias))
                    }
                    None => output.fill(T::zero()),
                }
                let product = ArrayViewMut2::from_shape((rows, outputs), &mut *output)?;
                weights.multiply(input.slice(s![first..first + rows, ..]), product, limits)?;
                Ok(epilogue.map_or(Ok(()), |epilogue| epilogue.apply(start, output))?)
            })
        })
    }
}

impl Linear {
    /// Returns true if the weights are packed for this input. A single row of half precision is multiplied with the weights
    /// as they are.
    fn is_packed(&self, input: &TensorView<'_>) -> bool {
        let Some((weight, _)) = self.attributes() else { return false };
        let features = input.shape().last().copied().unwrap_or(1);
        let is_narrow = matches!(input.dtype(), DType::F16 | DType::Bf16);
        let is_narrow_row = is_narrow && input.num_elements() == features;
        !is_narrow_row && packed::suits(input.dtype()) && packed::suits(weight.dtype())
    }

    /// Weights and bias of the file; `None` if the graph computes one of them.
    fn attributes(&self) -> Option<(&RuntimeAttribute, Option<&RuntimeAttribute>)> {
        match (&self.weight, &self.bias) {
            (Weight::Attribute(weight), None) => Some((weight, None)),
            (Weight::Attribute(weight), Some(Weight::Attribute(bias))) => Some((weight, Some(bias))),
            _ => None,
        }
    }

    /// The packed weights, and their numbers of outputs and of input features.
    fn panels(&self) -> Result<(&Panels, [usize; 2])> {
        let Some((weight, bias)) = self.attributes() else {
            return Err(LayerError::Unsupported("only weights from the file can be packed".to_owned()));
        };
        let sizes @ [outputs, features] = match *weight.shape() {
            [outputs, features] => [outputs, features],
            _ => [1, weight.shape().iter().product()],
        };
        let panels = self.packed.get_or_make(|| match self.early.part(0, sizes)? {
            Some(stored) => Ok(stored),
            None => packed::pack(weight, bias, 0..outputs, (features, self.early.packing())),
        })?;
        Ok((panels, sizes))
    }

    /// Multiplies with packed weights.
    fn run_packed(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        if output.num_elements() == 0 {
            return Ok(());
        }
        let mut epilogue = self.epilogue.take();
        let result = self.multiply_packed(epilogue.as_mut(), inputs, output, context);
        self.epilogue = epilogue;
        result
    }

    fn multiply_packed(
        &self,
        epilogue: Option<&mut Epilogue>,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        let (panels, [outputs, features]) = self.panels()?;
        let rows = output.num_elements().checked_div(outputs).unwrap_or(0);
        let is_done =
            epilogue.is_none() && packed::multiply_halves(&inputs[0], panels, output, context.limits())?;
        if is_done {
            return Ok(());
        }
        let input = Matrix::of(&inputs[0], rows, features)?;
        let (scratch, limits) = context.scratch_and_limits(self.early.scratch(rows, features))?;
        let weights = (panels, scratch);
        if let Some((bounds, added)) =
            epilogue.as_ref().and_then(|epilogue| epilogue.in_registers(inputs, output))
        {
            let ending = SumEpilogue { bounds, added, ..SumEpilogue::NONE };
            return input.multiply(weights, (output.slice()?, outputs), &ending, limits);
        }
        epilogue::with::<f32>(epilogue, inputs, output, limits, |output, epilogue| {
            input.multiply(
                weights,
                (output, outputs),
                &SumEpilogue { elementwise: epilogue, ..SumEpilogue::NONE },
                limits,
            )
        })
    }
}

/// The O×I weights of a product.
enum Weights<'a, T: Float> {
    /// In the type of the product.
    Whole { values: Cow<'a, [T]>, dims: (usize, usize) },
    /// In half precision: some rows at a time are converted, so that they stay in the cache.
    Narrow { view: TensorView<'a>, dims: (usize, usize) },
}

impl<'a, T: Float> Weights<'a, T> {
    /// The number of weights converted at a time.
    const TILE: usize = 1 << 15;

    /// The weights for this number of rows. Few weights are converted as a whole, but not for a single row.
    fn of(view: TensorView<'a>, rows: usize, dims: (usize, usize)) -> Result<Self> {
        let shape = Shape::new(&[dims.0, dims.1])?;
        let is_narrow = (rows == 1 || view.num_elements() > Self::TILE) && view.dtype() != T::DTYPE;
        match view.layout().reshape(&shape)?.filter(|_| is_narrow) {
            Some(layout) => Ok(Self::Narrow { view: view.with_layout(layout)?, dims }),
            None => Ok(Self::Whole { values: float::read::<T>(&view)?, dims }),
        }
    }

    /// Adds the product of an input and the transposed weights.
    fn multiply(
        &self,
        input: ArrayView2<'_, T>,
        mut product: ArrayViewMut2<'_, T>,
        limits: &Limits,
    ) -> Result<()> {
        match self {
            Self::Whole { values, dims } => {
                gemm(input, ArrayView2::from_shape(*dims, values)?.t(), product, true);
                Ok(())
            }
            Self::Narrow { view, dims: (outputs, features) } => {
                if let (1, Some(row), Some(output)) =
                    (input.nrows(), input.as_slice(), product.as_slice_mut())
                    && add_dots(row, view, output, limits)?
                {
                    return Ok(());
                }
                let rows = (Self::TILE / features.max(&1)).max(1);
                for first in (0..*outputs).step_by(rows) {
                    let rows = rows.min(outputs - first);
                    let values = float::read::<T>(&view.with_layout(view.layout().narrow(0, first, rows)?)?)?;
                    let weight = ArrayView2::from_shape((rows, *features), &values)?;
                    gemm(input, weight.t(), product.slice_mut(s![.., first..first + rows]), true);
                }
                Ok(())
            }
        }
    }
}

/// Adds the product of one row, if there is a kernel for it.
fn add_dots<T: Float>(
    row: &[T],
    weights: &TensorView<'_>,
    output: &mut [T],
    limits: &Limits,
) -> Result<bool> {
    if T::DTYPE != DType::F32 || !weights.layout().is_contiguous() {
        return Ok(false);
    }
    match weights.dtype() {
        DType::F16 => add_dots_of::<T, f16>(row, weights, output, limits)?,
        DType::Bf16 => add_dots_of::<T, bf16>(row, weights, output, limits)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// As [`add_dots`], for `T = f32` and contiguous weights of type `H`.
fn add_dots_of<T: Float, H: Narrow>(
    row: &[T],
    weights: &TensorView<'_>,
    output: &mut [T],
    limits: &Limits,
) -> Result<()> {
    let flat = |len: usize| Ok::<_, LayerError>(Layout::contiguous(Shape::new(&[len])?));
    let (rows, outputs) = (flat(row.len())?, flat(output.len())?);
    let row = TensorView::from_slice(row, rows)?;
    let mut output = TensorViewMut::from_slice(output, outputs)?;
    let (row, output) = (row.slice::<f32>()?, output.slice::<f32>()?);
    Ok(narrow::add_dots(row, weights.slice::<H>()?, output, limits)?)
}

impl Linear {
    /// The product of complex numbers, in double precision.
    fn run_complex(
        &self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        type Double = Complex<f64>;
        let weight = self.weight.view(inputs)?;
        let features = inputs[0].shape().last().copied().unwrap_or(1);
        let outputs = if weight.shape().rank() == 2 { weight.shape()[0] } else { 1 };
        let rows = inputs[0].num_elements() / features.max(1);
        let rows = if features == 0 { output.num_elements() / outputs.max(1) } else { rows };
        let bytes = [rows, features + outputs].iter().fold(64u64, |all, &n| all.saturating_mul(n as u64));
        limits.check_tensor("a product of complex numbers", bytes)?;
        let (input, weight) = (number::read::<Double>(&inputs[0])?, number::read::<Double>(&weight)?);
        let bias = self.bias.as_ref().map(|bias| bias.view(inputs)).transpose()?;
        let bias =
            bias.map(|bias| Ok::<_, LayerError>(number::read::<Double>(&bias)?.into_owned())).transpose()?;
        number::write::<Double>(output, |output| {
            let input = ArrayView2::from_shape((rows, features), &input)?;
            let weight = ArrayView2::from_shape((outputs, features), &weight)?;
            Double::multiply(input, weight.t(), ArrayViewMut2::from_shape((rows, outputs), &mut *output)?);
            for row in output.chunks_exact_mut(outputs.max(1)) {
                row.iter_mut().zip(bias.iter().flatten()).for_each(|(y, b)| *y += b);
            }
            Ok(())
        })
    }
}

/// A tensor as the rows of a matrix: a view if the rows are evenly strided, otherwise a copy, which is kept in `copy`.
fn rows_of<'a, T: Float>(
    view: &TensorView<'a>,
    rows: usize,
    columns: usize,
    copy: &'a mut Cow<'a, [T]>,
) -> Result<ArrayView2<'a, T>> {
    if view.dtype() == T::DTYPE
        && let Some(layout) = view.layout().reshape(&Shape::new(&[rows, columns])?)?
    {
        return Ok(view.with_layout(layout)?.array::<T>()?.into_dimensionality()?);
    }
    *copy = float::read::<T>(view)?;
    Ok(ArrayView2::from_shape((rows, columns), copy)?)
}

impl Layer for Linear {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (input, weight) = (&inputs[0], self.weight.meta(inputs)?);
        if !input.dtype().is_complex() {
            float::check_real("the input", input)?;
        } else if self.epilogue.is_some() {
            return Err(LayerError::Unsupported("complex numbers do not support an epilogue".to_owned()));
        }
        let bias = self.bias.as_ref().map(|bias| bias.meta(inputs)).transpose()?;
        if let Some(other) =
            [Some(&weight), bias.as_ref()].into_iter().flatten().find(|w| w.dtype() != input.dtype())
        {
            return Err(LayerError::dtype("weight or bias", input.dtype(), other.dtype()));
        }
        let (outputs, features) = match weight.dims() {
            [features] => (None, features),
            [outputs, features] => (Some(outputs), features),
            _ => return Err(LayerError::shape("the weight", "out_features×in_features", &weight)),
        };
        let Some((last, rest)) = input.dims().split_last() else {
            return Err(LayerError::shape("the input", "at least one axis", input));
        };
        if last.differs(features) {
            return Err(LayerError::shape("the last axis of the input", features, input));
        }
        let wanted = outputs.cloned().unwrap_or(Dim::Fixed(1));
        if let Some(bias) = bias.filter(|bias| bias.num_elements().differs(&wanted)) {
            return Err(LayerError::shape("the bias", format!("{wanted} elements"), bias));
        }
        let output = input.with_dims(rest.iter().chain(outputs).cloned());
        epilogue::check(self.epilogue.as_ref(), &output, inputs)?;
        Ok(vec![output])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let features = inputs.first().and_then(|input| input.dims().last().cloned());
        let macs =
            features.zip(outputs.first()).and_then(|(features, o)| (o.num_elements() * features).fixed());
        Cost::of_moving(inputs, outputs)
            .with_macs(macs.and_then(|macs| u64::try_from(macs).ok()).unwrap_or(0))
    }
}

impl CpuLayer for Linear {
    fn supports(&self, position: usize, formats: &[TensorFormat]) -> bool {
        match formats.first() {
            Some(first) if first.is_quantized => self.supports_int8(position, formats),
            _ => formats
                .get(position)
                .is_some_and(|format| !format.is_quantized && format.format == Format::Plain),
        }
    }

    fn takes_zero_points(&self) -> bool {
        true
    }

    fn configure(&mut self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Result<()> {
        if self.int8.configure(inputs, outputs) {
            self.bytes = PackedBytes::default();
        }
        let mut early = std::mem::take(&mut self.early);
        let configured = match self.attributes() {
            Some((weight, bias)) => early.configure(inputs.first(), [weight].into_iter().chain(bias)),
            None => Ok(()),
        };
        self.early = early;
        configured
    }

    fn tactics(&self) -> Vec<Tactic> {
        Early::tactics(
            self.attributes().into_iter().flat_map(|(weight, bias)| [weight].into_iter().chain(bias)),
        )
    }

    fn set_tactic(&mut self, id: u32) -> Result<()> {
        let tactics = self.tactics();
        if self.early.select_tactic(id, &tactics)? {
            self.packed = Packed::default();
        }
        Ok(())
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        if self.int8.is_selected() {
            return self.int8_workspace(outputs);
        }
        let Some(shape) = inputs.first().and_then(|input| input.shape().ok()) else { return 0 };
        let Some((&features, rows)) = shape.split_last() else { return 0 };
        let rows = rows.iter().copied().fold(1, usize::saturating_mul);
        self.early.scratch(rows, features).saturating_mul(size_of::<f32>())
    }

    fn initialize(&mut self) -> Result<()> {
        if self.early.is_wanted() {
            self.panels()?;
        }
        self.initialize_int8()
    }

    fn packed(&self) -> Result<Option<Vec<f32>>> {
        Ok(self.packed.get().filter(|_| self.early.is_wanted()).map(|panels| numbers_of([panels])))
    }

    fn quantized_weight(&self) -> Result<Option<QuantizedWeight>> {
        self.int8.stored_weights(&self.weight)
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(self.int8.stored().unwrap_or_else(|| self.early.to_bytes()))
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes = PackedBytes::default();
        let may_be_int8 = has_weights(&self.weight, self.bias.as_ref());
        if self.early.restore(bytes)? || may_be_int8 && self.int8.restore(bytes) {
            return Ok(());
        }
        Err(LayerError::Unsupported(format!("invalid int8 scales or weight packing {bytes:?}")))
    }

    /// The efficiency relative to an `f32` matrix product, as measured on AVX-512: with half-precision weights, many rows wait
    /// for the conversion to f32, while a single row reads less memory.
    fn efficiency(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> f64 {
        let rows = outputs.first().and_then(|output| {
            output.dims().split_last()?.1.iter().try_fold(1, |rows, dim| i64::checked_mul(rows, dim.fixed()?))
        });
        let weight_rows =
            self.attributes().and_then(|(weight, _)| weight.shape().first().copied()).unwrap_or(1);
        let is_int8 = inputs.first().is_some_and(|input| input.scale().is_some());
        if let Some(efficiency) = self.int8_efficiency(rows).filter(|_| is_int8) {
            return efficiency;
        }
        match (inputs.first().map(TensorMeta::dtype), rows) {
            (Some(DType::Bf16), Some(1)) => 0.8,
            // As fast as bf16, which has the range of f32 and is therefore preferred.
            (Some(DType::F16), Some(1)) => 0.79,
            (Some(DType::F16 | DType::Bf16), _) => 0.7,
            _ => self.early.gain(weight_rows),
        }
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        if io.inputs[0].dtype() == DType::I8 && self.int8.is_selected() {
            return self.run_int8(io.inputs, &mut io.outputs[0], &mut io.context);
        }
        if io.inputs[0].dtype().is_complex() {
            return self.run_complex(io.inputs, &mut io.outputs[0], io.context.limits());
        }
        if self.is_packed(&io.inputs[0]) {
            return self.run_packed(io.inputs, &mut io.outputs[0], &mut io.context);
        }
        with_real!(io.inputs[0].dtype(), T => self.run::<T>(io.inputs, &mut io.outputs[0], io.context.limits()))
    }
}

operators! { Linear: multiplies(Dense); overload "aten::linear"(input, weight, bias) }
