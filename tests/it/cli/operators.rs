//! `ixion operators`.

use super::command::{exactly, ixion};
use insta::assert_snapshot;

#[test]
fn every_operator_has_its_fields() {
    let json = ixion(["operators", "--json"]).json();
    let operators = json["operators"].as_array().unwrap();
    let types: Vec<&str> = operators.iter().map(|operator| operator["type"].as_str().unwrap()).collect();
    assert!(types.is_sorted() && types.contains(&"nn.Conv2d") && types.contains(&"nn.Linear"), "{types:?}");
    for operator in operators {
        let keys: Vec<&String> = operator.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["type", "doc", "namespace", "version", "fields"]);
        assert!(!operator["doc"].as_str().unwrap().is_empty(), "{operator}");
        for field in operator["fields"].as_array().unwrap() {
            let keys: Vec<&String> = field.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["key", "kind", "default", "doc"]);
            assert!(!field["doc"].as_str().unwrap().is_empty(), "{operator}");
        }
    }
}

#[test]
fn one_operator_as_text_and_as_a_table() {
    exactly(|| assert_snapshot!(ixion(["operators", "CELU"]).fine()));
    let markdown = ixion(["operators", "celu", "--markdown"]).fine();
    assert!(
        markdown.contains("| `F.celu`, `aten::celu`, `nn.CELU` |") && markdown.contains("`alpha=1.0`"),
        "{markdown}"
    );
}
