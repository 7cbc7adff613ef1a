//! Linear layers of quantised (int8) tensors.

use super::Linear;
use crate::op::{Layer, Result, TensorFormat};
use crate::support::epilogue;
use crate::support::epilogue::Epilogue;
use crate::support::int8;
use crate::support::int8::{Channels, Fill, Real};
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
        (depth > 0 && BytePanels::len(kind).is_some()).then_some(kind)
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
            self.bytes.0 = panels.map(|panels| int8::byte_weights(panels, &steps));
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
        limits: &Limits,
    ) -> Result<()> {
        self.initialize_int8()?;
        if let Some(weights) = &self.bytes.0 {
            let (scale, epilogue) = (self.int8.output_scale(), self.epilogue.as_mut());
            return multiply_bytes(weights, (inputs, epilogue), (output, scale), limits);
        }
        let features = inputs[0].shape().last().copied().unwrap_or(1);
        let outputs = match self.attributes().map(|(weight, _)| weight.shape()) {
            Some(&[outputs, _]) => outputs,
            _ => 1,
        };
        let values = int8::read(&inputs[0], limits)?;
        let count = output.num_elements().checked_div(outputs).unwrap_or(0);
        let product = Product { rows: Rows::new(&values, [count, features]), limits };
        self.int8.write(self.epilogue.as_mut(), Channels::Columns(outputs), inputs, output, product)
    }
}

/// Multiplies an int8 input with packed weights. Floats are quantised only after the epilogue has been applied to all of them,
/// for an output with a scale.
fn multiply_bytes(
    weights: &ByteWeights,
    (inputs, epilogue): (&[TensorView<'_>], Option<&mut Epilogue>),
    (output, scale): (&mut TensorViewMut<'_>, Option<f32>),
    limits: &Limits,
) -> Result<()> {
    let outputs = weights.panels().kind().outputs();
    let rows = output.num_elements().checked_div(outputs).unwrap_or(0);
    if rows == 0 {
        return Ok(());
    }
    let input = int8::bytes(&inputs[0])?;
    let multiply = |sums: &mut [f32]| {
        let (bytes, to) = (Bytes::from(&*input), Outputs::F32(sums));
        quantized::multiply_bytes(rows, bytes, weights, &Finish::NONE, to, limits)
    };
    let Some(scale) = scale else {
        return epilogue::with::<f32>(epilogue, inputs, output, limits, |output, epilogue| {
            multiply(output)?;
            epilogue.map_or(Ok(()), |epilogue| apply(epilogue, output, limits))
        });
    };
    let shape = *output.shape();
    limits.check_tensor("the sums of an int8 product", (output.num_elements() as u64).saturating_mul(4))?;
    let mut real = vec![0.0f32; output.num_elements()];
    multiply(&mut real)?;
    if let Some(epilogue) = epilogue {
        apply(&epilogue.start(inputs, DType::F32, &shape)?, &mut real, limits)?;
    }
    int8::quantize(&real, scale, output)
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
