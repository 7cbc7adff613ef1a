//! Formats of a tensor that are there together, and the conversions that bring it from one into others.

use crate::graph::OperandIndex;
use crate::op::TensorFormat;

// ANCHOR: sets
/// The most formats of a tensor of which all sets are tried.
pub const FEW: usize = 4;

/// The sets of formats in which a tensor may be there: every one that is not empty, in the order of binary numbers, where the first
/// format is the lowest bit. Few tensors are wanted in more than three formats at a time; where there are more than [`FEW`]
/// formats, sets of one and of two are all that is tried.
pub fn sets(formats: &[TensorFormat]) -> Vec<Vec<TensorFormat>> {
    // ANCHOR: sets_todo -- task 2: each format doubles what there is: without it, and with it; the empty set goes in the end
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

/// What it costs to have a tensor in all formats of a set, if it is made in `made`: each of the others is brought from that one,
/// once, for as many readers as there are. A set without `made` cannot be: ∞. `price` is that of one conversion, from and to.
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

/// What is made of an operand, and for whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    /// The operand.
    pub operand: OperandIndex,
    /// The format in which it is made.
    pub from: TensorFormat,
    /// The format into which it is brought.
    pub to: TensorFormat,
    /// Who reads the result: positions of operators, and of the operand among their inputs.
    pub readers: Vec<(usize, usize)>,
    /// Whether the result is an output of the model.
    pub is_output: bool,
}

// ANCHOR: want
/// Notes that a reader wants an operand, which is made in `from`, in the format `to`. The reader is `None` where the
/// model returns it: then the conversion's `is_output` is set.
///
/// What is there already in the right format needs no conversion, and a conversion that another reader asked for serves this one as
/// well.
pub fn want(
    found: &mut Vec<Conversion>,
    operand: OperandIndex,
    (from, to): (TensorFormat, TensorFormat),
    reader: Option<(usize, usize)>,
) {
    // ANCHOR: want_todo -- task 2: nothing for equal formats; else find the conversion or add it, and put the reader down
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
