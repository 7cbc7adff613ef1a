//! The operators that can run: `ixion.operators`.

use crate::command::{option, output};
use crate::error::Error;
use crate::given;
use crate::pickling::{Reduced, reduced};
use crate::progress::Bar;
use pyo3::prelude::*;
use serde::Deserialize;
use std::ffi::OsString;

/// Adds the classes and the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Field>()?;
    module.add_class::<Operator>()?;
    module.add_function(wrap_pyfunction!(operators, module)?)?;
    module.add_function(wrap_pyfunction!(restore_field, module)?)?;
    module.add_function(wrap_pyfunction!(restore_operator, module)?)
}

/// A parameter or a weight of an operator.
///
/// Attributes
/// ----------
/// key : str
///     The name in a ``.param`` file.
/// kind : str
///     What it holds, such as ``integer`` or ``weight``.
/// default : str or None
///     The default, as in a file; None if the field is required.
/// doc : str
///     What it means.
#[pyclass(frozen, get_all, eq, hash, module = "ixion")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Field {
    key: String,
    kind: String,
    default: Option<String>,
    doc: String,
}

/// The fields of a field, in their order.
type FieldFields = (String, String, Option<String>, String);

impl Field {
    fn of((key, kind, default, doc): FieldFields) -> Self {
        Self { key, kind, default, doc }
    }

    fn fields(&self) -> FieldFields {
        let Self { key, kind, default, doc } = self.clone();
        (key, kind, default, doc)
    }
}

#[pymethods]
impl Field {
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduced(py, "_restore_field", self.fields())
    }

    fn __repr__(&self) -> String {
        match &self.default {
            Some(default) => format!("<ixion.Field {}={default}: {}>", self.key, self.kind),
            None => format!("<ixion.Field {}: {}>", self.key, self.kind),
        }
    }
}

/// An operator that can run.
///
/// Attributes
/// ----------
/// type : str
///     The type in a ``.param`` file, such as ``nn.Conv2d``.
/// doc : str
///     What it computes, in a sentence.
/// namespace, version : str
///     Where its layer comes from: ``ixion`` and ``1`` for built-in layers, else those of a plugin.
/// fields : list of Field
///     Its parameters and weights.
#[pyclass(frozen, eq, hash, module = "ixion")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct Operator {
    #[pyo3(get, name = "type")]
    #[serde(rename = "type")]
    op_type: String,
    #[pyo3(get)]
    doc: String,
    #[pyo3(get)]
    namespace: String,
    #[pyo3(get)]
    version: String,
    #[pyo3(get)]
    fields: Vec<Field>,
}

/// The fields of an operator, in their order.
type OperatorFields = (String, String, String, String, Vec<FieldFields>);

#[pymethods]
impl Operator {
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let Self { op_type, doc, namespace, version, fields } = self.clone();
        let fields = fields.iter().map(Field::fields).collect();
        let all: OperatorFields = (op_type, doc, namespace, version, fields);
        reduced(py, "_restore_operator", all)
    }

    fn __repr__(&self) -> String {
        let keys: Vec<&str> = self.fields.iter().map(|field| field.key.as_str()).collect();
        format!("<ixion.Operator {}({})>", self.op_type, keys.join(", "))
    }
}

/// Unpickles a field.
#[pyfunction]
#[pyo3(name = "_restore_field")]
fn restore_field(fields: FieldFields) -> Field {
    Field::of(fields)
}

/// Unpickles an operator.
#[pyfunction]
#[pyo3(name = "_restore_operator")]
fn restore_operator(fields: OperatorFields) -> Operator {
    let (op_type, doc, namespace, version, fields) = fields;
    Operator { op_type, doc, namespace, version, fields: fields.into_iter().map(Field::of).collect() }
}

/// What `ixion operators --json` prints.
#[derive(Deserialize)]
struct Listed {
    operators: Vec<Operator>,
}

/// List the operators that can run.
///
/// Parameters
/// ----------
/// filter : str
///     List only types that contain this text, ignoring case.
/// plugins : path or sequence of paths
///     Libraries of further operators. Their code runs, so load only what you trust.
///
/// Returns
/// -------
/// list of Operator
///     Sorted by type.
///
/// Raises
/// ------
/// ixion.PluginError
///     If a library is not a plugin.
#[pyfunction]
#[pyo3(signature = (filter="", *, plugins=None), text_signature = "(filter='', *, plugins=())")]
fn operators(py: Python<'_>, filter: &str, plugins: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Operator>> {
    let mut words: Vec<OsString> = vec!["operators".into(), "--json".into()];
    let plugins = plugins.map_or_else(|| Ok(Vec::new()), |plugins| given::paths(plugins, "plugins"))?;
    words.extend(plugins.into_iter().map(|plugin| option("--plugin", plugin)));
    // A text that begins with a hyphen is no option.
    words.extend([OsString::from("--"), filter.into()]);
    let text = output(py, words, Bar::new(None)?)?;
    let listed: Listed = serde_json::from_slice(&text).map_err(|error| Error::new_err(error.to_string()))?;
    Ok(listed.operators)
}
