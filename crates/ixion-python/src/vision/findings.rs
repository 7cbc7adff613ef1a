//! What models find in pictures: classes, objects and masks.

use super::picture::check_is_png;
use crate::array::{Input, to_numpy};
use crate::error::{InputError, OrRaise};
use ixion::tensor::{DType, Tensor};
use ixion::vision::{
    ClassMap, Reading, Rect, VOID, VisionError, color_of, draw_detections, draw_mask, label_of,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::path::PathBuf;

/// A class and its score.
///
/// Attributes
/// ----------
/// index : int
///     The number of the class.
/// label : str
///     Its name, or its number if the card has no names.
/// score : float
///     A probability from 0 to 1, or the model's own score.
/// is_probability : bool
///     Whether the score is a probability.
#[pyclass(frozen, get_all, eq, module = "ixion")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Class {
    index: usize,
    label: String,
    score: f64,
    is_probability: bool,
}

impl From<ixion::vision::Class> for Class {
    fn from(class: ixion::vision::Class) -> Self {
        let ixion::vision::Class { index, label, score, is_probability } = class;
        Self { index, label, score, is_probability }
    }
}

#[pymethods]
impl Class {
    #[new]
    #[pyo3(signature = (index, label, score, is_probability=true))]
    fn create(index: usize, label: String, score: f64, is_probability: bool) -> Self {
        Self { index, label, score, is_probability }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let arguments = (self.index, &self.label, self.score, self.is_probability);
        Ok((py.get_type::<Self>(), arguments.into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        format!("<ixion.Class {} {:.4}>", self.label, self.score)
    }
}

/// An object in a picture.
///
/// ``ixion.detect`` finds them. One that is made by hand, for ``ixion.draw``, has a colour of the palette unless it is given.
///
/// Attributes
/// ----------
/// index : int
///     The number of its class.
/// label : str
///     The name of the class, or its number if the card has no names.
/// score : float
///     How certain it is, from 0 to 1.
/// left, top, right, bottom : float
///     The edges of its box, in pixels of the picture; ``box`` is the tuple of all four.
/// color : tuple of int
///     The colour in which it is drawn: red, green and blue from 0 to 255.
#[pyclass(frozen, get_all, eq, module = "ixion")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Detection {
    index: usize,
    label: String,
    score: f32,
    left: f32,
    top: f32,
    right: f32,
    bottom: f32,
    color: (u8, u8, u8),
}

impl Detection {
    pub(super) fn new(found: &ixion::vision::Detection, reading: &Reading) -> Self {
        let Rect { left, top, right, bottom } = found.rect;
        let (index, [red, green, blue]) = (found.class, color_of(&reading.colors, found.class));
        let label = label_of(&reading.labels, index);
        Self { index, label, score: found.score, left, top, right, bottom, color: (red, green, blue) }
    }
}

#[pymethods]
impl Detection {
    #[new]
    #[pyo3(signature = (index, label, score, r#box, color=None))]
    fn create(
        index: usize,
        label: String,
        score: f32,
        r#box: (f32, f32, f32, f32),
        color: Option<(u8, u8, u8)>,
    ) -> Self {
        let (left, top, right, bottom) = r#box;
        let color = color.unwrap_or_else(|| color_of(&[], index).into());
        Self { index, label, score, left, top, right, bottom, color }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let arguments = (self.index, &self.label, self.score, self.edges(), self.color);
        Ok((py.get_type::<Self>(), arguments.into_pyobject(py)?))
    }

    /// Left, top, right and bottom, in pixels of the picture.
    #[getter]
    #[pyo3(name = "box")]
    fn edges(&self) -> (f32, f32, f32, f32) {
        (self.left, self.top, self.right, self.bottom)
    }

    fn __repr__(&self) -> String {
        let Self { label, score, left, top, right, bottom, .. } = self;
        format!("<ixion.Detection {label} {score:.3} [{left:.1}, {top:.1}, {right:.1}, {bottom:.1}]>")
    }
}

/// The class of each pixel of a picture.
///
/// ``numpy.asarray(mask)`` is an array of ``uint8`` of height × width.
///
/// Parameters
/// ----------
/// classes : array
///     The class of each pixel, ``uint8`` of height × width; 255 for none.
/// labels : sequence of str
///     The names of the classes.
/// colors : sequence of tuples of int
///     The colour of each class: red, green and blue from 0 to 255.
/// background : int, optional
///     The class that is not painted.
///
/// Attributes
/// ----------
/// height, width : int
///     The size of the picture.
/// labels : list of str
///     The names of the classes; empty if the card has none.
#[pyclass(frozen, module = "ixion")]
#[derive(Debug, Clone)]
pub(super) struct Mask {
    map: ClassMap,
    #[pyo3(get)]
    labels: Vec<String>,
    colors: Vec<[u8; 3]>,
    background: Option<u8>,
}

impl Mask {
    pub(super) fn new(map: ClassMap, reading: &Reading) -> Self {
        let (labels, colors) = (reading.labels.clone(), reading.colors.clone());
        Self { map, labels, colors, background: reading.background }
    }

    /// A copy of the picture, painted in the colours of the classes.
    ///
    /// # Errors
    /// Fails if the picture has another size.
    pub(super) fn drawn(&self, picture: &ixion::Picture) -> Result<ixion::Picture, VisionError> {
        draw_mask(picture, &self.map, &self.labels, &self.colors, self.background)
    }
}

#[pymethods]
impl Mask {
    #[new]
    #[pyo3(
        signature = (classes, labels=Vec::new(), colors=Vec::new(), background=None),
        text_signature = "(classes, labels=(), colors=(), background=None)"
    )]
    fn create(
        classes: &Bound<'_, PyAny>,
        labels: Vec<String>,
        colors: Vec<(u8, u8, u8)>,
        background: Option<u8>,
    ) -> PyResult<Self> {
        let classes = Input::new(classes, "classes", Some(DType::U8))?.view().to_tensor().or_raise()?;
        let &[height, width] = classes.shape().dims() else {
            let found = classes.shape();
            return Err(InputError::new_err(format!(
                "classes: expected an array of height×width, got {found}"
            )));
        };
        let map = ClassMap::new(height, width, classes.to_vec::<u8>().or_raise()?).or_raise()?;
        Ok(Self { map, labels, colors: colors.into_iter().map(<[u8; 3]>::from).collect(), background })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let colors: Vec<(u8, u8, u8)> = self.colors.iter().map(|&color| color.into()).collect();
        let arguments = (self.classes(py)?, &self.labels, colors, self.background);
        Ok((py.get_type::<Self>(), arguments.into_pyobject(py)?))
    }

    /// The number of rows.
    #[getter]
    fn height(&self) -> usize {
        self.map.height()
    }

    /// The number of columns.
    #[getter]
    fn width(&self) -> usize {
        self.map.width()
    }

    /// The class of each pixel, as an array of ``uint8`` of height × width; 255 for none.
    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let classes = self.map.classes().to_vec();
        to_numpy(py, Tensor::from_vec(classes, &[self.map.height(), self.map.width()]).or_raise()?)
    }

    /// The number of pixels of each class that occurs, by its name: dict of str to int; ``none`` for pixels without a class.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = PyDict::new(py);
        for (class, pixels) in self.map.counts() {
            let label = if class == VOID { "none".to_owned() } else { label_of(&self.labels, class.into()) };
            counts.set_item(label, pixels)?;
        }
        Ok(counts)
    }

    /// Write the mask to an indexed PNG file, whose values are the classes.
    ///
    /// Raises
    /// ------
    /// ixion.InputError
    ///     If the file's name has the extension of another format.
    /// ixion.Error
    ///     If the file cannot be written.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        check_is_png(&path)?;
        py.detach(|| self.map.save_png(path, &self.colors, self.background)).or_raise()
    }

    #[pyo3(signature = (dtype=None, *, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(InputError::new_err("a mask cannot become an array without a copy"));
        }
        let array = self.classes(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    fn __repr__(&self) -> String {
        let classes = self.map.counts().len();
        format!("<ixion.Mask {}×{} with {classes} classes>", self.map.height(), self.map.width())
    }
}

/// A copy of the picture with the boxes of objects.
///
/// # Errors
/// Fails if the picture cannot be created.
pub(super) fn draw(picture: &ixion::Picture, found: &[&Detection]) -> Result<ixion::Picture, VisionError> {
    // Each object brings its label and its colour, as a class of its own.
    let labels: Vec<String> = found.iter().map(|object| object.label.clone()).collect();
    let colors: Vec<[u8; 3]> = found.iter().map(|object| object.color.into()).collect();
    let object = |(class, it): (usize, &&Detection)| ixion::vision::Detection {
        class,
        score: it.score,
        rect: Rect::new(it.left, it.top, it.right, it.bottom),
    };
    let objects: Vec<ixion::vision::Detection> = found.iter().enumerate().map(object).collect();
    draw_detections(picture, &objects, &labels, &colors)
}
