//! Plans with what every call asks for.

use crate::error::InputError;
use crate::ports::{Stated, TensorInfo};
use crate::process;
use ixion::graph::OperandIndex;
use ixion::op::Device;
use pyo3::prelude::*;
use std::sync::Arc;

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
    /// The number of forks before it was built.
    forks: usize,
    /// What it has that a forked process lacks.
    own: Option<String>,
}

impl Built {
    pub(crate) fn new(plan: ixion::Plan) -> Arc<Self> {
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
        Arc::new(Self { plan: Arc::new(plan), inputs, outputs, forks: process::forks(), own })
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &Arc<ixion::Plan> {
        &self.plan
    }

    /// Checks that this process has what the plan needs.
    ///
    /// # Errors
    /// `InputError` in a process that was forked after a plan with several threads, or one on a device, was built.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        match &self.own {
            Some(own) if self.is_foreign() => Err(InputError::new_err(format!(
                "this model was loaded before the process was forked, and {own} does not survive that: load it in the new \
                 process, start processes by the method \"spawn\", or load the model with threads=1"
            ))),
            _ => Ok(()),
        }
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
