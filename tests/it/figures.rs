//! Numbers in documents match the measurements.

use std::path::Path;

fn text(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn the_table_of_the_readme_is_the_one_that_was_measured() {
    let (report, readme) = (text("benches/results/compare.md"), text("README.md"));
    let table = report.split("\n\n").find(|part| part.starts_with('|')).unwrap();
    assert!(
        readme.contains(table),
        "README.md lacks the first table of benches/results/compare.md (written by `python benches/compare.py --markdown`); copy it:\n{table}"
    );
    let versions = report.split("\n\n").nth(1).unwrap();
    assert!(readme.contains(versions), "README.md lacks these versions: {versions}");
}
