//! Names of plugins: whose layer it is, for which operators, in which version.

use crate::graph::registry::{Creator, RegistryError};
use std::fmt;
use std::str::FromStr;

/// Namespace, type and version of a layer, written `namespace/type/version`.
///
/// ```
/// use ixion::graph::PluginName;
/// let name: PluginName = "acme/Conv/1".parse()?;
/// assert_eq!((name.namespace(), name.op_type(), name.version()), ("acme", "Conv", "1"));
/// let error = "Conv".parse::<PluginName>().unwrap_err().to_string();
/// assert_eq!(error, "`Conv` is no name of a plugin: a name has three parts: namespace/type/version, such as acme/Conv/1");
/// # Ok::<(), ixion::graph::RegistryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginName {
    namespace: String,
    op_type: String,
    version: String,
}

impl PluginName {
    /// The most bytes of a namespace, a type or a version.
    pub const MAX_BYTES: usize = 1024;

    /// A name of these parts.
    ///
    /// # Errors
    /// [`RegistryError::Name`] for a part that is empty, longer than [`PluginName::MAX_BYTES`], or has a `/` or blanks in it.
    pub fn new(
        namespace: impl Into<String>,
        op_type: impl Into<String>,
        version: impl Into<String>,
    ) -> Result<Self, RegistryError> {
        let name = Self { namespace: namespace.into(), op_type: op_type.into(), version: version.into() };
        let parts = [("namespace", &name.namespace), ("type", &name.op_type), ("version", &name.version)];
        let fault = parts.iter().find_map(|(what, part)| fault(what, part));
        match fault {
            Some(reason) => Err(RegistryError::Name { name: name.shortened(), reason }),
            None => Ok(name),
        }
    }

    /// Whose it is: `ixion` for the built-in layers.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The type of the operators that it runs.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The version, counted up when the meaning of the fields changes.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn is_of<L: ?Sized>(&self, creator: &Creator<L>) -> bool {
        creator.namespace == self.namespace && creator.version == self.version
    }

    /// The name as a message can show it.
    fn shortened(&self) -> String {
        const MOST: usize = 80;
        let text = self.to_string();
        match text.char_indices().nth(MOST) {
            Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
            None => text,
        }
    }
}

/// What is wrong with a part of a name.
fn fault(what: &str, part: &str) -> Option<String> {
    let most = PluginName::MAX_BYTES;
    match part {
        "" => Some(format!("its {what} is empty")),
        _ if part.len() > most => {
            Some(format!("its {what} has {} bytes, and {most} are allowed", part.len()))
        }
        _ if part.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) => {
            Some(format!("its {what} has a slash, a blank or a control character in it"))
        }
        _ => None,
    }
}

/// What can be done about a layer that is there already. Of a plugin, the type is its name.
pub(in crate::graph) fn advice_for_duplicate(op_type: &str) -> &'static str {
    match op_type.parse::<PluginName>() {
        Ok(_) => "it was given twice, or two libraries have it; `replace_plugin` takes its place",
        Err(_) => "use `replace` to take its place",
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.op_type, self.version)
    }
}

impl FromStr for PluginName {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [namespace, op_type, version] => Self::new(namespace, op_type, version),
            _ => Err(RegistryError::Name {
                name: text.chars().take(80).collect(),
                reason: "a name has three parts: namespace/type/version, such as acme/Conv/1".to_owned(),
            }),
        }
    }
}
