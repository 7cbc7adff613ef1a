//! Reading the texts of a library.

use super::abi::MAX_NAME;
use super::error::{PluginProblem, broken};
use std::ffi::{CStr, c_char};

type Result<T> = std::result::Result<T, PluginProblem>;

/// The maximum length in bytes of a description, a default or the words for a kind.
const MAX_TEXT: usize = 1 << 16;

/// Reads a name, which has at least one byte and no characters that would end a word of a `.param` text.
///
/// # Safety
/// Same as [`text`].
pub(super) unsafe fn name(pointer: *const c_char, place: &str, what: &str) -> Result<String> {
    // SAFETY: by contract.
    let name = unsafe { bounded(pointer, MAX_NAME as usize, place, what) }?;
    let name = name.ok_or_else(|| broken(place, format!("{what} is null")))?;
    if name.is_empty() {
        return Err(broken(place, format!("{what} is empty")));
    }
    if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(broken(place, format!("{what}, {name:?}, has a blank or a control character")));
    }
    Ok(name.to_owned())
}

/// Reads a text; `None` if the pointer is null.
///
/// # Safety
/// A pointer that is not null must point to a text that ends with a zero byte.
pub(super) unsafe fn text<'a>(pointer: *const c_char, place: &str, what: &str) -> Result<Option<&'a str>> {
    // SAFETY: by contract.
    unsafe { bounded(pointer, MAX_TEXT, place, what) }
}

/// # Safety
/// As [`text`].
unsafe fn bounded<'a>(
    pointer: *const c_char,
    max: usize,
    place: &str,
    what: &str,
) -> Result<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: by contract the text ends with a zero, and nothing after it is read.
    let length = (0..=max).find(|&at| unsafe { *pointer.add(at) } == 0);
    let Some(length) = length else {
        return Err(broken(place, format!("{what} is longer than {max} bytes")));
    };
    // SAFETY: the bytes up to there were just read.
    let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) };
    let text = std::str::from_utf8(bytes);
    text.map(Some).map_err(|_| broken(place, format!("{what} is not UTF-8")))
}

/// The text at a pointer, with `�` in place of bytes that are not UTF-8.
///
/// # Safety
/// Same as [`text`].
pub(super) unsafe fn lossy(pointer: *const c_char) -> Option<String> {
    // SAFETY: by contract.
    let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })?;
    Some(text.to_string_lossy().into_owned())
}
