//! What is known about an operator type, whichever layer runs it: for passes, quantised tensors and reports.
//!
//! The table of an operator's file states the properties of the operator, and that of its family the category. A word of the
//! module `table` begins, and methods of [`Properties`] follow: `computes(&[…]).when_quantized(…)`. An operator without any has
//! those of [`Properties::NONE`].

/// The properties of an operator type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Properties {
    /// The category.
    pub category: Category,
    /// What it does with the elements of its first input.
    pub elements: Elements,
    /// What it does if its first input is quantised, unless `elements` says it.
    pub quantized: Quantized,
    /// What it computes for each element, if that is an expression. The first form that holds counts.
    pub forms: &'static [Form],
    /// How its weights are laid out, if they are those of a product.
    pub product: Option<Product>,
    /// Whether its results are bools, for inputs of all types. In PyTorch, it then exists in place as well, with results in the
    /// type of the tensor that they overwrite.
    pub decides: bool,
    /// What it does with the elements of its first input at the places that its other inputs state. In PyTorch, it then exists in
    /// place as well.
    pub writes: Option<Writes>,
}

/// An expression over an operator's inputs, in which keys stand for its parameters, and the parameters for which it holds.
pub type Form = (&'static str, &'static [(&'static str, &'static str)]);

/// The category of an operator in drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// A non-linear function.
    Activation,
    /// Arithmetic on elements, and reductions.
    Elementwise,
    /// Normalisation of channels or last axes.
    Normalization,
    /// Pooling and its inverse.
    Pooling,
    /// A change of shape, not of values.
    Shape,
    /// A product, a recurrent layer or an embedding, with large weights as a rule.
    Weighted,
    /// Anything else. The default of tables that state no category.
    Other,
}

/// What an operator does with the elements of its first input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// Computes others.
    Computed,
    /// Returns all of them as they are.
    Copied,
    /// Returns all of them in row-major order, in another shape.
    Reshaped,
    /// As [`Elements::Reshaped`], with a new axis of length 1 at `dim`.
    Unsqueezed,
    /// Returns all of them with the axes in another order: `dims`, or `dim0` and `dim1` swapped, or those of a matrix swapped.
    Permuted,
    /// Returns a range of each axis, with a step, or one index of it.
    Sliced,
    /// Repeats them along axes of length 1.
    Expanded,
    /// Returns all of them in another element type.
    Cast,
    /// Moves them along the axes `dim` or `dims` alone, or takes some of them.
    Along,
    /// Takes one index of the axis `dim`.
    Selected,
    /// Moves them, takes some of them or repeats them, in its first output.
    Moved,
    /// Divides them among its outputs along the axis `dim`.
    Divided,
    /// As [`Elements::Divided`], with an output without that axis for each index.
    Unbound,
    /// Joins them with those of the other inputs along an axis.
    Joined,
    /// Joins them with those of the other inputs along a new axis.
    Stacked,
    /// Surrounds them by others; `pad` or `padding` states how many.
    Padded,
}

/// What an operator does in PyTorch if its first input is quantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantized {
    /// PyTorch does not support it.
    Unsupported,
    /// Its first output consists of quantised values of the input.
    Moves,
    /// Its input is floats, which it quantises per tensor.
    Quantizes,
    /// Its input is floats, which it quantises per channel.
    QuantizesChannels,
    /// Converts it to floats.
    Dequantizes,
    /// Computes with quantised values; its parameters are the quantisation of the output.
    Computes,
    /// Concatenates several tensors in the quantisation that its parameters state.
    Joins,
    /// Reads the quantised values as plain integers, or the shape alone.
    ReadsIntegers,
    /// Is computed in floats, and the result is quantised.
    InFloats(Scale),
    /// Depends on the parameter `mode`: the first mode is the default, the last entry is for modes that are not listed.
    ByMode(&'static [(&'static str, Quantized)], &'static Quantized),
}

/// The quantisation of a result that is computed in floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// That of the input.
    OfInput,
    /// That of the input. The scale only passes through as a factor, so the operator may be computed without it.
    Unscaled,
    /// As [`Scale::Unscaled`], but rounding half to even applies to the quantised values, not to their distances from the zero
    /// point.
    OfMean,
    /// Fixed, for results from 0 to 1.
    Fraction,
    /// Fixed, for results from −1 to 1.
    Signed,
    /// None: the result is not quantised.
    Plain,
}

/// What an operator does with the elements of its first input at certain places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Replaces them by others; if `accumulate` or `reduce` is set, joins them with others.
    Replaces,
    /// Joins them with others, such as to their sum.
    Combines,
}

/// The layout of the weight of a product with I input and O output channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// O×I.
    Dense,
    /// O×(I/groups)×…
    Convolution,
    /// I×(O/groups)×…
    Transposed,
}

impl Properties {
    /// The properties of an operator about which nothing is known.
    pub const NONE: Self = Self {
        category: Category::Other,
        elements: Elements::Computed,
        quantized: Quantized::Unsupported,
        forms: &[],
        product: None,
        decides: false,
        writes: None,
    };

    /// The same properties of an operator that PyTorch supports for quantised tensors.
    pub(crate) const fn when_quantized(self, quantized: Quantized) -> Self {
        Self { quantized, ..self }
    }
}

/// The words with which the table of a file states properties.
pub(crate) mod table {
    use super::{Category, Elements, Form, Product, Properties, Quantized, Writes};
    pub(crate) use super::{Category::*, Elements::*, Product::*, Quantized::*, Scale::*, Writes::*};

    /// An operator of another category than the rest of its file.
    pub(crate) const fn category(category: Category) -> Properties {
        Properties { category, ..Properties::NONE }
    }

    /// An operator that moves elements.
    pub(crate) const fn moves(elements: Elements) -> Properties {
        Properties { elements, ..Properties::NONE }
    }

    /// An operator that computes an expression for each element.
    pub(crate) const fn computes(forms: &'static [Form]) -> Properties {
        Properties { forms, ..Properties::NONE }
    }

    /// A product with a weight.
    pub(crate) const fn multiplies(product: Product) -> Properties {
        Properties { product: Some(product), ..Properties::NONE }
    }

    /// An operator that returns bools.
    pub(crate) const fn decides() -> Properties {
        Properties { decides: true, ..Properties::NONE }
    }

    /// An operator that writes into its first input.
    pub(crate) const fn writes(writes: Writes) -> Properties {
        Properties { writes: Some(writes), ..Properties::NONE }
    }

    /// An operator that PyTorch supports for quantised tensors.
    pub(crate) const fn when_quantized(quantized: Quantized) -> Properties {
        Properties::NONE.when_quantized(quantized)
    }
}
