//! Plugin names: namespace, operator type and version, and the error for names that are taken, unknown or invalid.

use std::fmt;
use std::str::FromStr;

// ANCHOR: name
/// Namespace, type and version of a layer, written `namespace/type/version`.
///
/// ```
/// use ixion_ops::op::PluginName;
/// let name: PluginName = "acme/Conv/1".parse()?;
/// assert_eq!((name.namespace(), name.op_type(), name.version()), ("acme", "Conv", "1"));
/// let error = "Conv".parse::<PluginName>().unwrap_err().to_string();
/// assert_eq!(error, "`Conv` is not a valid plugin name: expected three parts, namespace/type/version, such as acme/Conv/1");
/// # Ok::<(), ixion_ops::op::RegistryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginName {
    namespace: String,
    op_type: String,
    version: String,
}

impl PluginName {
    /// The maximum length of a namespace, type or version in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Creates a name from its parts.
    ///
    /// # Errors
    /// [`RegistryError::Name`] if a part is empty, is longer than [`PluginName::MAX_BYTES`], or contains a slash, whitespace or
    /// control characters.
    pub fn new(
        namespace: impl Into<String>,
        op_type: impl Into<String>,
        version: impl Into<String>,
    ) -> Result<Self, RegistryError> {
        // ANCHOR: new_todo -- task 1: the three parts, or an error with the first problem of a part
        let name = Self { namespace: namespace.into(), op_type: op_type.into(), version: version.into() };
        let parts = [("namespace", &name.namespace), ("type", &name.op_type), ("version", &name.version)];
        match parts.iter().find_map(|(what, part)| fault(what, part)) {
            Some(reason) => Err(RegistryError::Name { name: shortened(&name.to_string()), reason }),
            None => Ok(name),
        }
        // ANCHOR_END: new_todo
    }

    /// The namespace: `ixion` for built-in layers.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The type of the operators that it runs.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The version, incremented when the meaning of the fields changes.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// The first problem of a part of a name, if any.
fn fault(what: &str, part: &str) -> Option<String> {
    // ANCHOR: fault_todo -- task 1: empty, too many bytes, or a character that is not allowed
    let most = PluginName::MAX_BYTES;
    if part.is_empty() {
        return Some(format!("its {what} is empty"));
    }
    if part.len() > most {
        return Some(format!("its {what} has {} bytes, the maximum is {most}", part.len()));
    }
    let is_wrong = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    part.contains(is_wrong).then(|| format!("its {what} contains a slash, whitespace or a control character"))
    // ANCHOR_END: fault_todo
}

/// A name, shortened for error messages.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ANCHOR: display_todo -- task 1: namespace/type/version
        write!(f, "{}/{}/{}", self.namespace, self.op_type, self.version)
        // ANCHOR_END: display_todo
    }
}

impl FromStr for PluginName {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        // ANCHOR: from_str_todo -- task 1: the text split at its slashes, if that gives three parts
        match text.split('/').collect::<Vec<_>>()[..] {
            [namespace, op_type, version] => Self::new(namespace, op_type, version),
            _ => Err(RegistryError::Name {
                name: shortened(text),
                reason: "expected three parts, namespace/type/version, such as acme/Conv/1".to_owned(),
            }),
        }
        // ANCHOR_END: from_str_todo
    }
}
// ANCHOR_END: name

/// An operator type that is already registered, is not registered, or has an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The type already has a creator.
    #[error("a layer is already registered for `{op_type}`; {}", advice_for_duplicate(op_type))]
    Duplicate {
        /// The operator type.
        op_type: String,
    },
    /// The type has no creator.
    #[error("no layer is registered for `{op_type}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    Missing {
        /// The operator type.
        op_type: String,
        /// The registered type with the most similar name.
        nearest: Option<String>,
    },
    /// An invalid plugin name.
    #[error("`{name}` is not a valid plugin name: {reason}")]
    Name {
        /// The given name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// The advice for a layer that is already registered. For a plugin, `op_type` is its full name.
fn advice_for_duplicate(op_type: &str) -> &'static str {
    match op_type.parse::<PluginName>() {
        Ok(_) => "it was registered twice, or two libraries provide it; use `replace_plugin` to replace it",
        Err(_) => "use `replace` to replace it",
    }
}
