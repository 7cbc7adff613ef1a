//! Layers in Rust as a library that `ixion --plugin` loads.
//!
//! ```sh
//! cargo build --example shared_plugin
//! ixion operators my. --plugin target/debug/examples/libshared_plugin.so
//! ```
//!
//! A Rust program that contains these layers in one of its crates calls `register` with its own registry instead.

#![allow(missing_docs, reason = "only the plugin table is exported")]

use ixion::op::{CpuLayer, Io, Layer, LayerError, Registry, RegistryError, Result, TensorMeta, Weight};
use ixion::tensor::DType;

ixion::operator! {
    /// x * weight + bias along the last axis.
    pub struct Affine for "my.Affine" {
        /// The factors.
        weight: Weight,
        /// The summands.
        bias: Option<Weight> = None,
        /// The number of repetitions.
        times: usize = 1,
    }
}

impl Layer for Affine {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        match inputs[0].dtype() {
            DType::F32 => Ok(vec![inputs[0].clone()]),
            other => Err(LayerError::dtype("the input", "f32", other)),
        }
    }
}

impl CpuLayer for Affine {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let weight = self.weight.view(io.inputs)?.array::<f32>()?;
        let bias = match &self.bias {
            Some(bias) => Some(bias.view(io.inputs)?.array::<f32>()?),
            None => None,
        };
        // Scratch memory, for demonstration only.
        let sum = io.context.scratch::<f32>(1)?;
        let mut output = io.outputs[0].array::<f32>()?;
        output.assign(&io.inputs[0].array::<f32>()?);
        for _ in 0..self.times {
            output *= &weight;
            if let Some(bias) = &bias {
                output += bias;
            }
        }
        sum[0] = output.sum();
        Ok(())
    }

    fn workspace(&self, _: &[TensorMeta], _: &[TensorMeta]) -> usize {
        size_of::<f32>()
    }

    fn serialize(&self) -> Result<Vec<u8>> {
        Ok(b"affine".to_vec())
    }

    fn deserialize(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes == b"affine" { Ok(()) } else { Err(LayerError::Unsupported("not an affine".to_owned())) }
    }
}

ixion::operator! {
    /// Sums of pairs along the last axis; an unpaired last element is dropped.
    pub struct Pairs for "my.Pairs" {}
}

impl Layer for Pairs {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let mut dims = inputs[0].dims().to_vec();
        let last = dims.pop().ok_or_else(|| LayerError::shape("the input", "an axis", &inputs[0]))?;
        dims.push(last.floor_div(2usize));
        Ok(vec![inputs[0].with_dims(dims)])
    }
}

impl CpuLayer for Pairs {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let (x, mut y) = (io.inputs[0].array::<f32>()?, io.outputs[0].array::<f32>()?);
        let last = ndarray::Axis(x.ndim() - 1);
        for (at, mut pair) in y.axis_iter_mut(last).enumerate() {
            pair.assign(&x.index_axis(last, 2 * at));
            pair += &x.index_axis(last, 2 * at + 1);
        }
        Ok(())
    }
}

ixion::operator! {
    /// The identity, or a panic in the given method.
    pub struct Panics for "my.Panics" {
        /// When: create, infer, forward, or never.
        when: String,
    }
    validate |this| {
        this.panic_in("create");
        Ok(())
    }
}

impl Panics {
    #[allow(clippy::panic, reason = "this layer exists to panic")]
    fn panic_in(&self, what: &str) {
        assert!(self.when != what, "{what} went wrong");
    }
}

impl Layer for Panics {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.panic_in("infer");
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Panics {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.panic_in("forward");
        Ok(io.outputs[0].copy_from(&io.inputs[0])?)
    }
}

// ANCHOR: export
/// Adds the layers to a registry.
///
/// # Errors
/// [`RegistryError::Duplicate`] if they are already registered.
pub fn register(registry: &mut Registry) -> Result<(), RegistryError> {
    registry.register_plugin::<Affine>("examples", "1")?;
    registry.register_plugin::<Pairs>("examples", "1")?;
    registry.register_plugin::<Panics>("examples", "1")
}

ixion::export_plugins!(register);
// ANCHOR_END: export
