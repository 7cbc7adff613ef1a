//! Following the axis of per-channel scales through operators that move elements.

use crate::op::{Elements, Properties};
use crate::pnnx::{Dim, Operator};

/// An operator that moves elements, with the shapes that the file records before and after it.
pub(super) struct Move<'a> {
    pub(super) operator: &'a Operator,
    pub(super) from: Option<&'a [Dim]>,
    pub(super) to: Option<&'a [Dim]>,
}

/// The value that PNNX writes in `selects` for an axis that is sliced instead of selected from.
const NOT_SELECTED: i64 = i32::MAX as i64;

/// The smallest end of a slice that PNNX writes for the end of the axis.
const TO_THE_END: i64 = i32::MAX as i64;

/// The maximum number of axes of a tensor.
const MAX_AXES: i64 = 64;

type Found<T> = Result<T, String>;

impl Move<'_> {
    /// The output axis that corresponds to an input axis.
    ///
    /// # Errors
    /// Returns the reason why there is no such axis, or why it is unknown.
    pub(super) fn axis(&self, axis: i64) -> Found<i64> {
        match Properties::of(self.operator.op_type()).elements {
            Elements::Copied => Ok(axis),
            Elements::Permuted if self.has("dims") => self.permuted(axis, &self.list("dims")?),
            Elements::Permuted if self.has("dim0") => {
                let [a, b] = [self.resolved(self.number("dim0")?)?, self.resolved(self.number("dim1")?)?];
                Ok(swapped(self.resolved(axis)?, a, b))
            }
            // The transpose of a matrix; a vector stays.
            Elements::Permuted if self.operator.inputs().len() == 1 => match self.from {
                Some(dims) if dims.len() < 2 => Ok(axis),
                _ => Ok(swapped(self.resolved(axis)?, 0, 1)),
            },
            Elements::Along if self.has("dims") => self.beside(axis, &self.list("dims")?),
            Elements::Along => self.beside(axis, &[self.number("dim")?]),
            Elements::Divided => self.beside(axis, &[self.number_or("dim", 0)?]),
            Elements::Selected => self.without(axis, &[self.number("dim")?]),
            Elements::Unbound => self.without(axis, &[self.number_or("dim", 0)?]),
            Elements::Sliced => self.sliced(axis),
            Elements::Unsqueezed => {
                let (axis, dim) = (self.resolved(axis)?, self.number("dim")?);
                let dim = if dim < 0 { dim + self.rank()? + 1 } else { dim };
                Ok(if dim <= axis { axis + 1 } else { axis })
            }
            Elements::Reshaped => self.reshaped(axis),
            _ => Err("its input has per-channel scales, which it cannot pass on".into()),
        }
    }

    /// Returns true if the operator has a parameter or an input of this name.
    fn has(&self, key: &str) -> bool {
        self.operator.param(key).is_some() || self.operator.named_input(key).is_some()
    }

    fn number(&self, key: &str) -> Found<i64> {
        let found = self.operator.param(key).and_then(|parameter| parameter.as_i64().ok());
        found.ok_or_else(|| {
            format!(
                "`{key}` is not a constant, so the axis of the per-channel scales in its output is unknown"
            )
        })
    }

    /// As [`number`](Self::number), with a default.
    fn number_or(&self, key: &str, default: i64) -> Found<i64> {
        // An input without a name may be this argument.
        let are_named = self.operator.input_names().iter().skip(1).all(Option::is_some);
        if self.has(key) || !are_named { self.number(key) } else { Ok(default) }
    }

    fn list(&self, key: &str) -> Found<Vec<i64>> {
        let found = self.operator.param(key).and_then(|parameter| parameter.as_i64s().ok());
        found.map_or_else(|| self.number(key).map(|one| vec![one]), Ok)
    }

    fn rank(&self) -> Found<i64> {
        let rank = self.from.and_then(|dims| i64::try_from(dims.len()).ok());
        rank.ok_or_else(|| {
            "its input has no shape in the file, so axes cannot be counted from the end".into()
        })
    }

    /// The axis counted from the start.
    fn resolved(&self, axis: i64) -> Found<i64> {
        let from_start = if axis < 0 { axis + self.rank()? } else { axis };
        let rank = self.rank().unwrap_or(MAX_AXES);
        if (0..rank).contains(&from_start) { Ok(from_start) } else { Err(format!("there is no axis {axis}")) }
    }

    fn permuted(&self, axis: i64, dims: &[i64]) -> Found<i64> {
        let axis = self.resolved(axis)?;
        for (to, &dim) in (0..).zip(dims) {
            if self.resolved(dim)? == axis {
                return Ok(to);
            }
        }
        Err("`dims` does not contain the axis of the per-channel scales".into())
    }

    /// The axis itself, if it is not among `dims`, along which elements are taken or moved.
    fn beside(&self, axis: i64, dims: &[i64]) -> Found<i64> {
        let axis = self.resolved(axis)?;
        for &dim in dims {
            if self.resolved(dim)? == axis {
                return Err(format!(
                    "axis {axis} has per-channel scales, and the operator selects or moves elements along it"
                ));
            }
        }
        Ok(axis)
    }

    /// The axis after the axes `dims` have been removed.
    fn without(&self, axis: i64, dims: &[i64]) -> Found<i64> {
        let axis = self.beside(axis, dims)?;
        let mut before = 0;
        for &dim in dims {
            before += i64::from(self.resolved(dim)? < axis);
        }
        Ok(axis - before)
    }

    /// Returns true if a slice of one axis is the whole axis, as PNNX leaves it at optimisation levels 0 and 1.
    fn is_whole(&self) -> bool {
        let is = |key: &str, holds: fn(i64) -> bool| match self.operator.param(key) {
            Some(parameter) => parameter.is_none() || parameter.as_i64().is_ok_and(holds),
            None => self.operator.named_input(key).is_none(),
        };
        !self.has("dims")
            && !self.has("select")
            && is("start", |start| start == 0)
            && is("end", |end| end >= TO_THE_END)
            && is("step", |step| step == 1)
    }

    fn sliced(&self, axis: i64) -> Found<i64> {
        if self.is_whole() {
            return self.resolved(axis);
        }
        let (dims, selects) = match (self.has("dims"), self.has("selects"), self.has("select")) {
            (true, true, _) => (self.list("dims")?, self.list("selects")?),
            (true, false, _) => (self.list("dims")?, Vec::new()),
            (false, _, true) => (vec![self.number("dim")?], vec![self.number("select")?]),
            (false, _, false) => (vec![self.number("dim")?], Vec::new()),
        };
        let axis = self.beside(axis, &dims)?;
        let selected = dims.iter().zip(&selects).filter(|(_, select)| **select != NOT_SELECTED);
        self.without(axis, &selected.map(|(&dim, _)| dim).collect::<Vec<_>>())
    }

    /// The output axis of the same length that has the same number of elements before or after it.
    fn reshaped(&self, axis: i64) -> Found<i64> {
        let unknown = "the axis of the per-channel scales in its output is unknown";
        let (Some(from), Some(to)) = (self.from, self.to) else {
            return Err(format!("{unknown}, as the file has no shapes"));
        };
        let axis = usize::try_from(self.resolved(axis)?).map_err(|_| unknown)?;
        let len = fixed(from.get(axis).ok_or(unknown)?).ok_or(unknown)?;
        let around = |dims: &[Dim], at: usize| {
            [&dims[..at], &dims[at + 1..]].map(|dims| {
                let product = dims.iter().try_fold(1u64, |all, dim| all.checked_mul(fixed(dim)?));
                product.filter(|&elements| elements > 0)
            })
        };
        let wanted = around(from, axis);
        let is_it = |&at: &usize| {
            let same = around(to, at)
                .into_iter()
                .zip(wanted)
                .any(|(found, wanted)| found.is_some() && found == wanted);
            fixed(&to[at]) == Some(len) && same
        };
        let found = (0..to.len()).find(is_it).and_then(|at| i64::try_from(at).ok());
        found.ok_or_else(|| {
            format!("axis {axis} has per-channel scales, and the operator splits or merges it")
        })
    }
}

fn swapped(axis: i64, a: i64, b: i64) -> i64 {
    match axis {
        axis if axis == a => b,
        axis if axis == b => a,
        axis => axis,
    }
}

fn fixed(dim: &Dim) -> Option<u64> {
    match dim {
        Dim::Fixed(len) => Some(*len),
        _ => None,
    }
}
