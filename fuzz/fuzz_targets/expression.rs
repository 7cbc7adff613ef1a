//! Parses any text as an expression, which must give an error or a tree whose printed form parses into the same tree.

#![no_main]

use ixion::pnnx::Expr;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(tree) = Expr::parse(text) else { return };
    let printed = tree.to_string();
    let again = Expr::parse(&printed).expect("printed expressions must parse");
    assert_eq!(again.to_string(), printed);
});
