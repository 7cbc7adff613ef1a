//! Input shapes as given by users.

use super::ShapeError;
use super::rule::check_inputs;
use super::symbols::{axis_symbol, symbolic_inputs};
use crate::graph::{GraphError, RuntimeGraph};
use crate::op::TensorMeta;
use crate::pnnx;
use crate::tensor::Dim;
use std::fmt;
use std::str::FromStr;

/// The shape of an input as written by a user: `n,3,?,w`.
///
/// A number is a fixed length, a name is a length that is equal wherever the name occurs, also in other inputs, and `?` is an
/// arbitrary length.
///
/// ```
/// use ixion::shape::InputShape;
/// let (input, shape) = InputShape::parse_named("x=n,3,?,w")?;
/// assert_eq!((input, shape.rank(), shape.to_string()), ("x", 4, "n,3,?,w".to_owned()));
/// # Ok::<(), ixion::shape::ShapeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputShape(Vec<Axis>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Axis {
    Fixed(u32),
    Named(String),
    Free,
}

impl InputShape {
    /// Parses the name of an input and its shape, as in `x=n,3,?,w`.
    ///
    /// # Errors
    /// [`ShapeError::Syntax`] if there is no `=`, or the name or the shape is not valid.
    pub fn parse_named(text: &str) -> Result<(&str, Self), ShapeError> {
        match text.split_once('=') {
            Some((name, shape)) if !name.is_empty() => Ok((name, shape.parse()?)),
            _ => Err(syntax(text, "expected a name and a shape, such as `x=n,3,?,w`")),
        }
    }

    /// The shape that a file declares.
    pub(crate) fn declared(dims: &[pnnx::Dim]) -> Self {
        let axis = |dim: &pnnx::Dim| match dim {
            pnnx::Dim::Fixed(len) => u32::try_from(*len).map_or(Axis::Free, Axis::Fixed),
            pnnx::Dim::Named(name) => Axis::Named(name.clone()),
            pnnx::Dim::Unknown => Axis::Free,
        };
        Self(dims.iter().map(axis).collect())
    }

    /// Checks that a shape, or the smallest and the largest one of a range, keeps the lengths that a file fixes.
    ///
    /// # Errors
    /// [`ShapeError::Declared`] with the first axis that differs.
    pub(crate) fn check_kept<'a>(
        &self,
        name: &str,
        lengths: impl Fn(usize) -> Option<String> + 'a,
    ) -> Result<(), ShapeError> {
        for (axis, declared) in self.0.iter().enumerate() {
            let Axis::Fixed(declared) = declared else { continue };
            if let Some(found) = lengths(axis).filter(|found| *found != declared.to_string()) {
                return Err(ShapeError::Declared { name: name.to_owned(), axis, declared: *declared, found });
            }
        }
        Ok(())
    }

    /// The length of an axis as text.
    pub(crate) fn axis(&self, axis: usize) -> Option<String> {
        self.0.get(axis).map(|axis| match axis {
            Axis::Fixed(len) => len.to_string(),
            Axis::Named(name) => name.clone(),
            Axis::Free => "?".to_owned(),
        })
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The dimensions for the input of this name.
    pub fn dims(&self, input: &str) -> Vec<Dim> {
        let dim = |(axis, len): (usize, &Axis)| match len {
            Axis::Fixed(len) => Dim::Fixed((*len).into()),
            Axis::Named(name) => Dim::symbol(name),
            Axis::Free => axis_symbol(input, axis),
        };
        self.0.iter().enumerate().map(dim).collect()
    }

    /// The [`symbolic_inputs`] of a model, with those named in `shapes` replaced by the given shapes.
    ///
    /// # Errors
    /// [`GraphError::UnknownName`] if a name is not an input of the model, [`ShapeError::GivenTwice`] if it occurs twice, and
    /// [`ShapeError::InputRank`] if the number of axes differs from the file.
    pub fn apply(
        graph: &RuntimeGraph,
        shapes: &[(String, InputShape)],
    ) -> Result<Vec<Option<TensorMeta>>, ShapeError> {
        let mut inputs = symbolic_inputs(graph);
        let given = by_name(graph, shapes.iter().map(|(name, shape)| (name.as_str(), shape)))?;
        for ((port, input), shape) in graph.inputs().iter().zip(&mut inputs).zip(given) {
            let Some(shape) = shape else { continue };
            let dtype = graph.operand(port.operand).dtype();
            *input = dtype.map(|dtype| TensorMeta::new(dtype, shape.dims(&port.name)));
        }
        check_inputs(graph, &inputs)?;
        Ok(inputs)
    }
}

// ANCHOR: by_name
/// Sorts values that are given by input name into the order of the model's inputs; `None` for inputs that are not named.
///
/// # Errors
/// [`GraphError::UnknownName`], which lists the existing names; [`ShapeError::GivenTwice`] if a name occurs twice.
pub fn by_name<'a, T: Clone>(
    graph: &RuntimeGraph,
    given: impl IntoIterator<Item = (&'a str, T)>,
) -> Result<Vec<Option<T>>, ShapeError> {
    // ANCHOR: by_name_todo -- task 5: each value at the position of its input; an unknown or duplicate name is an error
    let mut found = vec![None; graph.inputs().len()];
    for (name, value) in given {
        let mut places = graph.inputs().iter().zip(&mut found);
        let Some((_, place)) = places.find(|(port, _)| port.name == name) else {
            let known = graph.inputs().iter().map(|port| port.name.clone()).collect();
            return Err(GraphError::UnknownName { what: "input", name: name.to_owned(), known }.into());
        };
        if place.replace(value).is_some() {
            return Err(ShapeError::GivenTwice(name.to_owned()));
        }
    }
    Ok(found)
    // ANCHOR_END: by_name_todo
}
// ANCHOR_END: by_name

fn syntax(text: &str, reason: &str) -> ShapeError {
    ShapeError::Syntax { text: text.to_owned(), reason: reason.to_owned() }
}

impl FromStr for InputShape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let is_name = |word: &str| {
            word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        };
        let axis = |word: &str| match word.trim() {
            "?" => Ok(Axis::Free),
            word if is_name(word) => Ok(Axis::Named(word.to_owned())),
            word => word
                .parse()
                .map(Axis::Fixed)
                .map_err(|_| syntax(text, &format!("`{word}` is neither a length, a name nor `?`"))),
        };
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        text.split(',').map(axis).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for InputShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self.0.iter().map(|axis| match axis {
            Axis::Fixed(len) => len.to_string(),
            Axis::Named(name) => name.clone(),
            Axis::Free => "?".to_owned(),
        });
        f.write_str(&axes.collect::<Vec<_>>().join(","))
    }
}
