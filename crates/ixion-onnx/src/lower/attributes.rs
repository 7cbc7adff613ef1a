//! The attributes of a node.

use super::{Call, Constant, scope};
use crate::OnnxError;
use crate::schema::{AttributeProto, GraphProto};

impl<'c> Call<'c> {
    /// The attribute with this name.
    pub(crate) fn attribute(&self, name: &'static str) -> Option<&'c AttributeProto> {
        self.read.borrow_mut().insert(name);
        self.node.attribute.iter().find(|attribute| attribute.name.as_deref() == Some(name))
    }

    /// Returns true if the node has this attribute, which counts as read.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.attribute(name).is_some()
    }

    /// Marks attributes as read that do not change the result.
    pub(crate) fn ignore(&self, names: &[&'static str]) {
        names.iter().for_each(|name| {
            self.attribute(name);
        });
    }

    /// An integer.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type.
    pub(crate) fn int(&self, name: &'static str) -> Result<Option<i64>, OnnxError> {
        self.typed(name, "an integer", |attribute| attribute.i.or(is_of_type(attribute, 2).then_some(0)))
    }

    /// An integer, or what it is if the attribute is left out.
    ///
    /// # Errors
    /// As [`Call::int`].
    pub(crate) fn int_or(&self, name: &'static str, default: i64) -> Result<i64, OnnxError> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// Whether an integer is not 0.
    ///
    /// # Errors
    /// As [`Call::int`].
    pub(crate) fn flag_or(&self, name: &'static str, default: bool) -> Result<bool, OnnxError> {
        Ok(self.int(name)?.map_or(default, |number| number != 0))
    }

    /// A number, or what it is if the attribute is left out.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type.
    pub(crate) fn float_or(&self, name: &'static str, default: f32) -> Result<f64, OnnxError> {
        Ok(f64::from(self.float(name)?.unwrap_or(default)))
    }

    /// A number.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type.
    pub(crate) fn float(&self, name: &'static str) -> Result<Option<f32>, OnnxError> {
        self.typed(name, "a float", |attribute| attribute.f.or(is_of_type(attribute, 1).then_some(0.0)))
    }

    /// A list of integers.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type.
    pub(crate) fn ints(&self, name: &'static str) -> Result<Option<Vec<i64>>, OnnxError> {
        self.typed(name, "a list of integers", |attribute| {
            let is_other = attribute.i.is_some() || attribute.s.is_some() || attribute.t.is_some();
            (!is_other).then(|| attribute.ints.clone())
        })
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type.
    pub(crate) fn floats(&self, name: &'static str) -> Result<Option<Vec<f32>>, OnnxError> {
        self.typed(name, "a list of floats", |attribute| {
            let is_other = attribute.i.is_some() || attribute.s.is_some() || attribute.t.is_some();
            (!is_other).then(|| attribute.floats.clone())
        })
    }

    /// A word.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type, or not UTF-8.
    pub(crate) fn string(&self, name: &'static str) -> Result<Option<&'c str>, OnnxError> {
        self.typed(name, "a string", |attribute| std::str::from_utf8(attribute.s.as_deref()?).ok())
    }

    /// A word, or what it is if the attribute is left out.
    ///
    /// # Errors
    /// As [`Call::string`].
    pub(crate) fn string_or(&self, name: &'static str, default: &'c str) -> Result<&'c str, OnnxError> {
        Ok(self.string(name)?.unwrap_or(default))
    }

    /// A list of words.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type, or not UTF-8.
    pub(crate) fn strings(&self, name: &'static str) -> Result<Option<Vec<&'c str>>, OnnxError> {
        self.typed(name, "a list of strings", |attribute| {
            attribute.strings.iter().map(|word| std::str::from_utf8(word).ok()).collect()
        })
    }

    /// A stored tensor.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is of another type, [`OnnxError::Tensor`] if the tensor cannot be read.
    pub(crate) fn tensor(&self, name: &'static str) -> Result<Option<Constant>, OnnxError> {
        let tensor = self.typed(name, "a tensor", |attribute| attribute.t.as_ref())?;
        tensor.map(|tensor| scope::stored(self.name(), tensor, self.lowering.files())).transpose()
    }

    /// A graph.
    ///
    /// # Errors
    /// [`OnnxError::Node`] if the attribute is missing, or of another type.
    pub(crate) fn graph(&self, name: &'static str) -> Result<&'c GraphProto, OnnxError> {
        let graph = self.typed(name, "a graph", |attribute| attribute.g.as_ref())?;
        graph.ok_or_else(|| self.missing(name))
    }

    /// The error for a required attribute that is left out.
    pub(crate) fn missing(&self, name: &str) -> OnnxError {
        self.error(format!("the attribute `{name}` is required, but missing"))
    }

    fn typed<T>(
        &self,
        name: &'static str,
        kind: &str,
        value: impl FnOnce(&'c AttributeProto) -> Option<T>,
    ) -> Result<Option<T>, OnnxError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => {
                let value = value(attribute);
                value
                    .map(Some)
                    .ok_or_else(|| self.error(format!("expected the attribute `{name}` to be {kind}")))
            }
        }
    }
}

/// Returns true if an attribute says that it has the type with this number: writers may leave out a value that is 0.
fn is_of_type(attribute: &AttributeProto, number: i32) -> bool {
    attribute.r#type == Some(number)
}
