//! The built-in operators and their CPU implementations.
//!
//! Operators are grouped by family, in a folder or a file each. An operator is a struct that [`operator!`](crate::operator)
//! declares with its parameters and weights. It implements [`Layer`](crate::op::Layer) for shape inference and [`CpuLayer`]
//! for the computation, which usually calls a kernel from [`kernels`](crate::kernels). Each file lists its operators in an
//! `operators!` table, and each family lists its files.
//!
//! # Adding an operator
//!
//! A complete element-wise operator:
//!
//! ```
//! use ixion::op::{CpuLayer, ForwardContext, Layer, LayerError, Registry, TensorMeta};
//! use ixion::ops::support::float;
//! use ixion::tensor::{TensorView, TensorViewMut};
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
//!     fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>, LayerError> {
//!         float::same_as_input(inputs)
//!     }
//! }
//!
//! impl CpuLayer for Gate {
//!     fn forward(&mut self, inputs: &[TensorView], outputs: &mut [TensorViewMut], _: &mut ForwardContext) -> Result<(), LayerError> {
//!         let limit = self.limit;
//!         float::map(&inputs[0], &mut outputs[0], |x| if x.abs() <= limit as f32 { x } else { 0.0 },
//!             |x| if x.abs() <= limit { x } else { 0.0 })
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
//! [`operator!`](crate::operator) lists the types that a field can have. An operator with several inputs returns their
//! number from [`Layer::num_inputs`](crate::op::Layer::num_inputs), compares their shapes in `infer`, and declares an input
//! that files name (`$other=…`) as a field of type [`InputIndex`](support::arguments::InputIndex).
//!
//! A graph uses a new operator through [`RuntimeGraph::with_registry`](crate::graph::RuntimeGraph::with_registry). A built-in
//! operator belongs in a file of its family's folder and in the `operators!` table of that file; a new file must be added to
//! the table in the family's `mod.rs`.
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
//!
//! `examples/custom_operator.rs` implements a module with weights and a custom operator.

/// Declares `OPERATORS`, the table of a module's operators: `of` adds the tables of other modules, `with` a function for
/// operators whose types or fields are computed, `lists` the types that take lists of tensors, `overload` the arguments of
/// overloads in TorchScript that are not `input` and the operator's fields in their order.
///
/// ```ignore
/// operators! { ReLU, ELU }                             // layers
/// operators! { Logit; of complex; with add_functions } // and those of a module, and computed ones
/// operators! { of gating, softmax }                    // those of modules alone
/// operators! { entry => Conv, LpPool }                 // `entry::<Conv>()` makes the entry
/// operators! { HStack; lists "aten::hstack" }          // its argument is a list of tensors
/// operators! { Sort; overload "aten::sort"(input, stable, dim, descending) of 4 } // if called with 4 arguments
/// ```
macro_rules! operators {
    (
        @ [$($entry:expr,)*] [$($(#[$meta:meta])* $module:ident),*] [$($add:ident)?]
        [$($lists:literal),*] [$($op_type:literal($($argument:ident),*) $(of $count:literal)?),*]
    ) => {
        pub(in crate::ops) const OPERATORS: &[$crate::op::Entry] = &[
            $($entry,)*
            $($(#[$meta])* $crate::op::Entry::Table($module::OPERATORS),)*
            $($crate::op::Entry::Computed($add),)?
            $($crate::op::Entry::TakesTensors($lists),)*
            $($crate::op::Entry::Overload($op_type, $crate::op::Overload {
                count: operators!(@count $($count)?),
                arguments: &[$(stringify!($argument)),*],
            }),)*
        ];
    };
    (@count) => { None };
    (@count $count:literal) => { Some($count) };
    (of $($(#[$meta:meta])* $module:ident),* $(; with $add:ident)?) => {
        operators! { @ [] [$($(#[$meta])* $module),*] [$($add)?] [] [] }
    };
    (with $add:ident $(; overload $($overload:tt)*)?) => {
        operators! { @ [] [] [$add] [] [$($($overload)*)?] }
    };
    ($make:ident => $($name:ty),*) => {
        operators! { @ [$($make::<$name>(),)*] [] [] [] [] }
    };
    (
        $($name:ty),* $(; of $($(#[$meta:meta])* $module:ident),*)? $(; with $add:ident)?
        $(; lists $($lists:literal),*)? $(; overload $($overload:tt)*)?
    ) => {
        operators! {
            @ [$($crate::op::Entry::of::<$name>(),)*] [$($($(#[$meta])* $module),*)?] [$($add)?]
            [$($($lists),*)?] [$($($overload)*)?]
        }
    };
}

pub mod activation;
pub mod arithmetic;
pub mod attention;
pub mod conversion;
pub mod convolution;
pub mod creation;
#[cfg(feature = "fourier")]
pub mod fourier;
pub mod indexing;
pub mod inserted;
pub mod layout;
pub mod linalg;
pub mod matmul;
pub mod naive;
pub mod normalization;
pub mod onnx;
pub mod pooling;
pub mod quantized;
pub mod recurrent;
pub mod reduction;
pub mod sorting;
pub mod support;
pub mod vision;

use crate::op::{CpuLayer, Registry};
use std::sync::OnceLock;

operators! {
    of activation, arithmetic, attention, conversion, convolution, creation, #[cfg(feature = "fourier")] fourier, indexing,
    layout, linalg, matmul, normalization, onnx, pooling, quantized, recurrent, reduction, sorting, vision
}

impl Default for Registry<dyn CpuLayer> {
    /// All built-in layers; see [`registry`].
    fn default() -> Self {
        static BUILT_IN: OnceLock<Registry> = OnceLock::new();
        BUILT_IN.get_or_init(registry).clone()
    }
}

/// A registry of all built-in CPU layers.
pub fn registry() -> Registry<dyn CpuLayer> {
    let mut registry = Registry::empty();
    if let Err(duplicate) = registry.register_all(OPERATORS) {
        log::error!("{duplicate}");
    }
    registry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::FromOperator;

    #[test]
    fn no_type_is_registered_twice() {
        assert_eq!(Registry::empty().register_all(OPERATORS), Ok(()));
        let mut registry = super::registry();
        assert!(registry.register::<activation::elementwise::ReLU>().is_err());
        assert!(activation::elementwise::ReLU::TYPES.iter().all(|op_type| registry.get(op_type).is_ok()));
    }

    #[test]
    fn random_operators_are_those_with_a_seed() {
        let registry = super::registry();
        let is_random = |op_type: &&str| registry.get(op_type).unwrap().is_random;
        let random =
            ["torch.randn", "torch.rand_like", "aten::normal", "aten::rrelu", "RandomNormal", "Multinomial"];
        assert!(random.iter().all(is_random));
        assert!(!["torch.zeros", "torch.empty", "nn.RReLU", "nn.Dropout"].iter().any(is_random));
        let named_so = registry.iter().filter(|(op_type, _)| op_type.to_lowercase().contains("rand"));
        assert!(named_so.into_iter().all(|(_, creator)| creator.is_random));
    }

    #[test]
    fn overloads_are_found_by_the_number_of_arguments() {
        let registry = super::registry();
        let arguments = |op_type, count| registry.get(op_type).unwrap().overload(count);
        assert_eq!(arguments("aten::clamp_max", 2), Some(&["input", "max"][..]));
        assert_eq!(arguments("aten::sort", 4), Some(&["input", "stable", "dim", "descending"][..]));
        assert_eq!(arguments("aten::sort", 3), None);
        assert_eq!(arguments("aten::var", 2), Some(&["input", "unbiased"][..]));
        assert_eq!(arguments("aten::var", 4), Some(&["input", "dim", "unbiased", "keepdim"][..]));
        assert_eq!(arguments("aten::copy", 3).and_then(|arguments| arguments.first()), Some(&"self"));
    }

    #[test]
    fn numbers_of_torchscript_are_known_to_be_numbers() {
        let registry = super::registry();
        let returns_number = |op_type: &&str| registry.get(op_type).unwrap().returns_number;
        assert!(
            ["aten::size", "Tensor.size", "aten::Int", "aten::ScalarImplicit"].iter().all(returns_number)
        );
        assert!(!["aten::numel", "prim::NumToTensor", "aten::add"].iter().any(returns_number));
    }

    #[test]
    fn every_operator_and_field_is_documented() {
        for (op_type, creator) in super::registry().iter() {
            assert!(!creator.doc.trim().is_empty(), "{op_type} has no doc comment");
            for field in &creator.fields {
                assert!(!field.doc.trim().is_empty(), "{op_type}: field `{}` has no doc comment", field.key);
            }
        }
    }
}
