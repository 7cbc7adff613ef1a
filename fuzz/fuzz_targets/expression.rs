//! Any text as an expression: an error or a tree that prints to a text of the same tree.

#![no_main]

use ixion::pnnx::Expr;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(tree) = Expr::parse(text) else { return };
    let printed = tree.to_string();
    let again = Expr::parse(&printed).expect("what was printed can be read");
    assert_eq!(again.to_string(), printed);
});
