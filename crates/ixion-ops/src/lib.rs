//! PyTorch's operators: the parameters and weights of each, its rule for shapes and types, and its CPU implementation.
//!
//! Operators are grouped by family, in a folder or a file each. An operator is a struct that [`operator!`] declares with its
//! parameters and weights. It implements [`Layer`](op::Layer) for shape inference and [`CpuLayer`] for the computation, which
//! usually calls a kernel of [`ixion_kernels`]. Each file lists its operators in an `operators!` table, and each family lists
//! its files. The documentation of the module `ops` of the crate `ixion` shows how to add one.

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
        pub(crate) const OPERATORS: &[$crate::op::Entry] = &[
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
pub mod op;
pub mod pooling;
pub mod quantized;
pub mod recurrent;
pub mod reduction;
pub mod sorting;
pub mod support;
pub mod vision;

use crate::op::{CpuLayer, Registry};
/// Exported macros name it: their callers need not depend on `ixion-tensor`.
#[doc(hidden)]
pub use ixion_tensor as tensor;
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
