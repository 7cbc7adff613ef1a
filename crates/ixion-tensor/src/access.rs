//! Access to single elements, channels and matrices.
//!
//! A tensor of up to three axes is read as channels × rows × columns: a matrix is one channel, a vector one row. Leading
//! axes of length 1, such as the batch axis of a single image, are ignored.

use super::view::check_dtype;
use super::wide::Scalar;
use super::{Element, Result, Tensor, TensorError, with_element};
use ndarray::{ArrayView2, ArrayView3, ArrayViewD, Axis, Dimension, Ix2, Ix3};

impl Tensor {
    /// The shape without its leading ones; if all axes have length 1, the last one is kept.
    ///
    /// ```
    /// use ixion_tensor::{DType, Tensor};
    /// assert_eq!(Tensor::zeros(DType::F32, &[1, 1, 5, 1])?.raw_shape(), &[5, 1]);
    /// # Ok::<(), ixion_tensor::TensorError>(())
    /// ```
    pub fn raw_shape(&self) -> &[usize] {
        let dims = self.shape().dims();
        let last = dims.len().saturating_sub(1);
        let ones = dims.iter().take(last).take_while(|&&dim| dim == 1).count();
        dims.get(ones..).unwrap_or_default()
    }

    /// The shape read as channels, rows and columns.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for more than three axes after the leading ones.
    pub fn channels_rows_cols(&self) -> Result<[usize; 3]> {
        match *self.raw_shape() {
            [] => Ok([1, 1, 1]),
            [cols] => Ok([1, 1, cols]),
            [rows, cols] => Ok([1, rows, cols]),
            [channels, rows, cols] => Ok([channels, rows, cols]),
            _ => Err(TensorError::InvalidArgument(format!(
                "shape {:?} has more axes than channels, rows and columns; take one sample with `select` first",
                self.shape()
            ))),
        }
    }

    /// The number of channels.
    ///
    /// # Errors
    /// As [`Tensor::channels_rows_cols`].
    pub fn channels(&self) -> Result<usize> {
        Ok(self.channels_rows_cols()?[0])
    }

    /// The number of rows.
    ///
    /// # Errors
    /// As [`Tensor::channels_rows_cols`].
    pub fn rows(&self) -> Result<usize> {
        Ok(self.channels_rows_cols()?[1])
    }

    /// The number of columns.
    ///
    /// # Errors
    /// As [`Tensor::channels_rows_cols`].
    pub fn cols(&self) -> Result<usize> {
        Ok(self.channels_rows_cols()?[2])
    }

    /// The number of elements per channel.
    ///
    /// # Errors
    /// As [`Tensor::channels_rows_cols`].
    pub fn plane_size(&self) -> Result<usize> {
        let [_, rows, cols] = self.channels_rows_cols()?;
        Ok(rows * cols)
    }

    /// The element at an index, which has one position for each axis.
    ///
    /// # Errors
    /// [`TensorError::WrongDType`], [`TensorError::InvalidArgument`] unless the index has one position for each axis,
    /// [`TensorError::OutOfRange`], or [`TensorError::Blocked`].
    pub fn get<T: Element>(&self, index: &[usize]) -> Result<T> {
        let array = self.array::<T>()?;
        check_index(index, array.shape())?;
        array.get(index).copied().ok_or_else(|| out_of_range("element", 0, 0))
    }

    /// Sets the element at an index, which has one position for each axis.
    ///
    /// # Errors
    /// As [`Tensor::get`].
    pub fn set<T: Element>(&mut self, index: &[usize], value: T) -> Result<()> {
        check_dtype::<T>(self.dtype())?;
        check_index(index, self.shape())?;
        if let Some(element) = self.view_mut()?.array::<T>()?.get_mut(index) {
            *element = value;
        }
        Ok(())
    }

    /// The element at an index, for any element type.
    ///
    /// # Errors
    /// As [`Tensor::get`], except [`TensorError::WrongDType`].
    pub fn get_scalar(&self, index: &[usize]) -> Result<Scalar> {
        with_element!(self.dtype(), T => Ok(Scalar::of(self.get::<T>(index)?)))
    }

    /// The element at a position counted in row-major order.
    ///
    /// # Errors
    /// As [`Tensor::get`].
    pub fn get_flat<T: Element>(&self, position: usize) -> Result<T> {
        check_dtype::<T>(self.dtype())?;
        if position >= self.num_elements() {
            return Err(out_of_range("element", position, self.num_elements()));
        }
        self.get(&self.shape().index_of(position))
    }

    /// The element in a channel, row and column.
    ///
    /// # Errors
    /// As [`Tensor::get`] and [`Tensor::channels_rows_cols`].
    pub fn at<T: Element>(&self, channel: usize, row: usize, col: usize) -> Result<T> {
        let cube = self.cube::<T>()?;
        check_index(&[channel, row, col], cube.shape())?;
        cube.get([channel, row, col]).copied().ok_or_else(|| out_of_range("channel", channel, cube.dim().0))
    }

    /// One channel as a matrix, without a copy.
    ///
    /// # Errors
    /// As [`Tensor::cube`], or [`TensorError::OutOfRange`] for the channel.
    pub fn channel<T: Element>(&self, channel: usize) -> Result<ArrayView2<'_, T>> {
        let cube = self.cube::<T>()?;
        if channel >= cube.dim().0 {
            return Err(out_of_range("channel", channel, cube.dim().0));
        }
        Ok(cube.index_axis_move(Axis(0), channel))
    }

    /// The tensor as a matrix of rows and columns, without a copy; a vector is one row.
    ///
    /// # Errors
    /// [`TensorError::InvalidArgument`] for more than two axes after the leading ones, [`TensorError::WrongDType`],
    /// or [`TensorError::Blocked`].
    pub fn matrix<T: Element>(&self) -> Result<ArrayView2<'_, T>> {
        with_rank::<T, Ix2>(self, "a matrix")
    }

    /// The tensor as channels, rows and columns, without a copy.
    ///
    /// # Errors
    /// As [`Tensor::channels_rows_cols`], [`TensorError::WrongDType`], or [`TensorError::Blocked`].
    pub fn cube<T: Element>(&self) -> Result<ArrayView3<'_, T>> {
        with_rank::<T, Ix3>(self, "channels, rows and columns")
    }
}

/// The elements with leading axes of length 1 dropped or added until the rank is that of `D`.
fn with_rank<'a, T: Element, D: Dimension>(
    tensor: &'a Tensor,
    what: &str,
) -> Result<ndarray::ArrayView<'a, T, D>> {
    let rank = D::NDIM.unwrap_or_default();
    let mut array: ArrayViewD<'a, T> = tensor.array()?;
    while array.ndim() > rank && array.len_of(Axis(0)) == 1 {
        array.index_axis_inplace(Axis(0), 0);
    }
    while array.ndim() < rank {
        array.insert_axis_inplace(Axis(0));
    }
    array.into_dimensionality().map_err(|_| {
        TensorError::InvalidArgument(format!(
            "shape {:?} cannot be read as {what}; take a part of it with `select` first",
            tensor.shape()
        ))
    })
}

fn check_index(index: &[usize], dims: &[usize]) -> Result<()> {
    if index.len() != dims.len() {
        return Err(TensorError::InvalidArgument(format!(
            "expected one index for each axis of shape {dims:?}, got {index:?}"
        )));
    }
    match index.iter().zip(dims).find(|(i, dim)| i >= dim) {
        Some((&i, &dim)) => Err(out_of_range("index", i, dim)),
        None => Ok(()),
    }
}

fn out_of_range(what: &'static str, index: usize, len: usize) -> TensorError {
    TensorError::OutOfRange { what, index: i64::try_from(index).unwrap_or(i64::MAX), len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn counting(dims: &[usize]) -> Tensor {
        let len: usize = dims.iter().product();
        Tensor::from_vec((0..len).map(|i| i as f32).collect(), dims).unwrap()
    }

    #[test]
    fn shapes_read_as_channels_rows_and_columns() {
        let cases: [(&[usize], &[usize], [usize; 3]); 7] = [
            (&[], &[], [1, 1, 1]),
            (&[4], &[4], [1, 1, 4]),
            (&[2, 4], &[2, 4], [1, 2, 4]),
            (&[3, 2, 4], &[3, 2, 4], [3, 2, 4]),
            (&[1, 3, 2, 4], &[3, 2, 4], [3, 2, 4]),
            (&[1, 1, 1], &[1], [1, 1, 1]),
            (&[1, 0], &[0], [1, 1, 0]),
        ];
        for (dims, raw, read) in cases {
            let x = Tensor::zeros(DType::U8, dims).unwrap();
            assert_eq!((x.raw_shape(), x.channels_rows_cols().unwrap()), (raw, read));
        }
        let x = counting(&[3, 2, 4]);
        assert_eq!((x.channels().unwrap(), x.rows().unwrap(), x.cols().unwrap()), (3, 2, 4));
        assert_eq!(x.plane_size().unwrap(), 8);
        assert!(counting(&[2, 3, 2, 4]).rows().is_err());
    }

    #[test]
    fn elements_by_index_position_and_place() {
        let x = counting(&[3, 2, 4]);
        assert_eq!(x.get::<f32>(&[2, 1, 3]).unwrap(), 23.0);
        assert_eq!(x.get_flat::<f32>(9).unwrap(), 9.0);
        assert_eq!(x.at::<f32>(1, 0, 1).unwrap(), 9.0);
        assert_eq!(x.get_scalar(&[0, 0, 2]).unwrap(), Scalar::Float(2.0));
        let turned = x.permute(&[2, 1, 0]).unwrap();
        assert_eq!(turned.get_flat::<f32>(1).unwrap(), 8.0);
        assert_eq!(turned.at::<f32>(3, 1, 2).unwrap(), 23.0);
        assert_eq!(Tensor::scalar(5i8).get::<i8>(&[]).unwrap(), 5);
        assert_eq!(counting(&[4]).at::<f32>(0, 0, 2).unwrap(), 2.0);
    }

    #[test]
    fn out_of_range_errors_name_the_index() {
        let x = counting(&[3, 2, 4]);
        let text = |error: TensorError| error.to_string();
        assert_eq!(text(x.at::<f32>(0, 2, 0).unwrap_err()), "index 2 is out of range: there are 2");
        assert_eq!(text(x.get_flat::<f32>(24).unwrap_err()), "element 24 is out of range: there are 24");
        assert_eq!(text(x.channel::<f32>(3).unwrap_err()), "channel 3 is out of range: there are 3");
        assert!(x.get::<f32>(&[0, 0]).is_err() && x.get::<f64>(&[0, 0, 0]).is_err());
        assert!(x.matrix::<f32>().is_err() && counting(&[2, 1, 2, 4]).cube::<f32>().is_err());
        assert!(x.get_flat::<f64>(0).is_err() && x.get_scalar(&[9, 9, 9]).is_err());
    }

    #[test]
    fn one_channel_is_a_matrix() {
        let x = counting(&[1, 3, 2, 4]);
        let channel = x.channel::<f32>(1).unwrap();
        assert_eq!((channel.dim(), channel[[1, 0]]), ((2, 4), 12.0));
        assert_eq!(counting(&[1, 2, 4]).matrix::<f32>().unwrap().dim(), (2, 4));
        assert_eq!(counting(&[4]).matrix::<f32>().unwrap().dim(), (1, 4));
    }

    #[test]
    fn setting_one_element() {
        let mut x = counting(&[2, 2]);
        let before = x.clone();
        x.set(&[1, 0], 9.0f32).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 9.0, 3.0]);
        assert_eq!(before.get_flat::<f32>(2).unwrap(), 2.0);
        assert!(x.set(&[2, 0], 9.0f32).is_err() && x.set(&[0, 0], 9i32).is_err());
    }
}
