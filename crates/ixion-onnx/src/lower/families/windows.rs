//! The attributes of operators that slide a window over the last axes.

use crate::OnnxError;
use crate::lower::Call;
use crate::lower::emit::Emit;

/// How the ends of an axis are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// As the attribute `pads` says.
    NotSet,
    /// Not at all.
    Valid,
    /// Such that the output is as long as the input over the stride, rounded up; an odd element goes to the end.
    SameUpper,
    /// As `SameUpper`, with an odd element at the beginning.
    SameLower,
}

/// A window along all axes that it slides over.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) auto_pad: AutoPad,
    /// Its size.
    pub(super) kernel: Vec<i64>,
    /// Its strides.
    pub(super) strides: Vec<i64>,
    /// The distances between adjacent taps.
    pub(super) dilations: Vec<i64>,
    /// The padding before and after each axis.
    pub(super) pads: Vec<(i64, i64)>,
}

/// The largest window, stride or padding: beyond it, sizes overflow.
const MAX_EXTENT: i64 = 1 << 40;

/// The attributes that [`Windows::of`] reads.
const KEYS: [&str; 5] = ["auto_pad", "kernel_shape", "strides", "dilations", "pads"];

impl Windows {
    /// The window of a node whose weights have this kernel size.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if an attribute has a wrong type, a wrong number of values, or a value out of range.
    pub(super) fn of_weights(call: &Call<'_>, weights: &[usize]) -> Result<Self, OnnxError> {
        let kernel: Vec<i64> = weights.iter().map(|&len| i64::try_from(len).unwrap_or(i64::MAX)).collect();
        match call.ints("kernel_shape")?.filter(|given| *given != kernel) {
            Some(given) => Err(call.error(format!(
                "expected `kernel_shape` to be the size {kernel:?} of the weights, got {given:?}"
            ))),
            None => Self::of(call, kernel),
        }
    }

    /// The window of a node whose weights the graph computes; `None` if the number of its axes is unknown, or if its padding depends
    /// on its unknown size. The size is 1 if it is unknown.
    ///
    /// # Errors
    /// As [`Windows::of_weights`].
    pub(super) fn of_computed(call: &mut Call<'_>) -> Result<Option<Self>, OnnxError> {
        let given = call.ints("kernel_shape")?.filter(|given| !given.is_empty());
        let rank = call.lengths(1)?.map(|lens| lens.len());
        let axes = match (&given, rank) {
            (Some(given), _) => Some(given.len()),
            (None, Some(rank)) => rank.checked_sub(2),
            (None, None) => call.ints("strides")?.map(|strides| strides.len()),
        };
        let Some(axes) = axes.filter(|axes| (1..=3).contains(axes)) else { return Ok(None) };
        let is_known = given.is_some();
        let windows = Self::of(call, given.unwrap_or_else(|| vec![1; axes]))?;
        let needs_size = matches!(windows.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        Ok(Some(windows).filter(|_| is_known || !needs_size))
    }

    /// The window of a pooling.
    ///
    /// # Errors
    /// As [`Windows::of_weights`], and if there is no `kernel_shape`.
    pub(super) fn of_pooling(call: &Call<'_>) -> Result<Self, OnnxError> {
        let kernel = call.ints("kernel_shape")?.ok_or_else(|| call.missing("kernel_shape"))?;
        Self::of(call, kernel)
    }

    fn of(call: &Call<'_>, kernel: Vec<i64>) -> Result<Self, OnnxError> {
        let auto_pad = match call.string_or("auto_pad", "NOTSET")? {
            "NOTSET" | "" => AutoPad::NotSet,
            "VALID" => AutoPad::Valid,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            other => {
                let known = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
                return Err(call.error(format!("expected `auto_pad` to be {known}, got `{other}`")));
            }
        };
        let axes = kernel.len();
        let ones = vec![1; axes];
        Ok(Self {
            auto_pad,
            strides: per_axis(call, "strides", axes, 1)?.unwrap_or_else(|| ones.clone()),
            dilations: per_axis(call, "dilations", axes, 1)?.unwrap_or(ones),
            pads: pads(call, auto_pad, axes)?,
            kernel: in_range(call, "kernel_shape", kernel, axes, 1)?,
        })
    }

    /// The padding before and after each axis, if it does not depend on the size of the input.
    pub(super) fn known_pads(&self) -> Option<Vec<(i64, i64)>> {
        let is_dense = self.strides.iter().all(|stride| *stride == 1);
        let total = |axis: usize| self.reach(axis).saturating_sub(1);
        let halves = |axis: usize| (total(axis) / 2, total(axis) - total(axis) / 2);
        let axes = 0..self.kernel.len();
        match self.auto_pad {
            AutoPad::NotSet | AutoPad::Valid => Some(self.pads.clone()),
            AutoPad::SameUpper if is_dense => Some(axes.map(halves).collect()),
            AutoPad::SameLower if is_dense => {
                Some(axes.map(halves).map(|(less, more)| (more, less)).collect())
            }
            AutoPad::SameUpper | AutoPad::SameLower => None,
        }
    }

    /// The padding at both ends of each axis, if it is known, and the same at both.
    pub(super) fn even_pads(&self) -> Option<Vec<i64>> {
        let even = |(before, after): (i64, i64)| (before == after).then_some(before);
        self.known_pads()?.into_iter().map(even).collect()
    }

    /// The number of elements between the first and the last tap along an axis, both included.
    pub(super) fn reach(&self, axis: usize) -> i64 {
        let of = |values: &[i64]| values.get(axis).copied().unwrap_or(1);
        of(&self.kernel).saturating_sub(1).saturating_mul(of(&self.dilations)).saturating_add(1)
    }

    /// Returns true if the taps of the window are adjacent.
    pub(super) fn is_dense(&self) -> bool {
        self.dilations.iter().all(|step| *step == 1)
    }
}

/// Padding in the form of `F.pad`: two values for each axis, the last axis first.
pub(super) fn torch_pads(pads: &[(i64, i64)]) -> Vec<i64> {
    pads.iter().rev().flat_map(|&(before, after)| [before, after]).collect()
}

fn pads(call: &Call<'_>, auto_pad: AutoPad, axes: usize) -> Result<Vec<(i64, i64)>, OnnxError> {
    let given = call.ints("pads")?.filter(|given| auto_pad == AutoPad::NotSet && !given.is_empty());
    let Some(given) = given else { return Ok(vec![(0, 0); axes]) };
    let given = in_range(call, "pads", given, axes.saturating_mul(2), 0)?;
    let (before, after) = given.split_at(axes.min(given.len()));
    Ok(before.iter().copied().zip(after.iter().copied()).collect())
}

/// One value of at least `least` for each axis.
///
/// # Errors
/// [`OnnxError::Node`] if there is another number of values, or a smaller one.
pub(super) fn per_axis(
    call: &Call<'_>,
    name: &'static str,
    axes: usize,
    least: i64,
) -> Result<Option<Vec<i64>>, OnnxError> {
    let given = call.ints(name)?.filter(|given| !given.is_empty());
    given.map(|given| in_range(call, name, given, axes, least)).transpose()
}

fn in_range(
    call: &Call<'_>,
    name: &str,
    given: Vec<i64>,
    len: usize,
    least: i64,
) -> Result<Vec<i64>, OnnxError> {
    let range = least..MAX_EXTENT;
    if given.len() == len && given.iter().all(|value| range.contains(value)) {
        return Ok(given);
    }
    Err(call.error(format!("expected `{name}` to have {len} values from {least} on, got {given:?}")))
}

impl Call<'_> {
    /// An operator of the same name with the attributes of its window as they are.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if one has a wrong type.
    pub(super) fn same_with_window(&mut self) -> Result<Emit<'_>, OnnxError> {
        let lists = ["kernel_shape", "strides", "dilations", "pads"].map(|key| Ok((key, self.ints(key)?)));
        let lists = lists.into_iter().collect::<Result<Vec<_>, OnnxError>>()?;
        let auto_pad = self.string("auto_pad")?.filter(|word| !word.is_empty());
        self.ignore(&KEYS);
        let op_type = self.op_type();
        let mut emit = self.emit(op_type).param_if("auto_pad", auto_pad);
        for (key, list) in lists {
            // `pads` means nothing where another choice of padding is made.
            let is_used = key != "pads" || matches!(auto_pad, None | Some("NOTSET"));
            emit = emit.param_if(key, list.filter(|list| is_used && !list.is_empty()));
        }
        Ok(emit)
    }
}
