//! What a contradiction is, and how it is told.

use crate::graph::OperatorPlace;
use crate::op::{Category, Elements, Properties, TensorMeta};
use crate::pnnx;
use crate::tensor::{DType, Dim};
use std::fmt;

/// An operator that cannot be what the exported model had in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Contradiction {
    /// The operator, with its line in the file.
    pub place: OperatorPlace,
    /// The reason.
    pub evidence: Evidence,
}

/// The reason why an operator cannot be what the exported model had in its place.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Evidence {
    /// An output of another element type or shape than the file records.
    Output {
        /// The position among the operator's outputs.
        position: usize,
        /// The name of its operand.
        operand: String,
        /// The element type in the file.
        dtype: DType,
        /// The shape in the file, which is that of the sample.
        shape: Vec<pnnx::Dim>,
        /// What the operator returns for inputs of the recorded shapes.
        computed: TensorMeta,
    },
    /// An operand that an expression reads by two names, such as a tensor minus itself. PNNX writes that after it has dropped what
    /// made them differ.
    Itself {
        /// The name of the operand.
        operand: String,
    },
    /// A sum with a stored product of a recurrent cell and its constant state. The cell adds the product with its input in place,
    /// so PNNX stores the sum for its own sample.
    Product {
        /// The name of the operand.
        operand: String,
    },
    /// A write into a constant that contains what was written for PNNX's own sample. The model writes in place, and PNNX stores
    /// the constant as it is afterwards.
    Written {
        /// The name of the operand.
        operand: String,
    },
}

/// The page of the book that lists what PNNX loses.
const PAGE: &str = "What PNNX gets wrong, and what to do";

impl Contradiction {
    /// The section of the book's page "What PNNX gets wrong, and what to do" that explains the most likely loss, by its title.
    pub fn section(&self) -> &'static str {
        let (dtype, shape, computed) = match &self.evidence {
            Evidence::Output { dtype, shape, computed, .. } => (dtype, shape, computed),
            Evidence::Itself { .. } => return "Slices of axes of unknown size",
            Evidence::Product { .. } | Evidence::Written { .. } => return "Constants that change in place",
        };
        let op_type = self.place.op_type.as_str();
        let Properties { elements, category, .. } = Properties::of(op_type);
        let is_elementwise = matches!(category, Category::Elementwise | Category::Activation);
        match elements {
            _ if *dtype != computed.dtype() => "Element types that differ",
            _ if op_type == "Tensor.index" => "Constant indices with several axes",
            Elements::Computed if computed.rank() == 0 => "Empty lists of axes",
            Elements::Computed if is_elementwise && can_become(computed, shape) => "Copies that broadcast",
            _ if shape.len() != computed.rank() => "Shapes that differ",
            Elements::Sliced | Elements::Selected => "Slices of axes of unknown size",
            Elements::Reshaped | Elements::Expanded => "Sizes that are frozen",
            _ => "Shapes that differ",
        }
    }

    /// The contradiction as a warning, with what to do.
    pub fn message(&self) -> String {
        let section = self.section();
        format!(
            "{self}: PNNX has lost a part of the model, so results may be wrong; see \"{section}\" on the book's page \"{PAGE}\""
        )
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.place)?;
        match &self.evidence {
            Evidence::Output { position, dtype, shape, computed, .. } => {
                let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
                let which = if *position == 0 { String::new() } else { format!(" as output {position}") };
                let recorded = dims.join("×");
                write!(f, "returns {computed}{which}, but the file records {recorded} {dtype}")
            }
            Evidence::Itself { operand } => {
                write!(f, "reads `{operand}` by two names, as if it were two tensors")
            }
            Evidence::Product { operand } => {
                write!(f, "adds `{operand}`, a product of a recurrent cell that contains PNNX's sample")
            }
            Evidence::Written { operand } => {
                write!(f, "writes into the constant `{operand}`, in which PNNX's sample is written already")
            }
        }
    }
}

/// Whether a tensor can be broadcast to a recorded shape, of which unknown sizes say nothing.
fn can_become(tensor: &TensorMeta, shape: &[pnnx::Dim]) -> bool {
    let fits = |(dim, recorded): (&Dim, &pnnx::Dim)| match (dim.fixed(), recorded) {
        (Some(len), pnnx::Dim::Fixed(recorded)) => len == 1 || u64::try_from(len) == Ok(*recorded),
        _ => true,
    };
    tensor.rank() <= shape.len() && tensor.dims().iter().rev().zip(shape.iter().rev()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_book_has_each_section() {
        let book = include_str!("../../book/src/pnnx_losses.md");
        assert!(book.starts_with(&format!("# {PAGE}\n")));
        let output = |computed: &[i64], dtype, shape: &[u64]| Evidence::Output {
            position: 0,
            operand: "y".to_owned(),
            dtype,
            shape: shape.iter().copied().map(pnnx::Dim::Fixed).collect(),
            computed: TensorMeta::new(DType::F32, computed.iter().copied()),
        };
        let mut sections = BTreeSet::new();
        for op_type in ["Tensor.index", "Tensor.slice", "Tensor.reshape", "nn.Conv2d", "pnnx.Expression"] {
            let (op_type, name) = (op_type.to_owned(), "x".to_owned());
            let place = OperatorPlace { op_type, name, file: None, line: None };
            let outputs = [
                output(&[2, 3], DType::I64, &[2, 3]),
                output(&[2, 3], DType::F32, &[6]),
                output(&[2, 3], DType::F32, &[2, 4]),
                output(&[2, 3], DType::F32, &[5, 2, 3]),
                output(&[], DType::F32, &[2, 3]),
            ];
            let operand = || "y".to_owned();
            let others = [
                Evidence::Itself { operand: operand() },
                Evidence::Product { operand: operand() },
                Evidence::Written { operand: operand() },
            ];
            for evidence in outputs.into_iter().chain(others) {
                sections.insert(Contradiction { place: place.clone(), evidence }.section());
            }
        }
        assert_eq!(sections.len(), 8, "{sections:?}");
        for section in sections {
            assert!(book.contains(&format!("\n## {section}\n")), "{section}");
        }
    }
}
