//! Sets of formats in which a tensor is available, and the conversions between these formats.

use crate::graph::OperandIndex;
use crate::op::TensorFormat;

// ANCHOR: sets
/// The maximum number of formats of a tensor for which all sets are tried.
pub const FEW: usize = 4;

/// The sets of formats in which a tensor may be available: all that are not empty, in the order of binary numbers whose
/// lowest bit is the first format. Few tensors are needed in more than three formats at a time; if there are more than
/// [`FEW`] formats, only sets of one and of two are tried.
pub fn sets(formats: &[TensorFormat]) -> Vec<Vec<TensorFormat>> {
    // ANCHOR: sets_todo -- task 2: each format doubles the sets: without it, and with it; the empty set is removed in the end
    let most = if formats.len() <= FEW { formats.len() } else { 2 };
    let mut sets: Vec<Vec<TensorFormat>> = vec![Vec::new()];
    for &format in formats {
        let smaller = sets.iter().filter(|set| set.len() < most);
        let with: Vec<Vec<TensorFormat>> = smaller.map(|set| [&set[..], &[format]].concat()).collect();
        sets.extend(with);
    }
    sets.retain(|set| !set.is_empty());
    sets
    // ANCHOR_END: sets_todo
}

/// The price of a tensor in all formats of a set, if it is produced in `made`: it is converted once from `made` to each of the
/// others, for any number of readers. Infinite for a set without `made`. `price` is the price of one conversion, from and to.
pub fn price_of_set(
    set: &[TensorFormat],
    made: &TensorFormat,
    price: &dyn Fn(&TensorFormat, &TensorFormat) -> f64,
) -> f64 {
    // ANCHOR: price_of_set_todo -- task 2: infinite without `made`, else the sum of one conversion for each other format
    if !set.contains(made) {
        return f64::INFINITY;
    }
    set.iter().filter(|format| *format != made).map(|to| price(made, to)).sum()
    // ANCHOR_END: price_of_set_todo
}
// ANCHOR_END: sets

/// The conversion of an operand to another format.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// The operand.
    pub operand: OperandIndex,
    /// The format in which it is produced.
    pub from: TensorFormat,
    /// The format to which it is converted.
    pub to: TensorFormat,
    /// The readers of the result: the positions of operators, and of the operand among their inputs.
    pub readers: Vec<(usize, usize)>,
    /// Whether the result is an output of the model.
    pub is_output: bool,
}

// ANCHOR: want
/// Records that a reader needs an operand, which is produced in `from`, in the format `to`. The reader is `None` if the model
/// returns the operand: then the conversion's `is_output` is set.
///
/// An operand that already has the right format needs no conversion, and all readers that need the same format share one.
pub fn want(
    found: &mut Vec<Conversion>,
    operand: OperandIndex,
    (from, to): (TensorFormat, TensorFormat),
    reader: Option<(usize, usize)>,
) {
    // ANCHOR: want_todo -- task 2: nothing for equal formats; else find the conversion or add it, and add the reader to it
    if from == to {
        return;
    }
    let known = found.iter().position(|known| known.operand == operand && known.to == to);
    let index = known.unwrap_or_else(|| {
        found.push(Conversion { operand, from, to, readers: Vec::new(), is_output: false });
        found.len() - 1
    });
    match reader {
        Some(reader) => found[index].readers.push(reader),
        None => found[index].is_output = true,
    }
    // ANCHOR_END: want_todo
}
// ANCHOR_END: want
