//! Output in Graphviz's DOT language.

use std::fmt::Write as _;

use super::text::{clean, escape};
use super::{Drawing, Node};

/// Default attributes of the graph, nodes and edges.
const PREAMBLE: &str = r##"  graph [rankdir=TB, nodesep=0.35, ranksep=0.5, labelloc=t, fontname="Helvetica", fontsize=18, bgcolor="#f8fafc"];
  node [shape=plain, fontname="Helvetica", fontsize=11];
  edge [color="#94a3b8", fontcolor="#526077", fontname="Courier", fontsize=9, arrowsize=0.7];
"##;

/// Writes the complete `digraph`.
pub(super) fn write(drawing: &Drawing) -> String {
    let title = quote(&drawing.title);
    let mut dot = format!("digraph {title} {{\n{PREAMBLE}  label={title};\n");
    for (index, node) in drawing.nodes.iter().enumerate() {
        let _ = writeln!(dot, "  n{index} [label=<{}>];", table(node));
    }
    for (_, edge) in drawing.valid_edges() {
        let _ = write!(dot, "  n{} -> n{}", edge.from, edge.to);
        dot.push_str(&if edge.label.is_empty() {
            String::new()
        } else {
            format!(" [label={}]", quote(&edge.label))
        });
        dot.push_str(";\n");
    }
    dot.push_str("}\n");
    dot
}

/// A card as an HTML-like table: a coloured header, the name and the details.
fn table(node: &Node) -> String {
    let colour = node.kind.colour();
    let mut table = format!(
        r##"<table border="1" cellborder="0" cellspacing="0" cellpadding="5" color="{colour}" bgcolor="#ffffff">"##
    );
    let mut row = |attributes: &str, opening: &str, text: &str, closing: &str| {
        let _ = write!(
            table,
            r#"<tr><td align="left"{attributes}>{opening}{}{closing}</td></tr>"#,
            escape(&clean(text))
        );
    };
    let header = format!(r#" bgcolor="{colour}""#);
    let title = if node.title.is_empty() { " " } else { &node.title };
    row(&header, r##"<font color="#ffffff"><b>"##, title, "</b></font>");
    for line in std::iter::once(&node.subtitle).chain(&node.details).filter(|line| !line.is_empty()) {
        row("", r#"<font face="Courier">"#, line, "</font>");
    }
    table.push_str("</table>");
    table
}

/// Quotes a string. Backslashes are doubled, so that Graphviz does not interpret them as escapes.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in clean(text).chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    /// Splits DOT text into statements; quotes and angle brackets must be balanced.
    fn statements(dot: &str) -> Vec<String> {
        let (mut quoted, mut escaped, mut depth) = (false, false, 0_usize);
        let mut statements = vec![String::new()];
        for c in dot.chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '<' if !quoted => depth += 1,
                '>' if !quoted && !statements.last().unwrap().ends_with('-') => {
                    depth = depth.checked_sub(1).expect("balanced")
                }
                ';' if !quoted && depth == 0 => {
                    statements.push(String::new());
                    continue;
                }
                _ => {}
            }
            statements.last_mut().unwrap().push(c);
        }
        assert!(!quoted && depth == 0, "{dot}");
        statements.iter().map(|statement| statement.trim().to_owned()).collect()
    }

    #[test]
    fn every_sample_has_one_statement_for_each_node_and_edge() {
        for drawing in samples::all() {
            let statements = statements(&drawing.to_dot());
            let starting =
                |start: &str| statements.iter().filter(|statement| statement.starts_with(start)).count();
            let edges = statements.iter().filter(|statement| statement.contains(" -> n")).count();
            assert_eq!(edges, drawing.valid_edges().count(), "{}", drawing.title);
            assert_eq!(
                statements.iter().filter(|statement| statement.contains(" [label=<")).count(),
                drawing.nodes.len()
            );
            assert_eq!((starting("digraph"), starting("}")), (1, 1));
        }
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quote(r#"a "b" \N"#), r#""a \"b\" \\N""#);
        assert_eq!(quote("a\nb\u{0}"), "\"a\u{fffd}b\u{fffd}\"");
        let mut drawing = samples::plain(2, &[(0, 1)]);
        drawing.title = r#"}; "x" -> <y> \"#.into();
        drawing.nodes[0].title = String::new();
        drawing.nodes[0].subtitle = r#"<b>"&;"#.into();
        drawing.edges[0].label = r#"1"]; n0 -> n0 ["#.into();
        let dot = drawing.to_dot();
        assert_eq!(statements(&dot).iter().filter(|statement| statement.starts_with('n')).count(), 2 + 1 + 1);
        assert!(dot.contains("&lt;b&gt;&quot;&amp;;"));
    }

    #[test]
    fn unknown_indices_are_left_out_and_loops_are_kept() {
        let dot = samples::plain(2, &[(0, 2), (9, 1), (0, 0), (0, 1)]).to_dot();
        assert_eq!(dot.matches(" -> ").count(), 2);
        assert!(dot.contains("n0 -> n0;") && dot.contains("n0 -> n1;"));
    }

    #[test]
    fn the_same_drawing_gives_the_same_text() {
        assert_eq!(samples::resnet().to_dot(), samples::resnet().to_dot());
    }
}
