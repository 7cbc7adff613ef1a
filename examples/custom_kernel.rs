//! A custom layer on a GPU, with its kernel's source embedded in the program.
//!
//! ```sh
//! cargo run --features cuda-emulator --example custom_kernel
//! cargo run --features cuda --example custom_kernel -- cuda
//! ```
//!
//! To run a CPU layer on a GPU as well, implement [`CudaLayer`] for it; its shapes and parameters stay the same.

use ixion::Limits;
use ixion::cuda::device::{Argument, Grid, KernelCache, Unit};
use ixion::cuda::{CudaIo, CudaLayer, CudaLayers};
use ixion::engine::{Builder, Context};
use ixion::op::{CpuLayer, Io, Layer, LayerError, Registry, Result, TensorMeta};
use ixion::pnnx::Graph;
use ixion::tensor::Tensor;
use std::error::Error;
use std::sync::Arc;

const MODEL: &str = "7767517
3 2
pnnx.Input                 in   0 1 x #x=(2,3)f32
pnnx.custom_op.my_ops.bend bend 1 1 x y arg_1=0.5 $arg_0=x #y=(2,3)f32
pnnx.Output                out  1 0 y
";

const KERNEL: &str = r#"
#include "common.cuh"

extern "C" __global__ void bend(const f32* x, f32* y, i64 count, float slope) {
    for (i64 i = GLOBAL_THREAD; i < count; i += GRID_STRIDE) y[i] = x[i] > 0 ? x[i] : slope * x[i] * x[i];
}"#;

ixion::operator! {
    /// x where x is positive, else slope * x².
    struct Bend for "pnnx.custom_op.my_ops.bend" {
        /// The slope.
        slope as "arg_1": f64,
    }
}

impl Layer for Bend {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].clone()])
    }
}

impl CpuLayer for Bend {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let slope = self.slope as f32;
        let mut y = io.outputs[0].array::<f32>()?;
        y.assign(&io.inputs[0].array::<f32>()?);
        y.mapv_inplace(|x| if x > 0.0 { x } else { slope * x * x });
        Ok(())
    }
}

impl CudaLayer for Bend {
    fn forward(&mut self, io: &mut CudaIo<'_, '_>) -> Result<()> {
        let (x, y) = (io.inputs[0], io.outputs[0]);
        if !x.is_contiguous() || !y.is_contiguous() {
            return Err(LayerError::Unsupported("the tensors must be contiguous".to_owned()));
        }
        let kernel = io.context.kernel(&Unit::new("bend.cu", KERNEL), "bend")?;
        let count = y.num_elements();
        let arguments = [
            Argument::Read(x),
            Argument::Write(y),
            Argument::Long(count as i64),
            Argument::Float(self.slope as f32),
        ];
        io.context.launch(&kernel, Grid::over(count), &arguments)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let id = std::env::args().nth(1).unwrap_or_else(|| "cuda-emulator".to_owned());
    let device = ixion::cuda::open(&id, KernelCache::none(), false)?;
    let mut registry = Registry::default();
    registry.register::<Bend>()?;
    let mut layers = CudaLayers::default();
    layers.register::<Bend>();
    let builder = Builder::from_pnnx(Graph::parse(MODEL, &Limits::default())?).with_registry(registry);
    let plan = builder.with_device(device.clone(), layers).build()?;
    let input = Tensor::from_vec(vec![-2.0f32, -1.0, 0.0, 1.0, 2.0, 3.0], &[2, 3])?;
    let outputs = Context::shared(Arc::new(plan))?.run(&[input])?;
    println!("{:?} by {} kernels on {}", outputs[0].to_vec::<f32>()?, device.launches(), device.info().name);
    Ok(())
}
