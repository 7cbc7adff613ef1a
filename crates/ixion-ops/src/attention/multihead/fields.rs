//! Field types of multi-head attention.

use crate::op::{FieldValue, LayerError, NO_KEY, OperatorReader, Result, RuntimeAttribute, Written};
use crate::support::float;
use ixion_kernels::Float;
use ixion_pnnx::Dim;
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
    /// A mask that may be either of the two.
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
        let batch_first = reader.param("batch_first").is_some_and(|first| first.as_bool().unwrap_or(false));
        let lengths =
            ["embed_dim", "kdim", "vdim"].map(|key| reader.param(key).and_then(|len| len.as_i64().ok()));
        let reader: &OperatorReader<'_> = reader;
        let recorded = |query| Recorded { reader, query, batch_first };
        if mask == Some(0) && reader.num_inputs() == 1 {
            return Err(lost_mask());
        }
        if let Some(sources) = Self::after_stored_masks(recorded(0), lengths) {
            return Ok(Some(sources));
        }
        if bools > 0 {
            let sources = Self::after_masks(bools, reader.num_inputs() - bools);
            return Ok(sources.map(|sources| sources.as_recorded(&recorded(sources.query))));
        }
        let (key, value) = (key.unwrap_or(0), value.unwrap_or(0));
        let named = Self { query: 0, key, value, mask, padding, unsure: None };
        let recorded = recorded(0);
        Ok(Some(named.with_masks_of_floats(&recorded).as_recorded(&recorded)))
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
    /// PNNX names the last mask of floats `attn_mask`, also if it is the key padding mask. An attention mask before it then has
    /// no name, and only its recorded number of axes tells it from keys, which have as many as queries.
    fn with_masks_of_floats(self, recorded: &Recorded<'_, '_>) -> Self {
        let Some(last) = self.mask else { return self };
        // After queries, keys and values, an attention mask without a name was taken for the key padding mask.
        let before = self.padding.or(last.checked_sub(1)).filter(|&before| before > 0 && before + 1 == last);
        let are_masks = |before: &usize| {
            let is_reversed =
                recorded.hides_keys(*before) == Some(true) || recorded.hides_keys(last) == Some(false);
            let are_matrices = [*before, last].iter().all(|&mask| recorded.rank(mask) == Some(2));
            recorded.rank(0) == Some(3) && are_matrices && !is_reversed
        };
        match (before.filter(are_masks), self.padding) {
            (Some(before), _) => {
                let (key, value) = if before == 1 { (0, 0) } else { (1, before - 1) };
                Self { key, value, mask: Some(before), padding: Some(last), ..self }
            }
            (None, Some(_)) => self,
            (None, None) => Self { mask: None, unsure: Some(last), ..self },
        }
    }

    /// The order of the inputs if the masks come first, which is where PNNX puts constant float masks. `None` if there is no such
    /// mask, or if two masks cannot be told apart. The last dimension of queries, keys and values is one of `lengths`.
    fn after_stored_masks(recorded: Recorded<'_, '_>, lengths: [Option<i64>; 3]) -> Option<Self> {
        let (masks, others): (Vec<usize>, Vec<usize>) =
            (0..recorded.reader.num_inputs()).partition(|&position| recorded.is_mask(position, lengths));
        if masks.first() != Some(&0) || masks.iter().all(|&mask| recorded.is_bool(mask)) {
            return None;
        }
        let (query, key, value) = match *others.as_slice() {
            [query] => (query, query, query),
            [query, key] => (query, key, key),
            [query, key, value] => (query, key, value),
            _ => return None,
        };
        let recorded = Recorded { query, ..recorded };
        let sources = Self { query, key, value, mask: None, padding: None, unsure: None };
        match *masks.as_slice() {
            [mask] => Some(Self { unsure: Some(mask), ..sources }.as_recorded(&recorded)),
            [first, second] => {
                let by_second = || recorded.hides_keys(second).map(|hides_keys| !hides_keys);
                let in_order = || (!recorded.is_bool(first) && !recorded.is_bool(second)).then_some(false);
                let is_first_padding = recorded.hides_keys(first).or_else(by_second).or_else(in_order)?;
                let (padding, mask) = if is_first_padding { (first, second) } else { (second, first) };
                Some(Self { mask: Some(mask), padding: Some(padding), ..sources })
            }
            _ => None,
        }
    }

    /// Decides which mask an unsure one is, if the recorded shapes show that it can only be one of the two.
    fn as_recorded(self, recorded: &Recorded<'_, '_>) -> Self {
        match self.unsure.and_then(|unsure| recorded.hides_keys(unsure)) {
            Some(true) => Self { padding: self.unsure, unsure: None, ..self },
            Some(false) => Self { mask: self.unsure, unsure: None, ..self },
            None => self,
        }
    }

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

/// The shapes that the file records.
#[derive(Clone, Copy)]
struct Recorded<'r, 'a> {
    reader: &'r OperatorReader<'a>,
    query: usize,
    batch_first: bool,
}

/// The error for a mask that the file lacks: its name is that of the query then.
fn lost_mask() -> LayerError {
    let reason = "PNNX drops masks that are constants; see \"Constant masks of attention\" on the book's page \
                  \"What PNNX gets wrong, and what to do\"";
    LayerError::invalid("attn_mask", "the query", reason)
}

impl Recorded<'_, '_> {
    fn is_bool(&self, position: usize) -> bool {
        self.reader.input_dtype(position) == Some(DType::Bool)
    }

    /// Whether an input is a mask: it consists of bools, has another number of axes than the output, or ends in none of these
    /// lengths.
    fn is_mask(&self, position: usize, lengths: [Option<i64>; 3]) -> bool {
        let shapes = self.reader.output_shape(0).zip(self.reader.input_shape(position));
        let is_other = |len: u64| !lengths.iter().flatten().any(|&known| u64::try_from(known) == Ok(len));
        let is_of_other_shape = shapes.is_some_and(|(output, input)| {
            input.len() != output.len() || matches!(input.last(), Some(Dim::Fixed(len)) if is_other(*len))
        });
        self.is_bool(position) || is_of_other_shape
    }

    fn rank(&self, position: usize) -> Option<usize> {
        self.reader.input_shape(position).map(<[Dim]>::len)
    }

    /// Whether a mask is N×S, and so hides keys, or L×S. `None` if it may be either.
    fn hides_keys(&self, mask: usize) -> Option<bool> {
        let (batch, rows) = match self.reader.input_shape(self.query)? {
            [batch, rows, _] if self.batch_first => (batch, rows),
            [rows, batch, _] => (batch, rows),
            _ => return None,
        };
        let [first, _] = self.reader.input_shape(mask)? else { return None };
        let are_fixed = [batch, rows, first].iter().all(|dim| matches!(dim, Dim::Fixed(_)));
        let (is_batch, is_row) = (first == batch, first == rows);
        (are_fixed && is_batch != is_row).then_some(is_batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::RuntimeParameter;
    use std::collections::BTreeMap;

    /// The sources of an operator whose last input is named `attn_mask`, with inputs of these recorded shapes; 0 is unknown.
    fn sources(dtype: DType, shapes: &[&[u64]]) -> Sources {
        read(&vec![dtype; shapes.len()], shapes, &[]).unwrap()
    }

    /// As [`sources`], with the recorded shape of the output, which is unknown if it has no axes.
    fn read(dtypes: &[DType], shapes: &[&[u64]], output: &[u64]) -> Result<Sources> {
        let params = [("batch_first", "True"), ("embed_dim", "8")];
        let params = params.map(|(key, value)| (key.to_owned(), RuntimeParameter::parse(value)));
        let params = BTreeMap::from(params);
        let mut names = vec![None; shapes.len()];
        if let Some(last) = names.last_mut() {
            *last = Some("attn_mask".to_owned());
        }
        let dim = |len: &u64| if *len == 0 { Dim::Unknown } else { Dim::Fixed(*len) };
        let dims = |shape: &[u64]| shape.iter().map(dim).collect::<Vec<Dim>>();
        let shapes: Vec<Vec<Dim>> = shapes.iter().map(|shape| dims(shape)).collect();
        let recorded = shapes.iter().map(|shape| Some(shape.as_slice())).collect();
        let output = dims(output);
        let outputs = if output.is_empty() { Vec::new() } else { vec![Some(output.as_slice())] };
        let attrs = BTreeMap::new();
        let mut reader = OperatorReader::new(&params, &attrs, &names, 1)
            .with_shapes(recorded, outputs)
            .with_dtypes(dtypes.iter().copied().map(Some).collect(), Vec::new());
        Ok(Sources::read(&mut reader, "query")?.unwrap())
    }

    #[test]
    fn recorded_shapes_tell_where_stored_masks_are() {
        let (x, memory): (&[u64], &[u64]) = (&[2, 5, 8], &[2, 6, 8]);
        let found = |dtypes: &[DType], shapes: &[&[u64]]| {
            let found = read(dtypes, shapes, x).unwrap();
            ([found.query, found.key, found.value], [found.mask, found.padding, found.unsure])
        };
        let (scores, padding): (&[u64], &[u64]) = (&[5, 5], &[2, 5]);
        let float = DType::F32;
        assert_eq!(found(&[float; 2], &[scores, x]), ([1, 1, 1], [Some(0), None, None]));
        assert_eq!(found(&[float; 2], &[padding, x]), ([1, 1, 1], [None, Some(0), None]));
        assert_eq!(found(&[float; 2], &[&[4, 5, 5], x]), ([1, 1, 1], [None, None, Some(0)]));
        assert_eq!(found(&[float; 3], &[&[5, 6], x, memory]), ([1, 2, 2], [Some(0), None, None]));
        assert_eq!(found(&[float; 4], &[&[5, 6], x, memory, memory]), ([1, 2, 3], [Some(0), None, None]));
        assert_eq!(found(&[float; 3], &[scores, x, padding]), ([1, 1, 1], [Some(0), Some(2), None]));
        assert_eq!(found(&[float; 3], &[padding, x, scores]), ([1, 1, 1], [Some(2), Some(0), None]));
        let dtypes = [float, DType::Bool, float];
        assert_eq!(found(&dtypes, &[scores, padding, x]), ([2, 2, 2], [Some(0), Some(1), None]));
        let square: &[u64] = &[5, 5, 8];
        let stored = read(&[float; 3], &[scores, &[5, 5], square], square).unwrap();
        assert_eq!((stored.query, stored.mask, stored.padding), (2, Some(0), Some(1)));
    }

    #[test]
    fn a_mask_that_the_file_lacks_is_an_error() {
        let x: &[u64] = &[2, 5, 8];
        let error = read(&[DType::F32], &[x], x).unwrap_err().to_string();
        assert!(error.contains("see \"Constant masks of attention\" on the book's page"), "{error}");
    }

    #[test]
    fn recorded_shapes_tell_masks_of_floats_apart() {
        let masks = |shapes: &[&[u64]]| {
            let found = sources(DType::F32, shapes);
            ([found.query, found.key, found.value], [found.mask, found.padding, found.unsure])
        };
        let (padding, scores): (&[u64], &[u64]) = (&[2, 5], &[5, 5]);
        let x: &[u64] = &[2, 5, 8];
        assert_eq!(masks(&[x, padding]), ([0, 0, 0], [None, Some(1), None]));
        assert_eq!(masks(&[x, scores]), ([0, 0, 0], [Some(1), None, None]));
        assert_eq!(masks(&[x, x, padding]), ([0, 1, 1], [None, Some(2), None]));
        assert_eq!(masks(&[x, scores, padding]), ([0, 0, 0], [Some(1), Some(2), None]));
        assert_eq!(masks(&[x, x, scores, padding]), ([0, 1, 1], [Some(2), Some(3), None]));
        assert_eq!(masks(&[x, x, x, scores, padding]), ([0, 1, 2], [Some(3), Some(4), None]));
        assert_eq!(masks(&[x, &[4, 5, 5]]), ([0, 0, 0], [None, None, Some(1)]));
        let (square, open): (&[u64], &[u64]) = (&[5, 5, 8], &[0, 0, 8]);
        assert_eq!(masks(&[square, scores]).1, [None, None, Some(1)]);
        assert_eq!(masks(&[open, &[0, 0]]).1, [None, None, Some(1)]);
    }
}
