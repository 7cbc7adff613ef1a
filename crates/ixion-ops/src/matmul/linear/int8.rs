//! Linear layers of quantised (int8) tensors.

use super::Linear;
use crate::op::{ForwardContext, Layer, Result, Step, TensorFormat, TensorMeta};
use crate::quantized::write;
use crate::support::epilogue;
use crate::support::epilogue::Epilogue;
use crate::support::int8;
use crate::support::int8::{Channels, Ending, Fill, Real, with_function};
use ixion_kernels::elementwise::ApplyEpilogue;
use ixion_kernels::parallel::for_each_chunk;
use ixion_kernels::quantized::{
    self, BytePanels, ByteWeights, Bytes, Finish, Outcome, Outputs, PanelKind, Rows, Strips, product,
};
use ixion_tensor::{DType, Limits, TensorView, TensorViewMut};

impl Linear {
    /// Supports a quantised input with a quantised or float output.
    pub fn supports_int8(&self, position: usize, formats: &[TensorFormat]) -> bool {
        let may_be_int8 = int8::has_weights(&self.weight, self.bias.as_ref());
        may_be_int8 && int8::takes(position, formats, *self.num_inputs().end())
    }

    /// What bytes are multiplied with; `None` if the kernel does not support it.
    fn panel_kind(&self) -> Option<PanelKind> {
        let (outputs, depth) = match *self.attributes()?.0.shape() {
            [outputs, features] => (outputs, features),
            [features] => (1, features),
            _ => return None,
        };
        let kind = PanelKind::Product { groups: 1, outputs, depth };
        let fits = depth > 0 && depth <= int8::max_depth(self.int8.input_zero_point());
        (fits && BytePanels::len(kind).is_some()).then_some(kind)
    }

    /// The kernel's efficiency relative to an `f32` matrix product, if the kernel supports the weights; `rows` are those of the
    /// input, if they are known.
    pub(super) fn int8_efficiency(&self, rows: Option<i64>) -> Option<f64> {
        /// The rows that are multiplied at a time. Fewer take as long as these, but no longer than in `f32`.
        const AT_ONCE: i64 = 12;
        let kind = self.panel_kind()?;
        let whole = int8::product_efficiency([kind.outputs(), kind.depth()], 0.0);
        let share = rows.unwrap_or(AT_ONCE).clamp(1, AT_ONCE) as f64 / AT_ONCE as f64;
        Some((whole * share).max(whole.min(1.0)))
    }

    /// The size of the scratch memory: floats to which an epilogue is applied before they are quantised.
    pub(super) fn int8_workspace(&self, outputs: &[TensorMeta]) -> usize {
        let ending = Ending::of(self.epilogue.as_ref());
        let is_direct = matches!(ending, Some(Ending::Sum(None, _) | Ending::Function));
        let count = match self.int8.output_scale() {
            Some(_) if !is_direct => outputs.first().and_then(|output| output.num_elements().fixed()),
            _ => None,
        };
        usize::try_from(count.unwrap_or(0)).unwrap_or(0).saturating_mul(size_of::<f32>())
    }

    /// Packs the quantised weights if scales were configured.
    ///
    /// # Errors
    /// Fails if the weights cannot be read or are not finite.
    pub(super) fn initialize_int8(&mut self) -> Result<()> {
        if self.bytes.0.is_some() {
            return Ok(());
        }
        if let Some(kind) = self.panel_kind() {
            let rows = self.int8.rows(&self.weight, self.bias.as_ref())?;
            let Some((values, steps)) = rows else { return Ok(()) };
            let weight =
                |output: usize, k: usize| values.get(output * kind.depth() + k).copied().unwrap_or(0);
            let panels = BytePanels::new(kind, weight);
            let zero_point = self.int8.input_zero_point();
            self.bytes.0 = panels.map(|panels| int8::byte_weights(panels, zero_point, &steps));
            return Ok(());
        }
        self.int8.initialize(&self.weight, self.bias.as_ref(), |rows| Strips::of_rows(&rows))
    }

    /// The product of quantised tensors.
    ///
    /// # Errors
    /// Fails if the deadline has passed, a limit is exceeded or the epilogue fails.
    pub(super) fn run_int8(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        self.initialize_int8()?;
        let limits = context.limits();
        if let Some(weights) = &self.bytes.0 {
            let (step, epilogue) = (self.int8.output_step(), self.epilogue.as_mut());
            return match step {
                Some(step) => multiply_to_bytes(weights, (inputs, epilogue), (output, step), context),
                None => multiply_to_floats(weights, (inputs, epilogue), output, limits),
            };
        }
        let features = inputs[0].shape().last().copied().unwrap_or(1);
        let outputs = match self.attributes().map(|(weight, _)| weight.shape()) {
            Some(&[outputs, _]) => outputs,
            _ => 1,
        };
        let values = int8::read(&inputs[0], self.int8.input_zero_point(), limits)?;
        let count = output.num_elements().checked_div(outputs).unwrap_or(0);
        let product = Product { rows: Rows::new(&values, [count, features]), limits };
        self.int8.write(self.epilogue.as_mut(), Channels::Columns(outputs), inputs, output, product)
    }
}

/// Multiplies an int8 input with packed weights.
fn multiply_to_floats(
    weights: &ByteWeights,
    (inputs, epilogue): (&[TensorView<'_>], Option<&mut Epilogue>),
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
) -> Result<()> {
    let rows = rows_of(weights, output);
    if rows == 0 {
        return Ok(());
    }
    let input = int8::bytes(&inputs[0])?;
    epilogue::with::<f32>(epilogue, inputs, output, limits, |output, epilogue| {
        let (bytes, to) = (Bytes::from(&*input), Outputs::F32(&mut *output));
        quantized::multiply_bytes(rows, bytes, weights, &Finish::NONE, to, limits)?;
        epilogue.map_or(Ok(()), |epilogue| apply(epilogue, output, limits))
    })
}

/// As [`multiply_to_floats`], for an output with a step. Floats are quantised in registers, unless an epilogue needs other
/// tensors.
fn multiply_to_bytes(
    weights: &ByteWeights,
    (inputs, epilogue): (&[TensorView<'_>], Option<&mut Epilogue>),
    (output, step): (&mut TensorViewMut<'_>, Step),
    context: &mut ForwardContext<'_>,
) -> Result<()> {
    let rows = rows_of(weights, output);
    if rows == 0 {
        return Ok(());
    }
    let (input, shape, limits) = (int8::bytes(&inputs[0])?, *output.shape(), context.limits());
    let multiply = |finish: &Finish<'_>, to: Outputs<'_>| -> Result<()> {
        Ok(quantized::multiply_bytes(rows, Bytes::from(&*input), weights, finish, to, limits)?)
    };
    let finish = int8::finish(step);
    match (Ending::of(epilogue.as_deref()), epilogue) {
        (Some(Ending::Sum(None, bounds)), _) => {
            write::<i8>(output, |output| multiply(&Finish { bounds, ..finish }, Outputs::I8(output)))
        }
        (Some(Ending::Function), Some(epilogue)) => {
            with_function(epilogue, inputs, &shape, &mut |function| {
                let finish = Finish { function: Some(function), ..finish };
                write::<i8>(output, |output| multiply(&finish, Outputs::I8(output)))
            })
        }
        (_, epilogue) => {
            let real = context.scratch::<f32>(output.num_elements())?;
            multiply(&Finish::NONE, Outputs::F32(&mut *real))?;
            if let Some(epilogue) = epilogue {
                apply(&epilogue.start(inputs, DType::F32, &shape)?, real, limits)?;
            }
            int8::quantize(real, step, output, limits)
        }
    }
}

/// The number of rows of an output.
fn rows_of(weights: &ByteWeights, output: &TensorViewMut<'_>) -> usize {
    output.num_elements().checked_div(weights.panels().kind().outputs()).unwrap_or(0)
}

/// Applies an epilogue to all elements of a result. The threads of the current pool share the work.
fn apply(epilogue: &dyn ApplyEpilogue<f32>, values: &mut [f32], limits: &Limits) -> Result<()> {
    const CHUNK: usize = 1 << 14;
    for_each_chunk(values, CHUNK, &|start, values: &mut [f32]| {
        limits.check_deadline()?;
        Ok(epilogue.apply(start, values)?)
    })
}

/// The rows to multiply with the weights.
struct Product<'a> {
    rows: Rows,
    limits: &'a Limits,
}

impl Fill<Strips> for Product<'_> {
    fn fill<Q: Send>(&self, weights: &Strips, real: Real<'_>, output: &mut [Q]) -> Result<()>
    where
        for<'r> Real<'r>: Outcome<Q>,
    {
        Ok(product(&self.rows, weights, &real, output, self.limits)?)
    }
}
