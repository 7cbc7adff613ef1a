//! Pictures in, classes, boxes and masks out, as described by a model's card: `ixion.classify`, `detect` and `segment`.

mod findings;
mod picture;
mod preparation;
mod subject;

pub(crate) use picture::picture_of;
pub(crate) use preparation::Preparation;

use crate::error::{InputError, OrRaise};
use crate::given::Count;
use findings::{Class, Detection, Mask};
use ixion::vision::{ModelCard, Task, VisionError};
use picture::Picture;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use subject::{Batch, Subject};

/// Adds the classes and the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Picture>()?;
    module.add_class::<Class>()?;
    module.add_class::<Detection>()?;
    module.add_class::<Mask>()?;
    module.add_function(wrap_pyfunction!(classify, module)?)?;
    module.add_function(wrap_pyfunction!(detect, module)?)?;
    module.add_function(wrap_pyfunction!(segment, module)?)?;
    module.add_function(wrap_pyfunction!(draw, module)?)
}

/// Find the best classes of a picture.
///
/// Parameters
/// ----------
/// model : Model
///     A model with a card (``model.toml``) whose task is ``classify``.
/// picture : picture, or list, tuple or iterator of pictures
///     An ``ixion.Picture`` or what it is made of: a path, the bytes of a PNG or JPEG file, an image of Pillow, or an array of
///     height × width × channels. It is prepared as described by the card. Several pictures run in batches, and are read when
///     their turn comes.
/// top : int
///     The number of classes.
///
/// Returns
/// -------
/// list of Class
///     The best one first; a list of such lists for several pictures.
///
/// Raises
/// ------
/// ixion.InputError
///     If a picture cannot be read, or the model has no card, another task, or outputs that the card does not describe.
#[pyfunction]
#[pyo3(signature = (model, picture, *, top=Count(5)), text_signature = "(model, picture, *, top=5)")]
fn classify<'py>(
    model: &Bound<'py, PyAny>,
    picture: &Bound<'py, PyAny>,
    top: Count<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let Count(top) = top;
    if top == 0 {
        return Err(InputError::new_err("top: expected a number above 0, got 0"));
    }
    found(model, picture, Task::Classify, |card, batch| {
        let ranked = card.classify(&batch.outputs, top)?;
        Ok(ranked.into_iter().map(|best| best.into_iter().map(Class::from).collect::<Vec<_>>()).collect())
    })
}

/// Find the objects in a picture.
///
/// Parameters
/// ----------
/// model : Model
///     A model with a card (``model.toml``) whose task is ``detect``.
/// picture : picture, or list, tuple or iterator of pictures
///     As for ``ixion.classify``.
/// confidence : float, optional
///     The least score of an object, from 0 to 1. Default: that of the card.
/// iou : float, optional
///     The overlap of two boxes of a class, from 0 to 1, beyond which the one with the lower score is left out. Default: that
///     of the card.
///
/// Returns
/// -------
/// list of Detection
///     The highest score first, with boxes in pixels of the picture; a list of such lists for several pictures.
///     ``numpy.array([it.box for it in found])`` has the boxes as rows.
///
/// Raises
/// ------
/// ixion.InputError
///     As ``ixion.classify``, or if a number is not from 0 to 1.
#[pyfunction]
#[pyo3(signature = (model, picture, *, confidence=None, iou=None))]
fn detect<'py>(
    model: &Bound<'py, PyAny>,
    picture: &Bound<'py, PyAny>,
    confidence: Option<f32>,
    iou: Option<f32>,
) -> PyResult<Bound<'py, PyAny>> {
    for (name, share) in [("confidence", confidence), ("iou", iou)] {
        if let Some(share) = share.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(InputError::new_err(format!("{name}: expected a number from 0 to 1, got {share}")));
        }
    }
    found(model, picture, Task::Detect, |card, batch| {
        let mut detector = card.detector()?;
        detector.confidence = confidence.unwrap_or(detector.confidence);
        detector.iou = iou.unwrap_or(detector.iou);
        let found = detector.detect(&batch.outputs, &batch.frames)?;
        let objects = |found: Vec<ixion::vision::Detection>| -> Vec<Detection> {
            found.iter().map(|object| Detection::new(object, &card.output)).collect()
        };
        Ok(found.into_iter().map(objects).collect())
    })
}

/// Find the class of each pixel of a picture.
///
/// Parameters
/// ----------
/// model : Model
///     A model with a card (``model.toml``) whose task is ``segment``.
/// picture : picture, or list, tuple or iterator of pictures
///     As for ``ixion.classify``.
///
/// Returns
/// -------
/// Mask
///     The classes, as many as the picture has pixels; a list of masks for several pictures.
///
/// Raises
/// ------
/// ixion.InputError
///     As ``ixion.classify``.
#[pyfunction]
#[pyo3(signature = (model, picture))]
fn segment<'py>(model: &Bound<'py, PyAny>, picture: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    found(model, picture, Task::Segment, |card, batch| {
        let maps = card.segment(&batch.outputs, &batch.frames)?;
        Ok(maps.into_iter().map(|map| Mask::new(map, &card.output)).collect())
    })
}

/// Draw what was found into a picture.
///
/// Parameters
/// ----------
/// picture : picture
///     As for ``ixion.classify``.
/// found : list of Detection, or Mask
///     What ``ixion.detect`` or ``ixion.segment`` returned for this picture.
///
/// Returns
/// -------
/// Picture
///     A copy of the picture, in colour; enlarged if both sides are below 256 pixels, so that labels are legible.
///
/// Raises
/// ------
/// ixion.InputError
///     If the picture cannot be read, or the mask is of another size.
#[pyfunction]
fn draw(picture: &Bound<'_, PyAny>, found: &Bound<'_, PyAny>) -> PyResult<Picture> {
    let (py, picture) = (picture.py(), picture::read(picture)?);
    if let Ok(mask) = found.cast::<Mask>() {
        let mask = mask.get();
        return py.detach(|| mask.drawn(&picture)).or_raise().map(Picture::from);
    }
    let objects =
        found.try_iter().and_then(|found| found.map(|it| Ok(it?.cast_into::<Detection>()?)).collect());
    let objects: Vec<Bound<'_, Detection>> = objects
        .map_err(|_| InputError::new_err("found: expected what ixion.detect or ixion.segment returned"))?;
    let objects: Vec<&Detection> = objects.iter().map(Bound::get).collect();
    py.detach(|| findings::draw(&picture, &objects)).or_raise().map(Picture::from)
}

/// Runs the model on one picture or several, and reads its outputs. Returns the findings in the only picture, or a list of those
/// in all.
fn found<'py, T>(
    model: &Bound<'py, PyAny>,
    pictures: &Bound<'py, PyAny>,
    task: Task,
    read: impl Fn(&ModelCard, &Batch) -> Result<Vec<T>, VisionError> + Sync,
) -> PyResult<Bound<'py, PyAny>>
where
    T: IntoPyObject<'py> + Send,
{
    let py = model.py();
    let mut subject = Subject::new(model, task)?;
    let is_several = is_several(pictures)?;
    let given = match is_several {
        true => pictures.try_iter()?,
        false => PyTuple::new(py, [pictures])?.try_iter()?,
    };
    let mut findings: Vec<Bound<'py, PyAny>> = Vec::new();
    let mut keep = |card: &ModelCard, batch: Option<Batch>| -> PyResult<()> {
        let Some(batch) = batch else { return Ok(()) };
        for found in py.detach(|| read(card, &batch)).or_raise()? {
            findings.push(found.into_bound_py_any(py)?);
        }
        Ok(())
    };
    for picture in given {
        py.check_signals()?;
        let batch = subject.take(&picture::read(&picture?)?)?;
        keep(&subject.card, batch)?;
    }
    let last = subject.run()?;
    keep(&subject.card, last)?;
    match (is_several, findings.pop()) {
        (false, Some(only)) => Ok(only),
        (_, last) => {
            findings.extend(last);
            Ok(PyList::new(py, findings)?.into_any())
        }
    }
}

/// Returns true for a list, a tuple or an iterator, which have several pictures. An open file, which is an iterator of lines, has
/// one.
fn is_several(pictures: &Bound<'_, PyAny>) -> PyResult<bool> {
    if pictures.is_instance_of::<PyList>() || pictures.is_instance_of::<PyTuple>() {
        return Ok(true);
    }
    Ok(pictures.cast::<PyIterator>().is_ok() && !pictures.hasattr("read")?)
}
