//! The table of passes in the book, `book/src/reference/passes.md`: made from the registry of passes.
//!
//! `IXION_WRITE=1 cargo test --test it pass_table` writes it anew.

use ixion::passes::Passes;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Passes

<!-- Made by `IXION_WRITE=1 cargo test --test it pass_table`. -->

What is done to a graph before it runs, in this order, again and again until nothing changes any more. A pass fires only
where what takes the place computes the same for every input; where something looks alike and is not, it says why:
`ixion plan MODEL.param` lists it. `--without NAME` leaves a pass out, and so does `Passes::set_enabled`.

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
    assert!(written == table, "{} is not up to date; IXION_WRITE=1 writes it", path.display());
}
