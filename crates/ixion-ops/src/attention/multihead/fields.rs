//! Field types of multi-head attention.

use crate::op::{FieldValue, NO_KEY, OperatorReader, Result, RuntimeAttribute, Written};
use crate::support::float;
use ixion_kernels::Float;
use ixion_tensor::DType;
use ndarray::Array2;
use std::borrow::Cow;

/// An optional weight of the file.
#[derive(Debug, Clone)]
pub struct FileWeight(pub Option<RuntimeAttribute>);

impl FieldValue for FileWeight {
    const KIND: &'static str = "a weight of the file";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self(reader.attr(key))))
    }

    fn written(&self) -> Written {
        if self.0.is_none() { Written::Nothing } else { Written::Unwritable }
    }
}

impl FileWeight {
    pub(super) fn read<T: Float>(&self) -> Result<Option<Cow<'_, [T]>>> {
        self.0.as_ref().map(|attribute| float::read::<T>(&attribute.decode()?.view())).transpose()
    }

    /// The weight as a matrix with `columns` columns.
    pub(super) fn matrix<T: Float>(&self, columns: usize) -> Result<Option<Array2<T>>> {
        let Some(values) = self.read::<T>()? else { return Ok(None) };
        let shape = (values.len() / columns.max(1), columns);
        Ok(Some(Array2::from_shape_vec(shape, values.into_owned())?))
    }
}

/// The outputs that the file lists. Not a key: no file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Results {
    pub(crate) count: usize,
    /// Whether the second output is the weights of each head instead of their mean. Only the recorded shapes tell them apart.
    pub of_each_head: bool,
}

impl FieldValue for Results {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let axes = |output: usize| reader.output_shape(output).map(<[_]>::len);
        let of_each_head = axes(0).zip(axes(1)).is_some_and(|(output, weights)| weights > output);
        Ok(Some(Self { count: reader.num_outputs(), of_each_head }))
    }
}

/// Input positions. A single input is queries, keys and values; of two, the second is keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// The queries, L×N×E, or N×L×E with `batch_first`.
    pub query: usize,
    /// The keys, S×N×`kdim`; equal to `query` if there is only one such input.
    pub key: usize,
    /// The values, S×N×`vdim`; equal to `key` if the operator has no input of its own for them.
    pub value: usize,
    /// The attention mask, L×S or (N·heads)×L×S; `None` if it is absent or `unsure`.
    pub mask: Option<usize>,
    /// The key padding mask, N×S (or S without N); `None` if it is absent or `unsure`.
    pub padding: Option<usize>,
    /// A bool mask that may be either of the two.
    pub unsure: Option<usize>,
}

impl FieldValue for Sources {
    const KIND: &'static str =
        "inputs, of which `$key`, `$value`, `$attn_mask` and `$key_padding_mask` may be named";

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        // Inputs without names are assigned in this order.
        let key = reader.input("kv").or_else(|| reader.input("key"));
        let value = reader.input("value").or(key);
        let mask = reader.input("attn_mask");
        let padding = reader.input("key_padding_mask");
        let is_bool = |position: &usize| reader.input_dtype(*position) == Some(DType::Bool);
        let bools = (0..reader.num_inputs()).take_while(is_bool).count();
        if bools > 0 {
            return Ok(Self::after_masks(bools, reader.num_inputs() - bools));
        }
        let (key, value) = (key.unwrap_or(0), value.unwrap_or(0));
        Ok(Some(Self { query: 0, key, value, mask, padding, unsure: None }))
    }

    fn num_inputs(&self) -> usize {
        let masks = [self.mask, self.padding, self.unsure].into_iter().flatten();
        let mut positions: Vec<usize> = masks.chain([self.query, self.key, self.value]).collect();
        positions.sort_unstable();
        positions.dedup();
        positions.len()
    }
}

impl Sources {
    /// PNNX writes bool masks before the query, and then its input names are assigned to the wrong inputs. Of two masks, the
    /// first one is the key padding mask; a float mask comes last.
    fn after_masks(bools: usize, others: usize) -> Option<Self> {
        let place = |index: usize| bools + index.min(others.saturating_sub(1));
        let (key, value) = if others == 2 { (place(1), place(1)) } else { (place(1), place(2)) };
        let (mask, padding, unsure) = match (bools, others) {
            (1, 4) => (Some(place(3)), Some(0), None),
            (1, 1..=3) => (None, None, Some(0)),
            (2, 1..=3) => (Some(1), Some(0), None),
            _ => return None,
        };
        Some(Self { query: place(0), key, value, mask, padding, unsure })
    }
}
