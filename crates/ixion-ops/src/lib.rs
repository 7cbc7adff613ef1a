//! PyTorch's operators: the parameters and weights of each, its rule for shapes and types, and its CPU implementation.
//!
//! Operators are grouped by family, in a folder or a file each. An operator is a struct that [`operator!`] declares with its
//! parameters and weights. It implements [`Layer`](op::Layer) for shape inference and [`CpuLayer`] for the computation, which
//! usually calls a kernel of [`ixion_kernels`]. Each file lists its operators in an `operators!` table, and each family lists
//! its files. The documentation of the module `ops` of the crate `ixion` shows how to add one.

/// Declares `OPERATORS`, the table of a module's operators. After a colon follow the [`Properties`] of an operator, in the words
/// of `op::properties::table`. `of` adds the tables of other modules, `with` a function for operators whose types or fields are
/// computed; `category` states the category of all of these. `lists` names types that take lists of tensors, `overload` the
/// arguments of overloads in TorchScript that are not `input` and the operator's fields in their order.
///
/// ```ignore
/// operators! { ReLU, ELU }                             // layers
/// operators! { Flatten: moves(Reshaped) }              // a layer that only moves elements
/// operators! { Logit; of complex; with add_functions } // and those of a module, and computed ones
/// operators! { of gating, softmax; category Activation } // those of modules alone
/// operators! { entry => Conv, LpPool }                 // `entry::<Conv>()` makes the entry
/// operators! { HStack; lists "aten::hstack" }          // its argument is a list of tensors
/// operators! { Sort; overload "aten::sort"(input, stable, dim, descending) of 4 } // if called with 4 arguments
/// ```
macro_rules! operators {
    (
        @ [$($category:ident)?] [$($entry:expr,)*] [$($(#[$meta:meta])* $module:ident),*] [$($add:ident)?]
        [$($lists:literal),*] [$($op_type:literal($($argument:ident),*) $(of $count:literal)?),*]
    ) => {
        pub(crate) const OPERATORS: &[$crate::op::Entry] = &[
            $($crate::op::Entry::Category($crate::op::Category::$category),)?
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
    (of $($(#[$meta:meta])* $module:ident),* $(; with $add:ident)? $(; category $category:ident)?) => {
        operators! { @ [$($category)?] [] [$($(#[$meta])* $module),*] [$($add)?] [] [] }
    };
    (with $add:ident $(; overload $($overload:tt)*)?) => {
        operators! { @ [] [] [] [$add] [] [$($($overload)*)?] }
    };
    ($make:ident => $($name:ty),* $(; category $category:ident)?) => {
        operators! { @ [$($category)?] [$($make::<$name>(),)*] [] [] [] [] }
    };
    (
        $($name:ty $(: $properties:expr)?),* $(; of $($(#[$meta:meta])* $module:ident),*)? $(; with $add:ident)?
        $(; category $category:ident)? $(; lists $($lists:literal),*)? $(; overload $($overload:tt)*)?
    ) => {
        operators! {
            @ [$($category)?]
            [$($crate::op::Entry::of::<$name>()$(.with({ use $crate::op::properties::table::*; $properties }))?,)*]
            [$($($(#[$meta])* $module),*)?] [$($add)?] [$($($lists),*)?] [$($($overload)*)?]
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
pub mod loss;
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

use crate::op::{CpuLayer, Properties, Registry};
/// Exported macros name it: their callers need not depend on `ixion-tensor`.
#[doc(hidden)]
pub use ixion_tensor as tensor;
use std::sync::OnceLock;

operators! {
    of activation, arithmetic, attention, conversion, convolution, creation, #[cfg(feature = "fourier")] fourier, indexing,
    layout, linalg, loss, matmul, normalization, onnx, pooling, quantized, recurrent, reduction, sorting, vision
}

impl Registry<dyn CpuLayer> {
    /// All built-in layers, as in [`Registry::default`].
    #[doc(hidden)]
    pub fn built_in() -> &'static Self {
        static BUILT_IN: OnceLock<Registry> = OnceLock::new();
        BUILT_IN.get_or_init(registry)
    }
}

impl Default for Registry<dyn CpuLayer> {
    /// All built-in layers; see [`registry`].
    fn default() -> Self {
        Self::built_in().clone()
    }
}

impl Properties {
    /// The properties of an operator type, whichever layer runs it. If there is no built-in layer of the type, they are those of
    /// the same function in another namespace: PyTorch has most functions of tensors as methods too, and TorchScript has both.
    pub fn of(op_type: &str) -> Self {
        const NAMESPACES: [&str; 3] = ["torch.", "Tensor.", "aten::"];
        let known = |op_type: &str| Registry::built_in().known(op_type);
        let elsewhere = || {
            let name = NAMESPACES.iter().find_map(|namespace| op_type.strip_prefix(namespace))?;
            NAMESPACES.iter().find_map(|namespace| known(&format!("{namespace}{name}")))
        };
        known(op_type).or_else(elsewhere).map_or(Self::NONE, |creator| creator.properties)
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
    use crate::op::{Category, Elements, FieldDefault, FromOperator, Written};
    use ixion_pnnx::Expr;

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
    fn properties_are_those_of_the_type() {
        let elements = |op_type: &str| Properties::of(op_type).elements;
        assert_eq!(["Tensor.view", "torch.unflatten"].map(elements), [Elements::Reshaped; 2]);
        assert_eq!(["aten::permute", "Tensor.detach"].map(elements), [Elements::Permuted, Elements::Copied]);
        assert_eq!(["aten::max", "aten::maximum"].map(elements), [Elements::Moved, Elements::Computed]);
        assert_eq!(elements("acme/Tensor.view/1"), Elements::Computed);
    }

    #[test]
    fn the_category_is_that_of_the_operator_or_its_table_or_its_family() {
        let category = |op_type: &str| Properties::of(op_type).category;
        assert_eq!(category("nn.Embedding"), Category::Weighted);
        assert_eq!(category("torch.where"), Category::Elementwise);
        assert_eq!(["torch.gather", "torch.index_select"].map(category), [Category::Shape; 2]);
        assert_eq!(["aten::add", "torch.eq"].map(category), [Category::Elementwise; 2]);
        assert_eq!(
            ["Conv", "MaxPool", "Unique"].map(category),
            [Category::Weighted, Category::Pooling, Category::Other]
        );
    }

    #[test]
    fn defaults_can_be_written() {
        let registry = super::registry();
        let fields = registry.iter().flat_map(|(op_type, creator)| {
            creator.fields.iter().map(move |field| (op_type, field.key, field.default))
        });
        let unwritable: Vec<String> = fields
            .filter(|(_, _, default)| {
                matches!(default, Some(FieldDefault::Value(value)) if value() == Written::Unwritable)
            })
            .map(|(op_type, key, _)| format!("{op_type}: {key}"))
            .collect();
        assert!(unwritable.is_empty(), "`ixion operators` would show None:\n{}", unwritable.join("\n"));
    }

    #[test]
    fn forms_are_expressions_over_fields() {
        for (op_type, creator) in super::registry().iter() {
            let is_field = |key: &str| creator.fields.iter().any(|field| field.key == key);
            for (expr, when) in creator.properties.forms {
                Expr::parse(expr).unwrap().walk(&mut |node| match node {
                    Expr::Word(key) => assert!(is_field(key), "{op_type}: `{key}`"),
                    node => assert!(matches!(node, Expr::Call { .. } | Expr::Input(0)), "{op_type}: {node}"),
                });
                assert!(when.iter().all(|(key, _)| is_field(key)), "{op_type}: {when:?}");
            }
        }
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
