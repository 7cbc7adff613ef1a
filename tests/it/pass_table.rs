//! The pass table of the book, `book/src/reference/passes.md`, is generated from the registry of passes.
//!
//! `IXION_WRITE=1 cargo test --test it pass_table` updates it.

use ixion::passes::Passes;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Passes

<!-- Made by `IXION_WRITE=1 cargo test --test it pass_table`. -->

Passes transform a graph before it runs. They are applied in this order, repeatedly until nothing changes. A pass fires only if
the replacement computes the same for every input. If a part of the graph looks similar but does not qualify, the pass reports
why: `ixion plan MODEL.param` lists the reasons. `--without NAME` disables a pass, and so does `Passes::set_enabled`.

| pass | what it does |
|---|---|
";

#[test]
fn the_table_is_that_of_the_registry() {
    let mut table = HEAD.to_owned();
    for entry in Passes::default().iter() {
        writeln!(table, "| `{}` | {} |", entry.pass.name(), entry.pass.doc()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("book/src/reference/passes.md");
    if std::env::var_os("IXION_WRITE").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == table, "{} is out of date; IXION_WRITE=1 updates it", path.display());
}
