//! Plans with what every call asks for.

use crate::error::{InputError, PlanError};
use crate::ports::{Stated, TensorInfo};
use crate::process;
use crate::release::LastOwner;
use ixion::graph::OperandIndex;
use ixion::op::Device;
use pyo3::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An input or output of a plan.
pub(crate) struct Port {
    /// The name by which a request finds it: its own, or that of its operand if another port has the same.
    pub(crate) key: String,
    pub(crate) info: TensorInfo,
}

/// A plan with what is asked for at every call.
pub(crate) struct Built {
    plan: Arc<ixion::Plan>,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// The keys of the dictionary that the module returned from which the plan was compiled.
    keys: OnceLock<Vec<String>>,
    /// The file that the plan has mapped.
    mapped: Option<Mapped>,
    /// The number of forks before it was built.
    forks: usize,
    /// What it has that a forked process lacks.
    own: Option<String>,
    _last: LastOwner<ixion::Plan>,
}

impl Built {
    pub(crate) fn new(plan: ixion::Plan, mapped: Option<Mapped>) -> Arc<Self> {
        let stated = Stated::new(&plan);
        let ports = |ports: &[ixion::engine::Port], find: &dyn Fn(&str) -> Option<usize>| -> Vec<Port> {
            let ports = ports.iter().enumerate();
            let port = |(position, port)| Port {
                key: key(&plan, port, position, find),
                info: TensorInfo::new(&plan, port, &stated),
            };
            ports.map(port).collect()
        };
        let inputs = ports(plan.inputs(), &|name| plan.input(name));
        let outputs = ports(plan.outputs(), &|name| plan.output(name));
        let own = own(&plan);
        let (keys, forks) = (OnceLock::new(), process::forks());
        let plan = Arc::new(plan);
        let _last = LastOwner::of(&plan);
        Arc::new(Self { plan, inputs, outputs, keys, mapped, forks, own, _last })
    }

    /// The keys of results, if they are a dictionary.
    pub(crate) fn keys(&self) -> Option<&[String]> {
        self.keys.get().map(Vec::as_slice)
    }

    /// Makes results a dictionary with these keys, in the order of the outputs.
    ///
    /// # Errors
    /// `InputError` if there are more or fewer keys than outputs, or if the results have keys already.
    pub(crate) fn set_keys(&self, keys: Vec<String>) -> PyResult<()> {
        let is_set = keys.len() == self.outputs.len() && self.keys.set(keys).is_ok();
        is_set.then_some(()).ok_or_else(|| InputError::new_err("a plan takes one key for each output, once"))
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Arc<ixion::Plan> {
        &self.plan
    }

    /// Checks that this process has what the plan needs.
    ///
    /// # Errors
    /// `InputError` in a process that was forked after a plan with several threads, or one on a device, was built; as
    /// [`Built::check_file`].
    pub(crate) fn check_process(&self) -> PyResult<()> {
        self.check_file()?;
        match &self.own {
            Some(own) if self.is_foreign() => Err(InputError::new_err(format!(
                "this model was loaded before the process was forked, and {own} does not survive that: load it in the new \
                 process, start processes by the method \"spawn\", or load the model with threads=1"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the file is as long as it was when the plan mapped it: where it ends now, reading its pages would end the process.
    ///
    /// # Errors
    /// `PlanError` if it is shorter.
    pub(crate) fn check_file(&self) -> PyResult<()> {
        self.mapped.as_ref().map_or(Ok(()), Mapped::check)
    }

    /// True in a process that was forked after the plan was built.
    fn is_foreign(&self) -> bool {
        self.forks != process::forks()
    }

    /// The inputs, for Python.
    pub(crate) fn input_infos(&self) -> Vec<TensorInfo> {
        self.inputs.iter().map(|port| port.info.clone()).collect()
    }

    /// The outputs, for Python.
    pub(crate) fn output_infos(&self) -> Vec<TensorInfo> {
        self.outputs.iter().map(|port| port.info.clone()).collect()
    }

    /// Inputs, outputs and threads in a line.
    pub(crate) fn text(&self) -> String {
        let list = |ports: &[Port]| ports.iter().map(|port| port.info.text()).collect::<Vec<_>>().join(", ");
        let threads = match self.plan.threads() {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        format!("({}) -> ({}), {threads}", list(&self.inputs), list(&self.outputs))
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        if self.own.is_some() && self.is_foreign() {
            // The plan would wait for the end of threads that this process does not have, so it is never dropped.
            std::mem::forget(Arc::clone(&self.plan));
        }
    }
}

/// A file that is mapped.
pub(crate) struct Mapped {
    path: PathBuf,
    /// The file that had this path when it was mapped; another one may have it by now.
    file: File,
    length: u64,
}

impl Mapped {
    /// The file of a plan that is about to be mapped; `None` if there is none, which mapping it reports.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        Some(Self { path: path.to_owned(), file, length })
    }

    fn check(&self) -> PyResult<()> {
        // If the system does not tell the length, nothing is known to be wrong.
        let Ok(length) = self.file.metadata().map(|found| found.len()) else { return Ok(()) };
        if length >= self.length {
            return Ok(());
        }
        Err(PlanError::new_err(format!(
            "{}: the file was cut from {} to {length} bytes while it was mapped, so this model cannot be used any more; \
             load it again, and replace plans by `Plan.save`, which leaves the old file to those that have mapped it",
            self.path.display(),
            self.length
        )))
    }
}

/// The name by which a port is found.
fn key(
    plan: &ixion::Plan,
    port: &ixion::engine::Port,
    position: usize,
    find: &dyn Fn(&str) -> Option<usize>,
) -> String {
    if find(&port.name) == Some(position) {
        return port.name.clone();
    }
    plan.graph().operand(OperandIndex::new(port.operand)).name().to_owned()
}

/// What a plan has that a forked process lacks.
fn own(plan: &ixion::Plan) -> Option<String> {
    if plan.graph().operators().iter().any(|operator| operator.device() != Device::Cpu) {
        return Some("the device that it runs on".to_owned());
    }
    match plan.threads() {
        1 => None,
        threads => Some(format!("its pool of {threads} threads")),
    }
}
