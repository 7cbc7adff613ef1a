//! The driver of a GPU: its memory and its kernels.

use super::compiler::{architecture, compile, version};
use super::libraries::{self, DRIVER};
use super::primary::PrimaryContext;
use super::queue::{Stream, StreamQueue};
use super::{driver_error, reason};
use crate::cuda::device::{CudaError, Driver, DriverQueue, Info, Libraries, Module, Result, Unit};
use cudarc::driver::result::{self, device};
use cudarc::driver::sys::{
    self, CUdevice_attribute, CUfunction_attribute, CUmemPool_attribute, CUmodule, CUresult,
};
use std::ffi::{CString, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// The oldest CUDA version of a driver that has all functions called here, and that runs the output of NVRTC 12.
const MIN_CUDA_VERSION: i32 = 12000;

/// The bytes of shared memory that a block may use without opting in to more.
const SHARED: i32 = 48 * 1024;

/// The bytes of freed memory that the pool keeps for later allocations.
const RELEASE_THRESHOLD: u64 = 256 << 20;

/// The number of GPUs.
pub(super) fn count(wanted: &str) -> Result<usize> {
    let missing = |reason| CudaError::NoDevice { wanted: wanted.to_owned(), reason };
    DRIVER.find().map_err(missing)?;
    let found = driver_version().map_err(|error| missing(reason(error)))?;
    if found < MIN_CUDA_VERSION {
        let (found, oldest) = (dotted(found), dotted(MIN_CUDA_VERSION));
        let advice = "install a newer one, or use --device cuda-emulator or cpu";
        return Err(missing(format!(
            "the driver supports CUDA {found}, but {oldest} or later is required; {advice}"
        )));
    }
    result::init().map_err(|error| missing(format!("the driver does not start: {}", reason(error))))?;
    let count = device::get_count().map_err(|error| missing(reason(error)))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(missing("the driver found no GPU; is CUDA_VISIBLE_DEVICES empty?".to_owned())),
    }
}

fn driver_version() -> Result<i32, result::DriverError> {
    let mut version = 0;
    // SAFETY: the driver is loaded, and the number outlives the call.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    Ok(version)
}

/// A version number such as 12090, as 12.9.
fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The properties of a GPU. The driver must have been [counted](count).
pub(super) fn describe(ordinal: usize, id: &str) -> Result<Info> {
    let device = device::get(ordinal as i32).map_err(driver_error("cuDeviceGet"))?;
    let compiler =
        version().map_or_else(|_| "no NVRTC".to_owned(), |(major, minor)| format!("NVRTC {major}.{minor}"));
    let driver = driver_version().map_or_else(reason, dotted);
    let (major, minor) = capability(device)?;
    // SAFETY: the driver returned the device.
    let memory = unsafe { device::total_mem(device) }.map_err(driver_error("cuDeviceTotalMem"))?;
    let shared =
        attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    let multiprocessors = attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let target = format!("sm_{major}{minor}, driver {driver}, {compiler}");
    let libraries = libraries::found();
    let details = match libraries == Libraries::default() {
        true => target.clone(),
        false => format!("{target}, {libraries}"),
    };
    Ok(Info {
        id: id.to_owned(),
        name: device::get_name(device).map_err(driver_error("cuDeviceGetName"))?,
        details,
        target,
        memory: memory as u64,
        multiprocessors: u32::try_from(multiprocessors).unwrap_or(1),
        shared_memory: u32::try_from(shared.max(SHARED)).unwrap_or(SHARED as u32),
        has_tensor_cores: major >= 8,
        libraries,
    })
}

fn capability(device: sys::CUdevice) -> Result<(i32, i32)> {
    let major = attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok((major, minor))
}

fn attribute(device: sys::CUdevice, which: CUdevice_attribute) -> Result<i32> {
    // SAFETY: the driver returned the device.
    unsafe { device::get_attribute(device, which) }.map_err(driver_error("cuDeviceGetAttribute"))
}

/// A GPU.
#[derive(Debug)]
pub(super) struct Nvidia {
    info: Info,
    primary: Arc<PrimaryContext>,
    /// The architecture that kernels are compiled for.
    architecture: String,
    /// The stream in which memory is allocated and freed; `None` if the device has no memory pools.
    pool: Option<Stream>,
}

impl Nvidia {
    /// Opens the GPU with this number. The driver must have been [counted](count).
    pub(super) fn open(ordinal: usize, id: &str) -> Result<Self> {
        let missing = |reason| CudaError::NoDevice { wanted: id.to_owned(), reason };
        version().map_err(missing)?;
        let info = describe(ordinal, id)?;
        let primary = Arc::new(PrimaryContext::retain(ordinal as i32)?);
        primary.make_current()?;
        let architecture = architecture(capability(primary.device)?).map_err(missing)?;
        let pools =
            attribute(primary.device, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?;
        let pool = if pools == 0 { None } else { Some(Self::pool(&primary)?) };
        Ok(Self { info, primary, architecture, pool })
    }

    /// Makes the memory pool of the device keep some of the freed memory.
    fn pool(primary: &Arc<PrimaryContext>) -> Result<Stream> {
        let mut bytes = RELEASE_THRESHOLD;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the device has pools, and the number outlives the call.
        unsafe {
            let pool = device::get_default_mem_pool(primary.device)
                .map_err(driver_error("cuDeviceGetDefaultMemPool"))?;
            result::mem_pool::set_attribute(pool, attribute, (&raw mut bytes).cast())
                .map_err(driver_error("cuMemPoolSetAttribute"))?;
        }
        Stream::new(primary)
    }

    /// The error of a failed allocation.
    fn full(&self, call: &'static str, wanted: usize, error: result::DriverError) -> CudaError {
        match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                CudaError::OutOfMemory { device: self.info.id.clone(), wanted, taken: 0 }
            }
            _ => driver_error(call)(error),
        }
    }
}

impl Driver for Nvidia {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.primary.make_current()?;
        let Some(stream) = &self.pool else {
            // SAFETY: nothing reads the memory before it is written.
            let address = unsafe { result::malloc_sync(bytes) };
            return address.map_err(|error| self.full("cuMemAlloc", bytes, error));
        };
        // SAFETY: as above, and the stream is valid.
        let address = unsafe { result::malloc_async(stream.handle(), bytes) };
        let address = address.map_err(|error| self.full("cuMemAllocAsync", bytes, error))?;
        // From now on, other streams may use the memory.
        stream.synchronize()?;
        Ok(address)
    }

    unsafe fn free(&self, address: u64) {
        if self.primary.make_current().is_err() {
            return;
        }
        // All work that uses the memory must be done, in any stream. If the device failed, everything is freed with its
        // context.
        let _ = self.primary.synchronize();
        // SAFETY: by contract the address was allocated by this driver, and is not used any more.
        let _ = unsafe {
            match &self.pool {
                Some(stream) => result::free_async(address, stream.handle()),
                None => result::free_sync(address),
            }
        };
    }

    fn allocate_pinned(&self, bytes: usize) -> Result<NonNull<u8>> {
        self.primary.make_current()?;
        // Not write-combined, which would be slow to read.
        // SAFETY: nothing reads the memory before it is written.
        let start = unsafe { result::malloc_host(bytes, 0) };
        let start = start.map_err(|error| self.full("cuMemHostAlloc", bytes, error))?;
        let missing = || CudaError::OutOfMemory { device: self.info.id.clone(), wanted: bytes, taken: 0 };
        NonNull::new(start.cast()).ok_or_else(missing)
    }

    unsafe fn free_pinned(&self, address: usize, _: usize) {
        // A copy may still be running, in any stream. If the device cannot be waited for, the memory stays allocated.
        if self.primary.make_current().and_then(|()| self.primary.synchronize()).is_err() {
            return;
        }
        // SAFETY: by contract the memory was allocated by this driver, and is not used any more.
        let _ = unsafe { result::free_host(address as *mut c_void) };
    }

    fn compile(&self, unit: &Unit) -> Result<Vec<u8>> {
        let compiled = compile(&unit.name(), &unit.source(), &self.architecture)?;
        // PTX of a compiler that is newer than the driver fails to load; machine code does not.
        Ok(if compiled.cubin.is_empty() { compiled.ptx } else { compiled.cubin })
    }

    fn load(&self, _: &Unit, image: &[u8]) -> Result<Box<dyn Module>> {
        self.primary.make_current()?;
        let mut image = image.to_vec();
        // PTX must end with a 0.
        image.push(0);
        // SAFETY: the image comes from NVRTC: it contains its length, or ends with a 0.
        let handle = unsafe { result::module::load_data(image.as_ptr().cast()) };
        let handle = handle.map_err(driver_error("cuModuleLoadData"))?;
        let shared = i32::try_from(self.info.shared_memory).unwrap_or(SHARED);
        Ok(Box::new(LoadedModule { primary: Arc::clone(&self.primary), handle, shared }))
    }

    fn queue(&self) -> Result<Box<dyn DriverQueue>> {
        Ok(Box::new(StreamQueue::new(&self.primary, self.info.libraries)?))
    }
}

#[derive(Debug)]
struct LoadedModule {
    primary: Arc<PrimaryContext>,
    handle: CUmodule,
    /// The maximum shared memory of a block in bytes.
    shared: i32,
}

// SAFETY: modules may be used from all threads.
unsafe impl Send for LoadedModule {}
// SAFETY: as above.
unsafe impl Sync for LoadedModule {}

impl Module for LoadedModule {
    fn function(&self, kernel: &str) -> Option<u64> {
        self.primary.make_current().ok()?;
        // SAFETY: the module is loaded.
        let function =
            unsafe { result::module::get_function(self.handle, CString::new(kernel).ok()?) }.ok()?;
        let static_shared = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        let max_dynamic = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // More than the default must be requested. A launch that exceeds the maximum fails with an error.
        // SAFETY: the function belongs to the module.
        unsafe {
            let used = result::function::get_function_attribute(function, static_shared).unwrap_or(0);
            let _ = result::function::set_function_attribute(function, max_dynamic, self.shared - used);
        }
        Some(function as u64)
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        if self.primary.make_current().is_ok() {
            // SAFETY: devices keep their modules until no kernel is launched any more.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}
