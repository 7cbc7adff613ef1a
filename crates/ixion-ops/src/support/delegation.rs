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

/// An operator that leaves its work to another layer, without its type: what is asked of the layer is compiled once for all
/// operators.
trait Delegate {
    /// Calls `ask` with the layer, given the number of axes of the first input.
    fn with_layer(&self, rank: usize, ask: &mut Ask<'_>) -> Result<()>;
}

/// What is asked of a layer.
type Ask<'a> = dyn FnMut(&mut dyn CpuLayer) -> Result<()> + 'a;

impl<T: Delegating> Delegate for T {
    fn with_layer(&self, rank: usize, ask: &mut Ask<'_>) -> Result<()> {
        match self.delegate(rank) {
            Ok(mut layer) => ask(&mut layer),
            Err(error) => Err(error),
        }
    }
}

impl<T: Delegating> Layer for T {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        self.takes()
    }

    fn num_outputs(&self) -> usize {
        num_outputs(self)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        infer(self, inputs)
    }

    fn view(&self, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
        view(self, output, inputs, shape)
    }

    fn view_of(&self, output: usize, inputs: &[(DType, Layout)], shape: &Shape) -> Result<Option<View>> {
        view_of(self, output, inputs, shape)
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        cost(self, inputs, outputs)
    }
}

impl<T: Delegating> CpuLayer for T {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        forward(self, io)
    }

    fn workspace(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
        workspace(self, inputs, outputs)
    }
}

fn num_outputs(operator: &dyn Delegate) -> usize {
    let mut count = 1;
    let asked = operator.with_layer(0, &mut |layer| {
        count = layer.num_outputs();
        Ok(())
    });
    asked.map_or(1, |()| count)
}

fn infer(operator: &dyn Delegate, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
    let mut outputs = Vec::new();
    operator.with_layer(inputs[0].rank(), &mut |layer| {
        outputs = layer.infer(inputs)?;
        Ok(())
    })?;
    Ok(outputs)
}

fn view(operator: &dyn Delegate, output: usize, inputs: &[Layout], shape: &Shape) -> Result<Option<View>> {
    let mut view = None;
    operator.with_layer(inputs[0].shape().rank(), &mut |layer| {
        view = layer.view(output, inputs, shape)?;
        Ok(())
    })?;
    Ok(view)
}

fn view_of(
    operator: &dyn Delegate,
    output: usize,
    inputs: &[(DType, Layout)],
    shape: &Shape,
) -> Result<Option<View>> {
    let mut view = None;
    operator.with_layer(inputs[0].1.shape().rank(), &mut |layer| {
        view = layer.view_of(output, inputs, shape)?;
        Ok(())
    })?;
    Ok(view)
}

fn cost(operator: &dyn Delegate, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
    let mut cost = Cost::default();
    let asked = operator.with_layer(rank_of_first(inputs), &mut |layer| {
        cost = layer.cost(inputs, outputs);
        Ok(())
    });
    asked.map_or_else(|_| Cost::of_moving(inputs, outputs), |()| cost)
}

fn forward(operator: &dyn Delegate, io: &mut Io<'_, '_>) -> Result<()> {
    let rank = io.inputs[0].shape().rank();
    operator.with_layer(rank, &mut |layer| layer.forward(io))
}

fn workspace(operator: &dyn Delegate, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> usize {
    let mut bytes = 0;
    let asked = operator.with_layer(rank_of_first(inputs), &mut |layer| {
        bytes = layer.workspace(inputs, outputs);
        Ok(())
    });
    asked.map_or(0, |()| bytes)
}

fn rank_of_first(inputs: &[TensorMeta]) -> usize {
    inputs.first().map_or(0, TensorMeta::rank)
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
