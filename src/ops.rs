//! The built-in operators and their CPU implementations: the crate [`ixion_ops`].
//!
//! Operators are grouped by family, in a folder or a file each. An operator is a struct that [`operator!`](crate::operator)
//! declares with its parameters and weights. It implements [`Layer`](crate::op::Layer) for shape inference and
//! [`CpuLayer`](crate::op::CpuLayer) for the computation, which usually calls a kernel from [`kernels`](crate::kernels). Each
//! file lists its operators in an `operators!` table, and each family lists its files.
//!
//! # Finding an operator
//!
//! Search `crates/ixion-ops/src/` for its type in quotes, as it is in a `.param` file: `"nn.Conv2d"`. PNNX writes `F` for
//! `torch.nn.functional`, leaves out the underscore of methods that work in place (`Tensor.index_put`), and keeps TorchScript's
//! names of functions that it does not know (`aten::sort`). The computation starts at `forward`, which is in the same file, or
//! in a type that several operators share, such as `Pooled`. The short layers in `naive` are those of the lessons.
//!
//! # Adding an operator
//!
//! A complete element-wise operator:
//!
//! ```
//! use ixion::op::{CpuLayer, Io, Layer, Registry, Result, TensorMeta};
//! use ixion::ops::support::float;
//!
//! ixion::operator! {
//!     /// x where |x| is at most `limit`, else 0.
//!     pub struct Gate for "my.Gate" {
//!         /// The largest magnitude that passes.
//!         limit: f64 = 1.0,
//!     }
//! }
//!
//! impl Layer for Gate {
//!     fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
//!         float::same_as_input(inputs)
//!     }
//! }
//!
//! impl CpuLayer for Gate {
//!     fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
//!         let limit = self.limit;
//!         let single = |x: f32| if x.abs() <= limit as f32 { x } else { 0.0 };
//!         float::map(&io.inputs[0], &mut io.outputs[0], single, |x| if x.abs() <= limit { x } else { 0.0 })
//!     }
//! }
//!
//! let mut registry = Registry::default();
//! registry.register::<Gate>()?;
//!
//! let text = "7767517\n3 2\npnnx.Input in 0 1 x\nmy.Gate gate 1 1 x y limit=2.0\npnnx.Output out 1 0 y\n";
//! let model = ixion::pnnx::Graph::parse(text, &ixion::Limits::default())?;
//! let mut graph = ixion::graph::RuntimeGraph::from_pnnx(model).with_registry(registry);
//! graph.build()?;
//! let outputs = graph.run_with(vec![ixion::tensor::Tensor::from_vec(vec![1.0f32, -3.0], &[2])?])?;
//! assert_eq!(outputs[0].to_vec::<f32>()?, [1.0, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An element-wise operator may also work in the memory of its input ([`Layer::in_place`](crate::op::Layer::in_place) and
//! [`CpuLayer::forward_in_place`](crate::op::CpuLayer::forward_in_place), by
//! [`float::map_in_place`](support::float::map_in_place)), and take tensors of any format
//! ([`CpuLayer::is_pointwise`](crate::op::CpuLayer::is_pointwise)).
//!
//! [`operator!`](crate::operator) lists the types that a field can have. An operator with several inputs declares those that
//! files name (`$other=…`) as fields of type [`InputIndex`](support::arguments::InputIndex), returns the number of inputs from
//! [`Layer::num_inputs`](crate::op::Layer::num_inputs), usually `exactly(1 + self.field_inputs())`, and compares their shapes
//! in `infer`. If the graph computes a parameter (`$kernel_size=…`), the layer is created when the value is known, and need not
//! know of it.
//!
//! A graph uses a new operator through [`RuntimeGraph::with_registry`](crate::graph::RuntimeGraph::with_registry). A built-in
//! operator belongs in a file of its family's folder and in the `operators!` table of that file; a new file must be added to
//! the table in the family's `mod.rs`. CONTRIBUTING.md lists the other steps.
//!
//! # Modules, custom operators and TorchScript types
//!
//! [`RuntimeGraph::build`](crate::graph::RuntimeGraph::build) fails if an operator type has no layer; the error lists all such
//! types with their lines. Register a layer for each:
//!
//! - A module that is kept whole (`pnnx model.pt moduleop=models.common.Focus`) is a single operator whose type is the
//!   module's class. Its weights are attributes, named as in the module: `weight as "conv.weight": Weight`.
//! - A custom operator has the type `pnnx.custom_op.<namespace>.<name>`. Its arguments are `arg_0`, `arg_1` and so on: tensor
//!   arguments are inputs, all others are parameters.
//! - At optimisation levels 0 and 1, and for operators that PNNX does not support, TorchScript types such as `aten::add`
//!   remain. Their inputs have no names: they are assigned to the layer's fields in order, after `input`. Constants become
//!   parameters before a layer is created, so the same layer works at every level.
//! - Scripted models have branches and loops, `prim::If` and `prim::Loop`. PNNX does not write what is in them, so the error
//!   says how to export the model without them. Branches whose results are not used, such as assertions, are left out.
//!
//! `examples/custom_operator.rs` implements a module with weights and a custom operator.

#[doc(hidden)]
#[cfg(feature = "fourier")]
pub use ixion_ops::fourier;
#[doc(hidden)]
pub use ixion_ops::{
    activation, arithmetic, attention, conversion, convolution, creation, indexing, inserted, layout, linalg,
    loss, matmul, naive, normalization, onnx, pooling, quantized, recurrent, reduction, sorting, vision,
};
#[doc(inline)]
pub use ixion_ops::{registry, support};
