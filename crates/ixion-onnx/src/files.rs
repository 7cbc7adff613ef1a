//! The files of a model: the one that was opened, and those with weights beside it.

use crate::OnnxError;
use ixion_pnnx::archive::ArchiveFile;
use ixion_tensor::Limits;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The files of a model.
#[derive(Debug)]
pub(crate) struct Files {
    main: Arc<ArchiveFile>,
    /// The folder of the model; `None` if it is in memory.
    folder: Option<PathBuf>,
    limits: Limits,
    /// Other files, by the path without links.
    external: RefCell<HashMap<PathBuf, Arc<ArchiveFile>>>,
    /// Bytes of all tensors so far.
    total: Cell<u64>,
}

impl Files {
    pub(crate) fn new(main: ArchiveFile, folder: Option<PathBuf>, limits: &Limits) -> Self {
        Self {
            main: Arc::new(main),
            folder,
            limits: limits.clone(),
            external: RefCell::default(),
            total: Cell::new(0),
        }
    }

    /// The file that was opened.
    pub(crate) fn main(&self) -> &Arc<ArchiveFile> {
        &self.main
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The path of the file that was opened, or `<bytes>`.
    pub(crate) fn name(&self) -> String {
        self.main.path().display().to_string()
    }

    /// The file at a path that the model names for the weights of `tensor`. It must be in the folder of the model.
    ///
    /// # Errors
    /// [`OnnxError::Tensor`] if it is elsewhere, or no file; [`OnnxError::File`] if it cannot be opened.
    pub(crate) fn external(&self, tensor: &str, location: &str) -> Result<Arc<ArchiveFile>, OnnxError> {
        let path = self.inside(location).map_err(|problem| OnnxError::Tensor {
            file: self.name(),
            tensor: tensor.to_owned(),
            problem,
        })?;
        // A path can be spelled in many ways, and the number of open files is limited.
        if let Some(file) = self.external.borrow().get(&path) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(ArchiveFile::open(&path, &self.limits)?);
        self.external.borrow_mut().insert(path, Arc::clone(&file));
        Ok(file)
    }

    /// Counts the bytes of a tensor, in memory or not.
    ///
    /// # Errors
    /// [`OnnxError::Limit`] if all tensors together exceed the limit.
    pub(crate) fn count(&self, bytes: u64) -> Result<(), OnnxError> {
        self.total.set(self.total.get().saturating_add(bytes));
        let check = self.limits.check_total("the tensors of the file", self.total.get());
        check.map_err(|source| OnnxError::Limit { file: self.name(), source })
    }

    /// The path of a file in the model's folder, without links.
    fn inside(&self, location: &str) -> Result<PathBuf, String> {
        let Some(folder) = &self.folder else {
            return Err(format!(
                "its data are in the file `{location}`, but the model was read from memory; open it by its path"
            ));
        };
        let relative = Path::new(location);
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !relative.components().all(is_plain) {
            return Err(format!("its data are in `{location}`, which is not in the folder of the model"));
        }
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let path = folder.join(relative);
        let found = |error| format!("its data are in {}: {error}; was the file moved?", path.display());
        // A link may lead out of the folder.
        let real = path.canonicalize().map_err(found)?;
        let is_inside = real.starts_with(folder.canonicalize().map_err(found)?);
        if !is_inside {
            return Err(format!(
                "its data are in `{location}`, a link to {}, which is not in the folder of the model",
                real.display()
            ));
        }
        // Opening a pipe would wait for ever.
        match real.metadata().map_err(found)?.is_file() {
            true => Ok(real),
            false => Err(format!("its data are in {}, which is no file", path.display())),
        }
    }
}
