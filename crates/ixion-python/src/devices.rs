//! The devices that models can run on: `ixion.devices`.

use crate::command::output;
use crate::error::Error;
use crate::pickling::{Reduced, reduced};
use crate::progress::Bar;
use pyo3::prelude::*;
use serde::Deserialize;

/// Adds the class and the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Device>()?;
    module.add_function(wrap_pyfunction!(devices, module)?)?;
    module.add_function(wrap_pyfunction!(restore_device, module)?)
}

/// A device that models can run on.
///
/// Attributes
/// ----------
/// id : str
///     What the option ``device`` of ``ixion.load`` takes, such as ``cuda:1``.
/// name : str
///     The name, as its maker calls it.
/// details : str
///     What it can do, in a line.
/// memory : int or None
///     The size of its own memory in bytes, if it has any.
#[pyclass(frozen, get_all, eq, hash, module = "ixion")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Device {
    id: String,
    name: String,
    details: String,
    memory: Option<u64>,
}

/// The fields of a device, in their order.
type DeviceFields = (String, String, String, Option<u64>);

#[pymethods]
impl Device {
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let Self { id, name, details, memory } = self.clone();
        let fields: DeviceFields = (id, name, details, memory);
        reduced(py, "_restore_device", fields)
    }

    fn __repr__(&self) -> String {
        format!("<ixion.Device {}: {}, {}>", self.id, self.name, self.details)
    }
}

/// Unpickles a device.
#[pyfunction]
#[pyo3(name = "_restore_device")]
fn restore_device(fields: DeviceFields) -> Device {
    let (id, name, details, memory) = fields;
    Device { id, name, details, memory }
}

/// What `ixion devices --json` prints.
#[derive(Deserialize)]
struct Listed {
    devices: Vec<Device>,
}

/// List the devices that models can run on.
///
/// ``ixion.command("devices")["missing"]`` has the kinds of devices of which none is available, with the reasons.
///
/// Returns
/// -------
/// list of Device
///     The processor first.
#[pyfunction]
fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    let text = output(py, vec!["devices".into(), "--json".into()], Bar::new(None)?)?;
    let listed: Listed = serde_json::from_slice(&text).map_err(|error| Error::new_err(error.to_string()))?;
    Ok(listed.devices)
}
