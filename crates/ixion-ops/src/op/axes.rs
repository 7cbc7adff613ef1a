//! The number of spatial axes of an operator, as stated by its type.

use super::{FieldValue, LayerError, NO_KEY, OperatorReader, PluginName, Result, Written};

/// The number of spatial axes of an operator: a field of [`operator!`](crate::operator) that is read from the operator's type,
/// such as 2 for `nn.MaxPool2d`. No key of the file sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpatialAxes(usize);

impl SpatialAxes {
    /// 1, 2 or 3 axes; `None` for any other number.
    pub fn new(axes: usize) -> Option<Self> {
        (1..=3).contains(&axes).then_some(Self(axes))
    }

    /// The number of axes.
    pub fn get(self) -> usize {
        self.0
    }

    /// The digit before a `d` at the end of a word, such as the 2 of `max_pool2d`; the last such word is used.
    pub(crate) fn of(op_type: &str) -> Option<Self> {
        let plugin = op_type.parse::<PluginName>().ok();
        let op_type = plugin.as_ref().map_or(op_type, PluginName::op_type);
        let number = |word: &str| {
            let mut before = word.strip_suffix('d')?.chars().rev();
            let digit = before.next()?.to_digit(10)?;
            before.next().filter(|c| !c.is_ascii_digit()).map(|_| digit)
        };
        let digit = op_type.rsplit(|c: char| !c.is_ascii_alphanumeric()).find_map(number)?;
        Self::new(usize::try_from(digit).ok()?)
    }
}

impl FieldValue for SpatialAxes {
    const KIND: &'static str = NO_KEY;

    fn read(reader: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        let op_type = reader.op_type();
        Self::of(op_type).map(Some).ok_or_else(|| {
            LayerError::Unsupported(match op_type {
                "" => "the reader has no operator type, which states the number of axes".to_owned(),
                _ => format!(
                    "`{op_type}` does not state the number of axes; expected a type with `1d`, `2d` or `3d`"
                ),
            })
        })
    }

    fn written(&self) -> Written {
        Written::SpatialAxes(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spatial_axes_are_read_from_the_type() {
        let axes = |op_type| SpatialAxes::of(op_type).map(SpatialAxes::get);
        let types = ["nn.MaxPool2d", "F.max_pool1d_with_indices", "acme/Pool3d/2d"];
        assert_eq!(types.map(axes), [Some(2), Some(1), Some(3)]);
        assert_eq!(
            ["nn.MaxPool", "nn.Pool4d", "nn.Pool12d", "lib3d/Pool/1", "2d", "d", ""].map(axes),
            [None; 7]
        );
    }
}
