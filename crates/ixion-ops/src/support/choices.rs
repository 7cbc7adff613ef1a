//! Parameters with a fixed set of choices, and parameters with a value for each axis.

use crate::op::{FromParameter, LayerError, Result, RuntimeParameter};
use std::fmt::Debug;

/// Declares an enum that is read from a string parameter; a variant may have several spellings.
macro_rules! choices {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident {
            $($(#[doc = $variant_doc:literal])* $variant:ident = $text:literal $(| $other:literal)*),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $variant_doc])* $variant),* }

        impl $crate::op::FromParameter for $name {
            const KIND: &'static str = concat!("one of", $(" ", $text),*);

            fn from_parameter(parameter: &$crate::op::RuntimeParameter) -> Option<Self> {
                match parameter.raw() {
                    $($text $(| $other)* => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn to_parameter(&self) -> Option<$crate::op::RuntimeParameter> {
                Some($crate::op::RuntimeParameter::parse(match self { $(Self::$variant => $text),* }))
            }
        }
    };
}

pub(crate) use choices;

choices! {
    /// The order of the elements in memory. It does not affect results, because the tensors of a graph are never modified.
    pub enum MemoryFormat {
        /// The format of the input.
        Preserve = "torch.preserve_format",
        /// Row-major: N×C×H×W.
        Contiguous = "torch.contiguous_format",
        /// The channels of a pixel are adjacent: N×H×W×C.
        ChannelsLast = "torch.channels_last",
        /// The channels of a voxel are adjacent: N×D×H×W×C.
        ChannelsLast3d = "torch.channels_last_3d",
    }
}

/// A non-negative integer for each axis of a window, or one for all axes, such as `kernel_size`, `stride` and `dilation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerAxis(Vec<usize>);

impl PerAxis {
    /// One value for all axes.
    pub fn all(value: usize) -> Self {
        Self(vec![value])
    }

    /// One value for each axis.
    pub fn of(values: impl Into<Vec<usize>>) -> Self {
        Self(values.into())
    }

    /// The values for `axes` axes, or `None` if there are neither one nor `axes` values.
    pub fn get(&self, axes: usize) -> Option<Vec<usize>> {
        match self.0.as_slice() {
            [value] => Some(vec![*value; axes]),
            values => (values.len() == axes).then(|| values.to_vec()),
        }
    }

    /// The values as they were given.
    pub fn values(&self) -> &[usize] {
        &self.0
    }
}

/// The values of a parameter for `axes` axes; a single value applies to all axes.
pub(crate) fn per_axis<V: Clone + Debug>(key: &'static str, values: &[V], axes: usize) -> Result<Vec<V>> {
    match values {
        [value] => Ok(vec![value.clone(); axes]),
        values if values.len() == axes => Ok(values.to_vec()),
        values => {
            let reason = format!("expected one number, or one for each of {axes} axes");
            Err(LayerError::invalid(key, format!("{values:?}"), reason))
        }
    }
}

impl FromParameter for PerAxis {
    const KIND: &'static str = "an integer of at least 0, or one for each axis";

    fn from_parameter(parameter: &RuntimeParameter) -> Option<Self> {
        let values = Vec::<i64>::from_parameter(parameter)?;
        let values: Option<Vec<usize>> =
            values.into_iter().map(|value| usize::try_from(value).ok()).collect();
        values.filter(|values| !values.is_empty()).map(Self)
    }

    fn to_parameter(&self) -> Option<RuntimeParameter> {
        let values: Vec<i64> =
            self.0.iter().map(|&value| i64::try_from(value).ok()).collect::<Option<_>>()?;
        Some(if let [value] = values.as_slice() { (*value).into() } else { values.into() })
    }
}
