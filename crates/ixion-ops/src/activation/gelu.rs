//! GELU, exact or approximate.

use crate::op::{CpuLayer, ForwardContext, Io, Layer, Result, TensorMeta};
use crate::support::choices::choices;
use crate::support::float;
use crate::support::float::{Unary, map_unary, map_unary_in_place};
use ixion_kernels::{Float, activation};
use ixion_tensor::{TensorView, TensorViewMut};

crate::operator! {
    /// `torch.nn.GELU` (Hendrycks and Gimpel 2016): x · Φ(x), where Φ is the cumulative distribution function of the
    /// standard normal distribution, or its approximation by tanh.
    pub struct GELU for "nn.GELU", "F.gelu", "aten::gelu" {
        /// The approximation of Φ: `none` or `tanh`.
        approximate: Approximate = Approximate::None,
    }
}

choices! {
    /// The computation of the normal distribution function in [`GELU`].
    pub enum Approximate {
        /// Exactly, by the error function.
        None = "none",
        /// Approximately, by a hyperbolic tangent.
        Tanh = "tanh",
    }
}

/// GELU by the error function. A separate type, because a loop that selects between the two would compute both.
struct ByErf;

impl Unary for ByErf {
    #[inline(always)]
    fn apply<T: Float>(&self, x: T) -> T {
        activation::gelu(x)
    }
}

/// GELU by the hyperbolic tangent.
struct ByTanh;

impl Unary for ByTanh {
    #[inline(always)]
    fn apply<T: Float>(&self, x: T) -> T {
        activation::gelu_tanh(x)
    }
}

impl Layer for GELU {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        float::same_as_input(inputs)
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl CpuLayer for GELU {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (input, output, limits) = (&io.inputs[0], &mut io.outputs[0], io.context.limits());
        match self.approximate {
            Approximate::None => map_unary(input, output, limits, &ByErf),
            Approximate::Tanh => map_unary(input, output, limits, &ByTanh),
        }
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        _: &[TensorView<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<()> {
        match self.approximate {
            Approximate::None => map_unary_in_place(data, context.limits(), &ByErf),
            Approximate::Tanh => map_unary_in_place(data, context.limits(), &ByTanh),
        }
    }
}

operators! {
    GELU: computes(&[("gelu(@0)", &[("approximate", "none")]), ("gelu_tanh(@0)", &[("approximate", "tanh")])])
        .when_quantized(InFloats(OfInput))
}
