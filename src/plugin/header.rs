//! The header for plugins in C, generated from the definitions in Rust.

use super::abi;
use super::declare::{Constant, Struct};

const WIDTH: usize = 110;

const HEAD: &str = "\
/* Plugins for Ixion: layers in C, or in any language that can be called from C.
 *
 * A library exports one symbol, ixion_plugin; everything else is found through the table that it returns. See the page
 * \"Plugins in C\" of the book.
 *
 * Generated from src/plugin/abi.rs by `IXION_WRITE=1 cargo test --test it plugin_header`.
 */
#ifndef IXION_PLUGIN_H
#define IXION_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

const TAIL: &str = "
/* Exports the symbol that every plugin has. Libraries hide other symbols with -fvisibility=hidden. */
#if defined(_WIN32)
#define IXION_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define IXION_EXPORT __attribute__((visibility(\"default\")))
#else
#define IXION_EXPORT
#endif

/* Returns the table of the plugin, or null if it has none for this version of the interface. */
IXION_EXPORT const ixion_plugin_table *ixion_plugin(uint32_t abi);

#ifdef __cplusplus
}
#endif

#endif
";

/// The text of `include/ixion_plugin.h`.
pub fn header() -> String {
    let mut text = HEAD.to_owned();
    let mut kind = None;
    for constant in abi::constants() {
        let next = kind_of(&constant);
        if kind.replace(next) != Some(next) {
            text.push('\n');
        }
        text.push_str(&definition(&constant));
    }
    text.push('\n');
    let structs = abi::structs();
    for one in &structs {
        text.push_str(&format!("typedef struct {0} {0};\n", one.name));
    }
    structs.iter().for_each(|one| text.push_str(&definition_of(one)));
    text + TAIL
}

/// The kind of a constant, which is the text before the colon. A blank line separates kinds.
fn kind_of(constant: &Constant) -> &'static str {
    constant.doc.split_once(": ").map_or("", |(kind, _)| kind)
}

fn definition(constant: &Constant) -> String {
    let value = match constant.value {
        i64::MIN => "INT64_MIN".to_owned(),
        value => value.to_string(),
    };
    format!("#define {} {} /* {} */\n", constant.name, value, constant.doc.trim().trim_end_matches('.'))
}

fn definition_of(one: &Struct) -> String {
    let mut text = format!("\n{}struct {} {{\n", comment(one.doc, ""), one.name);
    for (position, member) in one.members.iter().enumerate() {
        if position > 0 && member.declaration.contains("(*") {
            text.push('\n');
        }
        text.push_str(&comment(member.doc, "    "));
        text.push_str(&declaration(&member.declaration));
    }
    text + "};\n"
}

/// A declaration, with line breaks only after arguments.
fn declaration(text: &str) -> String {
    const KEPT: &str = "\u{a0}";
    let arguments = text.replace(", ", ",\n").replace(' ', KEPT).replace('\n', " ");
    wrapped(&format!("{arguments};"), "    ", "        ").replace(KEPT, " ")
}

/// A comment, wrapped to the maximum width; empty lines are kept.
fn comment(doc: &str, indent: &str) -> String {
    let paragraphs: Vec<String> = doc.split("\n\n").map(words).collect();
    let rest = format!("{indent} * ");
    let mut lines = Vec::new();
    for paragraph in &paragraphs {
        if !lines.is_empty() {
            lines.push(format!("{indent} *"));
        }
        let first = if lines.is_empty() { format!("{indent}/* ") } else { rest.clone() };
        lines.extend(wrapped(paragraph, &first, &rest).lines().map(str::to_owned));
    }
    lines.join("\n") + " */\n"
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text wrapped to the maximum width. The first line starts with `first`, the others with `rest`.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + word.chars().count() + 1 > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line = rest.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines + &line + "\n"
}
