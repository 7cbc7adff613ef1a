//! Reading and validating a library's table.

use super::abi::{self, Operator, Plugin};
use super::error::{PluginProblem, broken};
use super::text::{name, text};
use super::values::{CheckedField, fallback};
use crate::op::{Creator, Field, FieldDefault, PluginName};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

type Result<T> = std::result::Result<T, PluginProblem>;

/// The maximum numbers of operators in a library, and of fields of an operator.
const MAX_COUNT: usize = 4096;

/// The functions that every operator must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Required {
    pub(super) create: abi::Create,
    pub(super) clone: abi::Clone,
    pub(super) destroy: abi::Destroy,
    pub(super) infer: abi::Infer,
    pub(super) forward: abi::Forward,
}

/// An operator with a validated description. It lives as long as the process, as does its library.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) type_name: String,
    pub(super) name_space: String,
    pub(super) version: String,
    pub(super) doc: String,
    pub(super) fields: Vec<CheckedField>,
    pub(super) required: Required,
    /// A copy of the library's table. Members that the library does not have are null.
    pub(super) table: Operator,
    /// The library's own table, which is passed to its functions.
    pub(super) original: *const Operator,
}

// SAFETY: tables are never written after they are created, and any thread may call their functions.
unsafe impl Send for Checked {}
// SAFETY: as above.
unsafe impl Sync for Checked {}

/// Reads the table of a library: its name and its operators.
///
/// # Errors
/// [`PluginProblem::Version`] or [`PluginProblem::Broken`] if the table is of another version or invalid.
///
/// # Safety
/// Pointers that are aligned and not null must point to what the header requires, for as long as the process runs.
pub(super) unsafe fn read(table: *const Plugin) -> Result<(String, Vec<Checked>)> {
    let table = present(table, "", "the table")?;
    // SAFETY: by contract; version and size have the same offsets in every version of the table.
    let (abi, size) = unsafe { ((*table.as_ptr()).abi, (*table.as_ptr()).size) };
    if abi != abi::ABI {
        return Err(PluginProblem::Version { found: abi });
    }
    check_size("", size, abi::MIN_PLUGIN)?;
    // SAFETY: by contract, the table has `size` bytes; all members may be null or zero.
    let table: Plugin = unsafe { grown(table, size) };
    // SAFETY: by contract.
    let name = unsafe { name(table.name, "", "the plugin's name") }?;
    if table.num_operators == 0 {
        return Err(broken("", "it has no operators"));
    }
    // SAFETY: by contract.
    let operators = unsafe { list(table.operators, table.num_operators, "", "operators") }?;
    let mut checked: Vec<Checked> = Vec::with_capacity(operators.len());
    for (position, &operator) in operators.iter().enumerate() {
        // SAFETY: by contract.
        let next = unsafe { self::operator(operator, position) }?;
        let names = |it: &Checked| [it.name_space.clone(), it.type_name.clone(), it.version.clone()];
        if checked.iter().any(|other| names(other) == names(&next)) {
            return Err(broken("", format!("it has `{}` twice", names(&next).join("/"))));
        }
        checked.push(next);
    }
    Ok((name, checked))
}

/// # Safety
/// As [`read`].
unsafe fn operator(original: *const Operator, position: usize) -> Result<Checked> {
    let place = format!("operator {position}");
    let pointer = present(original, &place, "its description")?;
    // SAFETY: by contract; the size comes first in every version.
    let size = unsafe { (*pointer.as_ptr()).size };
    check_size(&place, size, abi::MIN_OPERATOR)?;
    // SAFETY: by contract, the table has `size` bytes; all members may be null or zero.
    let table: Operator = unsafe { grown(pointer, size) };
    // SAFETY: by contract.
    let type_name = unsafe { name(table.type_name, &place, "its type") }?;
    let place = format!("`{type_name}`");
    // SAFETY: by contract.
    let name_space = unsafe { name(table.name_space, &place, "its namespace") }?;
    if name_space == Creator::<dyn crate::op::CpuLayer>::BUILT_IN {
        return Err(broken(&place, "its namespace is Ixion's own"));
    }
    // SAFETY: by contract.
    let version = unsafe { name(table.version, &place, "its version") }?;
    PluginName::new(&*name_space, &*type_name, &*version).map_err(|error| broken("", error.to_string()))?;
    // SAFETY: by contract.
    let doc = unsafe { text(table.doc, &place, "its description") }?.unwrap_or_default().to_owned();
    if table.min_inputs > table.max_inputs {
        let reason =
            format!("it takes at least {} and at most {} inputs", table.min_inputs, table.max_inputs);
        return Err(broken(&place, reason));
    }
    if table.flags & !abi::TAKES_STRIDES != 0 {
        return Err(broken(&place, format!("it has unknown flags: {:#x}", table.flags)));
    }
    // SAFETY: by contract.
    let fields = unsafe { fields(&table, &place) }?;
    let required = required(&table, &place)?;
    Ok(Checked { type_name, name_space, version, doc, fields, required, table, original })
}

fn required(table: &Operator, place: &str) -> Result<Required> {
    let missing = |name: &str| broken(place, format!("its function `{name}` is null"));
    Ok(Required {
        create: table.create.ok_or_else(|| missing("create"))?,
        clone: table.clone.ok_or_else(|| missing("clone"))?,
        destroy: table.destroy.ok_or_else(|| missing("destroy"))?,
        infer: table.infer.ok_or_else(|| missing("infer"))?,
        forward: table.forward.ok_or_else(|| missing("forward"))?,
    })
}

/// # Safety
/// As [`read`].
unsafe fn fields(table: &Operator, place: &str) -> Result<Vec<CheckedField>> {
    // SAFETY: by contract.
    let fields = unsafe { list(table.fields, table.num_fields, place, "fields") }?;
    let mut checked: Vec<CheckedField> = Vec::with_capacity(fields.len());
    for (position, field) in fields.iter().enumerate() {
        // SAFETY: by contract.
        let next = unsafe { self::field(field, position, place) }?;
        if checked.iter().any(|other| other.published.key == next.published.key) {
            return Err(broken(place, format!("it has the field `{}` twice", next.published.key)));
        }
        checked.push(next);
    }
    Ok(checked)
}

/// # Safety
/// As [`read`].
unsafe fn field(field: &abi::Field, position: usize, place: &str) -> Result<CheckedField> {
    let what = format!("the key of field {position}");
    // SAFETY: by contract, here and below.
    let key = leaked(&unsafe { name(field.key, place, &what) }?);
    let what = |what: &str| format!("the {what} of field `{key}`");
    // SAFETY: by contract.
    let doc = unsafe { text(field.doc, place, &what("description")) }?.unwrap_or_default();
    // SAFETY: by contract.
    let default = unsafe { text(field.fallback, place, &what("fallback")) }?;
    // SAFETY: by contract.
    let words = unsafe { text(field.kind_name, place, &what("name of the kind")) }?;
    let usual = match field.kind {
        abi::INT => "an integer",
        abi::FLOAT => "a number",
        abi::BOOLEAN => "a bool",
        abi::STRING => "a string",
        abi::INTS => "a list of integers",
        abi::FLOATS => "a list of numbers",
        abi::WEIGHT => "a weight",
        abi::OPTIONAL_WEIGHT => "a weight or None",
        abi::INPUT => crate::op::INPUT_KIND,
        other => {
            return Err(broken(place, format!("field `{key}` has the unknown kind {other}")));
        }
    };
    if let Some(text) = default
        && !is_fallback(field.kind, text)
    {
        return Err(broken(place, format!("the fallback of field `{key}`, `{text}`, is not {usual}")));
    }
    let kind = words.map_or(usual, leaked);
    let published = Field {
        key,
        kind,
        default: default.map(leaked).map(FieldDefault::Text),
        doc: leaked(doc),
        is_parameter: false,
    };
    Ok(CheckedField { kind: field.kind, published, key: field.key })
}

/// Returns true if a fallback has its field's kind. The fallback of weights and inputs that may be absent is `None`.
fn is_fallback(kind: i32, text: &str) -> bool {
    match kind {
        abi::WEIGHT | abi::OPTIONAL_WEIGHT | abi::INPUT => text == "None",
        kind => fallback(kind, text).is_some(),
    }
}

/// Leaks a published text: it must live as long as its library, which is never unloaded.
fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn present<T>(pointer: *const T, place: &str, what: &str) -> Result<NonNull<T>> {
    match NonNull::new(pointer.cast_mut()) {
        None => Err(broken(place, format!("{what} is null"))),
        Some(pointer) if !pointer.is_aligned() => Err(broken(place, format!("{what} is not aligned"))),
        Some(pointer) => Ok(pointer),
    }
}

fn check_size(place: &str, found: usize, wanted: usize) -> Result<()> {
    if found >= wanted {
        return Ok(());
    }
    let reason =
        format!("the `size` of its table is {found} bytes, expected at least {wanted}; set it with sizeof");
    Err(broken(place, reason))
}

/// Copies a table of `size` bytes into a `T`. Members that the table lacks are null; members that `T` lacks are ignored.
///
/// # Safety
/// `size` bytes must be readable at the pointer, and a `T` whose bytes are all zero must be valid.
unsafe fn grown<T: Copy, U>(table: NonNull<U>, size: usize) -> T {
    let mut copy = MaybeUninit::<T>::zeroed();
    // Appended members are pointers: a partial pointer would be worse than null.
    let whole = size - size % size_of::<usize>();
    // SAFETY: by contract; both have at least that many bytes, and the rest of the copy is zero.
    unsafe {
        copy.as_mut_ptr()
            .cast::<u8>()
            .copy_from_nonoverlapping(table.as_ptr().cast(), whole.min(size_of::<T>()));
        copy.assume_init()
    }
}

/// # Safety
/// There must be `count` elements at the pointer, for as long as the process runs.
unsafe fn list<'a, T>(first: *const T, count: usize, place: &str, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count > MAX_COUNT {
        let reason = format!("it has {count} {what}, but at most {MAX_COUNT} are allowed");
        return Err(broken(place, reason));
    }
    let first = present(first, place, &format!("the list of {what}"))?;
    // SAFETY: by contract; the pointer is aligned and not null.
    Ok(unsafe { std::slice::from_raw_parts(first.as_ptr(), count) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of a later version.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Later {
        operator: Operator,
        more: Option<abi::Destroy>,
    }

    unsafe extern "C" fn more(_: *mut std::ffi::c_void) {}

    fn table() -> Operator {
        // SAFETY: all members may be null or zero.
        let nothing: Operator = unsafe { grown(NonNull::<u8>::dangling(), 0) };
        Operator { size: size_of::<Operator>(), num_outputs: 7, ..nothing }
    }

    #[test]
    fn members_that_an_older_plugin_lacks_are_null() {
        let old = table();
        // SAFETY: the table has these bytes.
        let seen: Later = unsafe { grown(NonNull::from(&old), old.size) };
        assert_eq!(seen.operator.num_outputs, 7);
        assert!(seen.more.is_none() && seen.operator.forward.is_none());
    }

    #[test]
    fn unknown_members_of_a_newer_plugin_are_ignored() {
        let new = Later { operator: table(), more: Some(more) };
        // SAFETY: the table has these bytes.
        let seen: Operator = unsafe { grown(NonNull::from(&new), size_of::<Later>()) };
        assert_eq!((seen.size, seen.num_outputs), (size_of::<Operator>(), 7));
    }

    #[test]
    fn the_minimum_sizes_never_change() {
        let word = size_of::<usize>();
        // Appended members must not change these sizes.
        assert_eq!(abi::MIN_PLUGIN, 8 + 4 * word);
        assert_eq!(abi::MIN_OPERATOR, 21 * word + 16);
    }
}
