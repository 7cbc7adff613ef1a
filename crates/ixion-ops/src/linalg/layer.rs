//! Layers that compute with matrices: the trait that their operators implement, for shapes and computation.

use super::stack::{Stack, wrong_type};
use crate::op::{
    CpuLayer, Entry, FromOperator, Io, Layer, LayerError, OperatorReader, Result, TensorMeta, exactly,
};
#[cfg(feature = "linalg")]
use ixion_kernels::lapack;
#[cfg(not(feature = "linalg"))]
pub(super) use ixion_kernels::matrix::Field as MatrixElement;
#[cfg(feature = "linalg")]
use ixion_tensor::Element;
use ixion_tensor::{Complex, DType, Limits};
use std::fmt;
use std::ops::RangeInclusive;

/// An element type in which matrices are computed: `f32`, `f64` and their complex counterparts.
#[cfg(feature = "linalg")]
pub(super) trait MatrixElement: lapack::Element<Real: Element, Complex: Element> {}

#[cfg(feature = "linalg")]
impl<T: lapack::Element<Real: Element, Complex: Element>> MatrixElement for T {}

/// An operator on matrices. [`by_lapack`] and [`by_elimination`] make a layer of it.
pub(super) trait MatrixOperator: FromOperator + Clone + fmt::Debug + Send + Sync {
    /// The number of outputs.
    const OUTPUTS: usize = 1;

    /// As [`Layer::infer`]. Default: a matrix of the same size for each square matrix.
    ///
    /// # Errors
    /// As [`Layer::infer`].
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![Stack::of_square(inputs, 0)?.meta()])
    }

    /// Returns true if these parameters need LAPACK although others do not. Default: false.
    fn needs_lapack(&self) -> bool {
        false
    }

    /// Computes the outputs in the element type of the first input. Operators that need LAPACK implement it only with the
    /// feature `linalg`.
    ///
    /// # Errors
    /// As [`CpuLayer::forward`].
    fn run<T: MatrixElement>(&self, io: &mut Io<'_, '_>, limits: &Limits) -> Result<()> {
        let _ = (io, limits);
        available()
    }
}

/// The layer of an operator.
#[derive(Debug, Clone)]
struct MatrixLayer<O> {
    operator: O,
    needs_lapack: bool,
}

impl<O: MatrixOperator> Layer for MatrixLayer<O> {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(1 + self.operator.field_inputs())
    }

    fn num_outputs(&self) -> usize {
        O::OUTPUTS
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        self.operator.infer(inputs)
    }
}

impl<O: MatrixOperator + 'static> CpuLayer for MatrixLayer<O> {
    fn initialize(&mut self) -> Result<()> {
        if self.needs_lapack { available() } else { Ok(()) }
    }

    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        self.initialize()?;
        let limits = io.context.limits();
        match io.inputs[0].dtype() {
            DType::F32 => self.operator.run::<f32>(io, limits),
            DType::F64 => self.operator.run::<f64>(io, limits),
            DType::C64 => self.operator.run::<Complex<f32>>(io, limits),
            DType::C128 => self.operator.run::<Complex<f64>>(io, limits),
            found => Err(wrong_type("the input", found)),
        }
    }
}

/// The registry entry of an operator that needs LAPACK.
pub(super) const fn by_lapack<O: MatrixOperator + 'static>() -> Entry {
    Entry::made_by::<O>(create::<O, true>)
}

/// The registry entry of an operator that is computed by products, elimination and substitution.
pub(super) const fn by_elimination<O: MatrixOperator + 'static>() -> Entry {
    Entry::made_by::<O>(create::<O, false>)
}

fn create<O: MatrixOperator + 'static, const NEEDS_LAPACK: bool>(
    reader: &mut OperatorReader<'_>,
) -> Result<Box<dyn CpuLayer>> {
    let operator = O::from_operator(reader)?;
    if O::VALIDATES {
        operator.validate()?;
    }
    Ok(Box::new(MatrixLayer { needs_lapack: NEEDS_LAPACK || operator.needs_lapack(), operator }))
}

/// Checks that LAPACK is available.
///
/// # Errors
/// If it is not, an error that states how to get it.
pub(crate) fn available() -> Result<()> {
    if cfg!(feature = "linalg") {
        return Ok(());
    }
    let how = "cargo build --release --features linalg, with OpenBLAS installed";
    Err(LayerError::Unsupported(format!(
        "this operator needs LAPACK, but Ixion was built without the feature `linalg`: {how}"
    )))
}
