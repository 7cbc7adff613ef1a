//! Matrix products by cuBLASLt.
//!
//! The library is column-major and we are row-major, so that it computes the transpose of the product: the transposed right
//! factor times the transposed left one. Its ReLU maps NaN to 0.

use super::calls::Prepared;
use super::{libraries, library_error};
use crate::cuda::device::{Activation, Call, CudaError, MatrixLayout, ProductWork, Result, Version};
use crate::tensor::DType;
use cudarc::cublaslt::result;
use cudarc::cublaslt::sys::{
    self, cublasLtMatmulDescAttributes_t as DescriptionAttribute,
    cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cudaDataType as Type,
};
use cudarc::driver::sys::CUstream;
use std::ffi::c_void;
use std::sync::Arc;

/// The library, initialised.
#[derive(Debug)]
pub(super) struct Products {
    handle: sys::cublasLtHandle_t,
}

// SAFETY: the library's handles may be used from all threads.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

fn type_of(dtype: DType) -> Result<Type> {
    match dtype {
        DType::F32 => Ok(Type::CUDA_R_32F),
        DType::F16 => Ok(Type::CUDA_R_16F),
        DType::Bf16 => Ok(Type::CUDA_R_16BF),
        other => Err(CudaError::Driver {
            call: "cublasLtMatmul".to_owned(),
            reason: format!("products of {other} are not supported"),
        }),
    }
}

impl Products {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { handle: result::create_handle().map_err(library_error("cublasLtCreate"))? })
    }

    /// Selects the algorithm that the library considers best.
    ///
    /// # Errors
    /// Returns an error if the library has none.
    pub(super) fn prepare(self: Arc<Self>, work: &ProductWork, call: &Call<'_>) -> Result<Box<dyn Prepared>> {
        let [rows, columns, depth] = work.sizes;
        let matrix = |layout: MatrixLayout, sizes| Matrix::new(work, layout, sizes);
        let added = work.added.unwrap_or(work.output);
        if !added.is_row_major || !work.output.is_row_major {
            let reason = "the rows of the result must be contiguous".to_owned();
            return Err(CudaError::Driver { call: "cublasLtMatmul".to_owned(), reason });
        }
        let [left_at, right_at, added_at, bias_at, output_at, _] = call.tensors();
        let description = Description::new(work, bias_at)?;
        let matrices = [
            matrix(work.right, [depth, columns])?,
            matrix(work.left, [rows, depth])?,
            matrix(added, [rows, columns])?,
            matrix(work.output, [rows, columns])?,
        ];
        let added_at = if work.added.is_some() { added_at } else { output_at };
        let preference = Preference::new(call.scratch, [right_at, left_at, added_at, output_at])?;
        let [a, b, c, d] = matrices.each_ref().map(|matrix| matrix.0);
        // SAFETY: all of these were created above, and are valid.
        let found = unsafe {
            result::get_matmul_algo_heuristic(self.handle, description.0, a, b, c, d, preference.0)
        };
        let found = found.map_err(library_error("cublasLtMatmulAlgoGetHeuristic"))?;
        Ok(Box::new(Product { library: self, description, matrices, algorithm: found.algo, work: *work }))
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        // SAFETY: it was initialised once, and this was its last owner.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// A prepared product.
#[derive(Debug)]
struct Product {
    library: Arc<Products>,
    description: Description,
    /// The layouts of the right factor, the left factor, the addend and the result.
    matrices: [Matrix; 4],
    algorithm: sys::cublasLtMatmulAlgo_t,
    work: ProductWork,
}

// SAFETY: descriptions are read-only after creation.
unsafe impl Send for Product {}

impl Prepared for Product {
    unsafe fn run(&self, call: Call<'_>, stream: CUstream) -> Result<()> {
        let [left, right, added, _, output, scratch] = call.tensors();
        let [alpha, beta] = self.work.scales;
        let (added, beta) = if self.work.added.is_some() { (added, beta) } else { (output, 0.0) };
        let [a, b, c, d] = self.matrices.each_ref().map(|matrix| matrix.0);
        // SAFETY: by contract all tensors are valid, with the described layouts.
        unsafe {
            result::matmul(
                self.library.handle,
                self.description.0,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                right,
                a,
                left,
                b,
                added,
                c,
                output,
                d,
                &raw const self.algorithm,
                scratch,
                call.scratch,
                stream.cast(),
            )
        }
        .map_err(library_error("cublasLtMatmul"))
    }
}

/// `CUBLAS_OP_N` and `CUBLAS_OP_T`, of another library's header.
const NOT_TRANSPOSED: i32 = 0;
const TRANSPOSED: i32 = 1;

/// The operation and its element types.
#[derive(Debug)]
struct Description(sys::cublasLtMatmulDesc_t);

impl Description {
    fn new(work: &ProductWork, bias: *mut c_void) -> Result<Self> {
        use sys::cublasComputeType_t::{CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
        let is_fast = work.dtype == DType::F32 && work.allow_tf32;
        let computed = if is_fast { CUBLAS_COMPUTE_32F_FAST_TF32 } else { CUBLAS_COMPUTE_32F };
        let created = result::create_matmul_desc(computed, Type::CUDA_R_32F);
        let description = Self(created.map_err(library_error("cublasLtMatmulDescCreate"))?);
        let operation = |is_row_major: bool| if is_row_major { NOT_TRANSPOSED } else { TRANSPOSED };
        description
            .set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &operation(work.right.is_row_major))?;
        description
            .set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &operation(work.left.is_row_major))?;
        description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue(work))?;
        if work.has_bias {
            description.set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
            description
                .set(DescriptionAttribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type_of(work.dtype)?)?;
        }
        Ok(description)
    }

    fn set<T>(&self, attribute: DescriptionAttribute, value: &T) -> Result<()> {
        // SAFETY: the description is valid, and each attribute gets a value of its type.
        unsafe {
            result::set_matmul_desc_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        }
        .map_err(library_error("cublasLtMatmulDescSetAttribute"))
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: it was created once, and this was its only owner.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

fn epilogue(work: &ProductWork) -> sys::cublasLtEpilogue_t {
    use sys::cublasLtEpilogue_t as Epilogue;
    match (work.activation, work.has_bias) {
        (Activation::Identity, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
        (Activation::Identity, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
        (Activation::Relu, false) => Epilogue::CUBLASLT_EPILOGUE_RELU,
        (Activation::Relu, true) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
        (Activation::GeluTanh, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
        (Activation::GeluTanh, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
    }
}

/// The memory layout of matrices.
#[derive(Debug)]
struct Matrix(sys::cublasLtMatrixLayout_t);

impl Matrix {
    fn new(work: &ProductWork, layout: MatrixLayout, [rows, columns]: [usize; 2]) -> Result<Self> {
        // Our rows are the library's columns.
        let [length, lines] = if layout.is_row_major { [columns, rows] } else { [rows, columns] };
        let leading_dimension = layout.leading_dimension.max(length) as i64;
        let created = result::create_matrix_layout(
            type_of(work.dtype)?,
            length as u64,
            lines as u64,
            leading_dimension,
        );
        let matrix = Self(created.map_err(library_error("cublasLtMatrixLayoutCreate"))?);
        let batches = i32::try_from(work.batches).map_err(|_| CudaError::Driver {
            call: "cublasLtMatmul".to_owned(),
            reason: format!("{} products exceed the limits of the library", work.batches),
        })?;
        matrix.set(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches)?;
        matrix.set(
            LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            &(layout.batch_stride as i64),
        )?;
        Ok(matrix)
    }

    fn set<T>(&self, attribute: LayoutAttribute, value: &T) -> Result<()> {
        // SAFETY: as for descriptions.
        unsafe {
            result::set_matrix_layout_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        }
        .map_err(library_error("cublasLtMatrixLayoutSetAttribute"))
    }
}

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: it was created once, and this was its only owner.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// The scratch memory that an algorithm may use, and the alignments that it may rely on.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    /// With `scratch` bytes of scratch memory, and matrices at these addresses.
    fn new(scratch: usize, addresses: [*mut c_void; 4]) -> Result<Self> {
        let created =
            result::create_matmul_pref().map_err(library_error("cublasLtMatmulPreferenceCreate"))?;
        let preference = Self(created);
        preference.set(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(scratch as u64))?;
        let attributes = [
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        for (attribute, address) in attributes.into_iter().zip(addresses) {
            preference.set(attribute, &alignment(address as u64))?;
        }
        Ok(preference)
    }

    fn set<T>(&self, attribute: PreferenceAttribute, value: &T) -> Result<()> {
        // SAFETY: as for descriptions.
        unsafe {
            result::set_matmul_pref_attribute(self.0, attribute, (&raw const *value).cast(), size_of::<T>())
        }
        .map_err(library_error("cublasLtMatmulPreferenceSetAttribute"))
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: it was created once, and this was its only owner.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

/// The largest power of two that divides an address, at most 256, the largest that the library distinguishes.
fn alignment(address: u64) -> u32 {
    const MAX: u32 = 256;
    1 << address.trailing_zeros().min(MAX.trailing_zeros())
}

/// The version, if the library is available.
pub(super) fn version() -> Option<Version> {
    libraries::PRODUCTS.find().map_err(|reason| log::debug!("{reason}")).ok()?;
    // SAFETY: the library is loaded.
    let version = unsafe { sys::cublasLtGetVersion() };
    // 120900 is 12.9.0.
    libraries::version(version / 10_000, version / 100 % 100, 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_multiples_of_powers_of_two() {
        assert_eq!([0, 1, 2, 24, 1 << 20].map(alignment), [256, 1, 2, 8, 256]);
    }
}
