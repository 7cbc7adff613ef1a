//! Layers that tests need and nobody else: one that panics, one that never ends, one that works in place.

use ixion::graph::{
    CpuLayer, Creator, ForwardContext, Layer, LayerError, OperatorReader, Registry, TensorMeta,
};
use ixion::tensor::{TensorView, TensorViewMut};
use std::ops::RangeInclusive;

/// Its input. A negative number makes it panic.
#[derive(Debug, Clone)]
struct Fragile;

/// Its input, after a wait that only the end of the run ends. It does not wait for 0.
#[derive(Debug, Clone)]
struct Endless;

/// The sum of two inputs, in the place of the first one where that may be.
#[derive(Debug, Clone)]
struct Accumulate;

macro_rules! one_to_one {
    ($($name:ident)+) => {$(
        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                Ok(vec![inputs[0].clone()])
            }
        }
    )+};
}

one_to_one!(Fragile Endless);

impl CpuLayer for Fragile {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        assert!(inputs[0].slice::<f32>()?.iter().all(|x| *x >= 0.0), "a negative number");
        Ok(outputs[0].copy_from(&inputs[0])?)
    }
}

impl CpuLayer for Endless {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        while inputs[0].slice::<f32>()?.iter().any(|x| *x != 0.0) {
            context.limits().check_deadline()?;
            std::thread::yield_now();
        }
        Ok(outputs[0].copy_from(&inputs[0])?)
    }
}

impl Layer for Accumulate {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Ok(vec![inputs[0].clone()])
    }

    fn in_place(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl CpuLayer for Accumulate {
    fn forward(
        &mut self,
        inputs: &[TensorView<'_>],
        outputs: &mut [TensorViewMut<'_>],
        context: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        outputs[0].copy_from(&inputs[0])?;
        self.forward_in_place(&mut outputs[0], &inputs[1..], context)
    }

    fn forward_in_place(
        &mut self,
        data: &mut TensorViewMut<'_>,
        others: &[TensorView<'_>],
        _: &mut ForwardContext<'_>,
    ) -> Result<(), LayerError> {
        let more = others[0].array::<f32>()?;
        data.array::<f32>()?.zip_mut_with(&more, |x, more| *x += more);
        Ok(())
    }
}

/// All built-in layers and those of this file.
pub(crate) fn registry() -> Registry {
    type Make = fn() -> Box<dyn CpuLayer>;
    let mut registry = Registry::default();
    let layers: [(&str, Make); 3] = [
        ("test.Fragile", || Box::new(Fragile)),
        ("test.Endless", || Box::new(Endless)),
        ("test.Accumulate", || Box::new(Accumulate)),
    ];
    for (op_type, make) in layers {
        let create = move |_: &mut OperatorReader<'_>| Ok(make());
        registry.add(op_type, Creator::new("test", "1", create)).unwrap();
    }
    registry
}

/// A model of one operator on a vector.
pub(crate) fn with(op_type: &str, inputs: usize) -> String {
    format!("pnnx.Input input 0 1 x #x=(?)f32\n{op_type} layer {inputs} 1 x y\npnnx.Output output 1 0 y")
}
