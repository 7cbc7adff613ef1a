//! `ixion.Picture`: pictures from files, bytes, arrays and Pillow.

use crate::array::{Input, to_numpy};
use crate::error::{InputError, OrRaise};
use ixion::tensor::Tensor;
use ixion::{Limits, Picture as Inner};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyDict, PyType};
use std::path::{Path, PathBuf};

/// A picture with 8 bits per channel, grey or RGB.
///
/// ``numpy.asarray(picture)`` is an array of ``uint8`` of height × width × channels.
///
/// Parameters
/// ----------
/// source : str, os.PathLike, bytes, file, image of Pillow, or array
///     A PNG or JPEG file, by its path, its bytes, or opened in binary mode; an image of Pillow; or an array of height × width, or
///     height × width × 1 or 3 channels: ``uint8`` from 0 to 255, or floats from 0 to 1. What is transparent becomes white.
///
/// Attributes
/// ----------
/// height, width, channels : int
///     The number of rows, of columns, and of channels: 1 or 3.
///
/// Raises
/// ------
/// ixion.InputError
///     If the file cannot be read or is too large, or the array has another shape or element type.
#[pyclass(frozen, eq, module = "ixion")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    inner: Inner,
}

impl From<Inner> for Picture {
    fn from(inner: Inner) -> Self {
        Self { inner }
    }
}

impl Picture {
    /// The values, of height × width × channels.
    fn tensor(&self) -> PyResult<Tensor> {
        let shape = [self.inner.height(), self.inner.width(), self.inner.channels()];
        Tensor::from_vec(self.inner.pixels().to_vec(), &shape).or_raise()
    }
}

#[pymethods]
impl Picture {
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        read(source).map(Self::from)
    }

    /// The number of rows.
    #[getter]
    fn height(&self) -> usize {
        self.inner.height()
    }

    /// The number of columns.
    #[getter]
    fn width(&self) -> usize {
        self.inner.width()
    }

    /// The number of channels: 1 for grey, 3 for red, green and blue.
    #[getter]
    fn channels(&self) -> usize {
        self.inner.channels()
    }

    /// Write the picture to a PNG file. Pillow writes others, such as JPEG.
    ///
    /// Raises
    /// ------
    /// ixion.InputError
    ///     If the file's name has the extension of another format.
    /// ixion.Error
    ///     If the file cannot be written.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        check_is_png(&path)?;
        py.detach(|| self.inner.save_png(path)).or_raise()
    }

    /// The values as an array of ``uint8`` of height × width × channels.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_numpy(py, self.tensor()?)
    }

    #[pyo3(signature = (dtype=None, *, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(InputError::new_err("a picture cannot become an array without a copy"));
        }
        let array = self.to_numpy(py)?;
        match dtype {
            Some(dtype) => array.call_method1("astype", (dtype,)),
            None => Ok(array),
        }
    }

    fn __repr__(&self) -> String {
        let color = if self.inner.channels() == 1 { "grey" } else { "RGB" };
        format!("<ixion.Picture {}×{} {color}>", self.inner.height(), self.inner.width())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyAny>,))> {
        Ok((py.get_type::<Self>(), (self.to_numpy(py)?,)))
    }
}

/// Checks that the name of a file is not that of another format than PNG.
///
/// # Errors
/// `InputError` if its extension is another one.
pub(super) fn check_is_png(path: &Path) -> PyResult<()> {
    let extension = path.extension();
    if extension.is_none_or(|extension| extension.eq_ignore_ascii_case("png")) {
        return Ok(());
    }
    let (file, png) = (path.display(), path.with_extension("png"));
    let png = png.display();
    Err(InputError::new_err(format!(
        "{file}: only PNG files can be written; save {png}, which Pillow converts: \
         PIL.Image.open(\"{png}\").convert(\"RGB\").save(\"{file}\")"
    )))
}

/// A picture from what a caller gives.
///
/// # Errors
/// `InputError` if it cannot be read or is no picture; `NotFoundError` if there is no such file.
pub(super) fn read(source: &Bound<'_, PyAny>) -> PyResult<Inner> {
    let py = source.py();
    if let Ok(picture) = source.cast::<Picture>() {
        return Ok(picture.get().inner.clone());
    }
    if let Ok(path) = source.extract::<PathBuf>() {
        return py.detach(|| Inner::load(path, &Limits::default())).or_raise();
    }
    if let Ok(bytes) = source.extract::<PyBackedBytes>() {
        return of_bytes(py, &bytes);
    }
    if is_pillow(source)? {
        return of_pillow(source);
    }
    if source.hasattr("read")? {
        let read = source.call_method0("read")?;
        let bytes = read.extract::<PyBackedBytes>();
        let bytes =
            bytes.map_err(|_| InputError::new_err("a file with a picture must be opened in binary mode"))?;
        return of_bytes(py, &bytes);
    }
    of_array(source)
}

/// The picture that a value is, unless it is an array, or anything else that may be meant otherwise.
///
/// # Errors
/// As [`read`].
pub(crate) fn picture_of(value: &Bound<'_, PyAny>) -> PyResult<Option<Inner>> {
    match value.is_instance_of::<Picture>() || is_pillow(value)? {
        true => read(value).map(Some),
        false => Ok(None),
    }
}

fn is_pillow(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.hasattr("mode")? && value.hasattr("convert")?)
}

/// The modes of Pillow whose numbers are no colours, and those with transparency, as far as PNG files have them.
const AS_FILE: [&str; 6] = ["1", "I", "I;16", "LA", "P", "RGBA"];

fn of_pillow(image: &Bound<'_, PyAny>) -> PyResult<Inner> {
    let mode: String = image.getattr("mode")?.extract()?;
    match mode.as_str() {
        "L" | "RGB" => of_array(image),
        // The same as if the file of the image was read.
        mode if AS_FILE.contains(&mode) => {
            let py = image.py();
            let (file, options) = (py.import("io")?.call_method0("BytesIO")?, PyDict::new(py));
            options.set_item("compress_level", 1)?;
            image.call_method("save", (&file, "PNG"), Some(&options))?;
            of_bytes(py, &file.call_method0("getvalue")?.extract::<PyBackedBytes>()?)
        }
        _ => of_array(&image.call_method1("convert", ("RGB",))?),
    }
}

fn of_bytes(py: Python<'_>, bytes: &PyBackedBytes) -> PyResult<Inner> {
    py.detach(|| Inner::from_bytes(bytes, &Limits::default())).or_raise()
}

fn of_array(array: &Bound<'_, PyAny>) -> PyResult<Inner> {
    let tensor = Input::new(array, "picture", None)?.view().to_tensor().or_raise()?;
    let planes = match *tensor.shape().dims() {
        [_, _] => tensor,
        [_, _, 1 | 3] => tensor.permute(&[2, 0, 1]).or_raise()?,
        _ => {
            return Err(InputError::new_err(format!(
                "expected a picture of height×width or height×width×channels, with 1 or 3 channels, got {}",
                tensor.shape()
            )));
        }
    };
    array.py().detach(|| Inner::from_tensor(&planes)).or_raise()
}
