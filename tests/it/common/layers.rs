//! Layers for tests only: three that panic, one that never returns, and one that works in place.

use ixion::op::{
    CpuLayer, Creator, ForwardContext, Io, Layer, LayerError, OperatorReader, Registry, TensorMeta, View,
};
use ixion::tensor::{Layout, LimitError, Shape, TensorView, TensorViewMut};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

/// The identity. Panics if an element is negative.
#[derive(Debug, Clone)]
struct Fragile;

/// The identity, after waiting until the run is cancelled or times out. Does not wait if the input is 0.
#[derive(Debug, Clone)]
struct Endless;

thread_local! {
    static WAITING: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Makes [`Endless`] send a message when it begins to wait on this thread.
pub(crate) fn tell_when_waiting(sender: Sender<()>) {
    WAITING.set(Some(sender));
}

/// The identity. Panics if an element is negative, and in every second clone of the initialised original.
#[derive(Debug, Default)]
struct Shy {
    clones: Arc<AtomicUsize>,
    is_initialized: bool,
}

impl Clone for Shy {
    fn clone(&self) -> Self {
        if self.is_initialized {
            assert!(self.clones.fetch_add(1, Ordering::Relaxed).is_multiple_of(2), "touched in clone");
        }
        Self::default()
    }
}

/// The sum of two inputs, computed in place of the first one if possible.
#[derive(Debug, Clone)]
struct Accumulate;

/// The identity. Panics before it computes for vectors of certain lengths.
#[derive(Debug, Clone)]
struct Touchy;

/// The vector length for which [`Touchy`] reports an exceeded deadline while memory is planned.
pub(crate) const TIMES_OUT: usize = 21;

/// The method in which [`Touchy`] panics, by the length of its input.
pub(crate) const TOUCHY: [(usize, &str); 5] =
    [(11, "infer"), (12, "view"), (13, "parts"), (14, "configure"), (15, "workspace")];

impl Touchy {
    fn touch(method: &str, len: Option<i64>) {
        let is_sore = TOUCHY.iter().any(|&(sore, at)| at == method && len == i64::try_from(sore).ok());
        assert!(!is_sore, "touched in {method}");
    }
}

macro_rules! one_to_one {
    ($($name:ident)+) => {$(
        impl Layer for $name {
            fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
                Ok(vec![inputs[0].clone()])
            }
        }
    )+};
}

one_to_one!(Fragile Endless Shy);

impl CpuLayer for Fragile {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        assert!(io.inputs[0].slice::<f32>()?.iter().all(|x| *x >= 0.0), "a negative number");
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

impl CpuLayer for Shy {
    fn initialize(&mut self) -> Result<(), LayerError> {
        self.is_initialized = true;
        Ok(())
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        Fragile.forward(io)
    }
}

impl CpuLayer for Endless {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        while io.inputs[0].slice::<f32>()?.iter().any(|x| *x != 0.0) {
            if let Some(sender) = WAITING.take() {
                let _ = sender.send(());
            }
            io.context.limits().check_deadline()?;
            std::thread::yield_now();
        }
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

impl Layer for Touchy {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
        Self::touch("infer", inputs[0].dims()[0].fixed());
        Ok(vec![inputs[0].clone()])
    }

    fn view(&self, _: usize, _: &[Layout], shape: &Shape) -> Result<Option<View>, LayerError> {
        Self::touch("view", i64::try_from(shape.num_elements()).ok());
        Ok(None)
    }

    fn parts(&self, inputs: &[TensorMeta], _: &Layout) -> Result<Option<Vec<Layout>>, LayerError> {
        let len = inputs[0].dims()[0].fixed();
        Self::touch("parts", len);
        if len == i64::try_from(TIMES_OUT).ok() {
            return Err(LimitError::DeadlineExceeded.into());
        }
        Ok(None)
    }
}

impl CpuLayer for Touchy {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }

    fn configure(&mut self, inputs: &[TensorMeta], _: &[TensorMeta]) -> Result<(), LayerError> {
        Self::touch("configure", inputs[0].dims()[0].fixed());
        Ok(())
    }

    fn workspace(&self, inputs: &[TensorMeta], _: &[TensorMeta]) -> usize {
        Self::touch("workspace", inputs[0].dims()[0].fixed());
        0
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
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<(), LayerError> {
        io.outputs[0].copy_from(&io.inputs[0])?;
        self.forward_in_place(&mut io.outputs[0], &io.inputs[1..], &mut io.context)
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
    let layers: [(&str, Make); 5] = [
        ("test.Fragile", || Box::new(Fragile)),
        ("test.Touchy", || Box::new(Touchy)),
        ("test.Shy", || Box::new(Shy::default())),
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
