//! Finds the libraries.

use crate::cuda::device::{Libraries, Version};
use std::path::PathBuf;

/// A library of the driver or the toolkit.
pub(super) struct SharedLibrary {
    /// Its name without version and extension.
    pub(super) name: &'static str,
    /// File names to try in a toolkit's folder, if the system's loader does not find the library.
    pub(super) files: &'static [&'static str],
    /// Returns true if cudarc finds it.
    pub(super) is_present: unsafe fn() -> bool,
    /// Advice if it is missing.
    pub(super) advice: &'static str,
}

pub(super) const DRIVER: SharedLibrary = SharedLibrary {
    name: "libcuda",
    files: &["libcuda.so.1", "nvcuda.dll"],
    is_present: cudarc::driver::sys::is_culib_present,
    advice: "install NVIDIA's driver, or use --device cuda-emulator or cpu",
};

pub(super) const COMPILER: SharedLibrary = SharedLibrary {
    name: "libnvrtc",
    files: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
    is_present: cudarc::nvrtc::sys::is_culib_present,
    advice: "install the CUDA toolkit 12 or 13, or the Python package nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for CUDA 12) and name \
             its folder in LD_LIBRARY_PATH",
};

pub(super) const PRODUCTS: SharedLibrary = SharedLibrary {
    name: "libcublasLt",
    files: &[
        "libcublasLt.so.13",
        "libcublasLt.so.12",
        "libcublasLt.so",
        "cublasLt64_13.dll",
        "cublasLt64_12.dll",
    ],
    is_present: cudarc::cublaslt::sys::is_culib_present,
    advice: "matrix products use built-in kernels",
};

pub(super) const CONVOLUTIONS: SharedLibrary = SharedLibrary {
    name: "libcudnn",
    files: &["libcudnn.so.9", "libcudnn.so", "cudnn64_9.dll"],
    is_present: cudarc::cudnn::sys::is_culib_present,
    advice: "convolutions use built-in kernels",
};

pub(super) const TRANSFORMS: SharedLibrary = SharedLibrary {
    name: "libcufft",
    files: &["libcufft.so.12", "libcufft.so.11", "libcufft.so", "cufft64_12.dll", "cufft64_11.dll"],
    is_present: cudarc::cufft::sys::is_culib_present,
    advice: "Fourier transforms use built-in kernels",
};

/// The available libraries that can compute instead of kernels.
pub(super) fn found() -> Libraries {
    Libraries {
        products: super::products::version(),
        convolutions: super::convolutions::version(),
        transforms: super::transforms::version(),
    }
}

/// The version, or `None` if it is older than the oldest supported one.
pub(super) fn version(major: usize, minor: usize, oldest: usize) -> Option<Version> {
    let of = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    (major >= oldest).then(|| Version { major: of(major), minor: of(minor) })
}

impl SharedLibrary {
    /// Finds and loads the library.
    ///
    /// # Errors
    /// Returns the file names and the folders that were searched.
    pub(super) fn find(&self) -> Result<(), String> {
        // SAFETY: this loads libraries of NVIDIA, whose initialisation code is harmless.
        if unsafe { (self.is_present)() } || (self.load_from_toolkit() && unsafe { (self.is_present)() }) {
            return Ok(());
        }
        let folders: Vec<String> = folders().iter().map(|folder| folder.display().to_string()).collect();
        let (name, files, advice) = (self.name, self.files.join(", "), self.advice);
        Err(format!(
            "{name} was not found under the names {files} by the system's loader (LD_LIBRARY_PATH, ldconfig), nor in {}; {advice}",
            folders.join(", ")
        ))
    }

    /// Loads the library by its path. Later requests by name alone get the loaded one.
    fn load_from_toolkit(&self) -> bool {
        let paths =
            folders().into_iter().flat_map(|folder| self.files.iter().map(move |file| folder.join(file)));
        let library = paths.filter(|path| path.is_file()).find_map(|path| {
            // SAFETY: as above.
            unsafe { libloading::Library::new(&path) }.ok()
        });
        let is_loaded = library.is_some();
        // The library stays loaded as long as the program runs.
        std::mem::forget(library);
        is_loaded
    }
}

/// The folders of toolkits, and that of the driver in WSL.
fn folders() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let roots = named.chain([PathBuf::from("/usr/local/cuda")]);
    let inside = roots.flat_map(|root| ["lib64", "lib", "bin"].map(|folder| root.join(folder)));
    inside.chain([PathBuf::from("/usr/lib/wsl/lib")]).collect()
}
