//! Operators that leave their work to another layer, such as one for a whole family of operators.

use crate::op::{Cost, CpuLayer, FromOperator, Io, Layer, Result, TensorMeta, View, exactly};
use ixion_tensor::{DType, Layout, Shape};
use std::fmt;
use std::ops::RangeInclusive;

/// An operator that leaves its work to the layer that its parameters specify.
///
/// The layer exists only during a call, so it cannot keep state. The methods of [`Layer`] and [`CpuLayer`] that are not
/// implemented below have their defaults, even if the layer overrides them.
pub(crate) trait Delegating: FromOperator + Clone + fmt::Debug + Send + Sync + 'static {
    /// The layer that does the work, given the number of axes of the first input. The number of outputs must not depend on it.
    fn delegate(&self, rank: usize) -> Result<impl CpuLayer>;

    /// The number of inputs. Default: one, and those of the fields.
    fn takes(&self) -> RangeInclusive<usize> {
        exactly(1 + self.field_inputs())
    }
}

impl<T: Delegating> Layer for T {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.takes()
    }

    fn num_outputs(&self) -> usize {
        self.delegate(0).map_or(1, |layer| layer.num_outputs())
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.delegate(inputs[0].rank())?.infer(inputs)
    }

    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        self.delegate(inputs[0].shape().rank())?.view(output, inputs, shape)
    }

    fn view_of(&self, output: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        self.delegate(inputs[0].1.shape().rank())?.view_of(output, inputs, shape)
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        let layer = self.delegate(inputs.first().map_or(0, TensorMeta::rank));
        layer.map_or_else(|_| Cost::of_moving(inputs, outputs), |layer| layer.cost(inputs, outputs))
    }
}

impl<T: Delegating> CpuLayer for T {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.delegate(io.inputs[0].shape().rank())?.forward(io)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        let layer = self.delegate(inputs.first().map_or(0, TensorMeta::rank));
        layer.map_or(0, |layer| layer.workspace(inputs, outputs))
    }
}

/// Implements [`Delegating`] for operators that leave their work to the layer of an expression, which may use the number of axes
/// of the first input. With `{ fields }` in front, it also declares the operators, all with these fields.
macro_rules! delegating {
    ($($name:ident |$this:ident $(, $rank:ident)?| $layer:expr;)+) => {$(
        impl $crate::support::delegation::Delegating for $name {
            fn delegate(&self, rank: usize) -> $crate::op::Result<impl $crate::op::CpuLayer> {
                let ($this, _) = (self, rank);
                $(let $rank = rank;)?
                Ok($layer)
            }
        }
    )+};
    (
        $fields:tt
        $(
            $(#[doc = $doc:literal])*
            $name:ident for $($op_type:literal),+ |$this:ident $(, $rank:ident)?| $layer:expr;
        )+
    ) => {$(
        $crate::operator! {
            $(#[doc = $doc])*
            pub struct $name for $($op_type),+ $fields
        }

        delegating! { $name |$this $(, $rank)?| $layer; }
    )+};
}

pub(crate) use delegating;
