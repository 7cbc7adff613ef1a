//! SVG output.
//!
//! Colours and fonts are set by a style sheet inside the document, with a dark variant for readers who prefer it.
//! There are no scripts and no external references.

use std::fmt::Write as _;

use super::labels::Label;
use super::layout::{Arrow, CARD_PADDING, Card, DETAIL_FONT, DETAIL_LINE, HEADER, Layout, NAME_LINE};
use super::page::{self, Lines, MARGIN, Px, legend};
use super::text::escape;
use super::{Drawing, Node, NodeKind, style};
use crate::numbers::plural;

/// Minimum width of the document.
const MIN_WIDTH: f64 = 520.0;
/// Maximum width of a line in an arrow's tooltip.
const TOOLTIP_WIDTH: f64 = 1_000.0;
/// Radius of a card's corners.
const RADIUS: f64 = 7.0;

/// Writes the complete document.
pub(super) fn write(drawing: &Drawing) -> String {
    let layout = Layout::new(drawing);
    let width = (layout.width + 2.0 * MARGIN).max(MIN_WIDTH).ceil();
    let kinds = kinds(drawing);
    let legend = legend(&kinds.iter().map(|&kind| page::entry(kind)).collect::<Vec<_>>(), width);
    let top = legend.bottom + 12.0;
    let height = (top + layout.height + MARGIN).ceil();

    let mut svg = page::open(&drawing.title, width, height);
    style::write(&mut svg, &kinds, "");
    page::heading(&mut svg, &drawing.title, &summary(drawing), (width, height));
    svg.push_str(&legend.text);
    let left = (width - layout.width) / 2.0;
    svg.line(format_args!(r#"<g transform="translate({} {})">"#, Px(left), Px(top)));
    edges(&mut svg, drawing, &layout.arrows);
    labels(&mut svg, &layout.labels);
    cards(&mut svg, drawing, &layout.cards);
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The kinds that occur in a drawing, in the order of the legend.
fn kinds(drawing: &Drawing) -> Vec<NodeKind> {
    let occurs = |kind: &NodeKind| drawing.nodes.iter().any(|node| node.kind == *kind);
    NodeKind::ALL.into_iter().filter(occurs).collect()
}

fn summary(drawing: &Drawing) -> String {
    let operators = plural(drawing.nodes.len(), "operator");
    format!("{operators}, {}", plural(drawing.valid_edges().count(), "connection"))
}

fn edges(svg: &mut String, drawing: &Drawing, arrows: &[Arrow]) {
    svg.push_str("<g class=\"edges\">\n");
    for arrow in arrows {
        let tooltip = escape(&edge_tooltip(drawing, arrow.edge));
        svg.line(format_args!(r#"<path d="{}"><title>{tooltip}</title></path>"#, path(&arrow.points)));
    }
    svg.push_str("</g>\n");
}

/// The path through an arrow's points: straight down, or a curve that starts and ends vertically.
fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    let mut last: Option<(f64, f64)> = None;
    for &(x, y) in points {
        let _ = match last {
            None => write!(path, "M{} {}", Px(x), Px(y)),
            Some((before, _)) if before == x => write!(path, "V{}", Px(y)),
            Some((before, top)) => {
                let middle = Px((top + y) / 2.0);
                write!(path, "C{} {middle} {} {middle} {} {}", Px(before), Px(x), Px(x), Px(y))
            }
        };
        last = Some((x, y));
    }
    path
}

/// The names of the cards that an arrow joins, and its label. Texts are elided: a card's name is repeated for each of
/// its arrows, and a very long name must not blow up the document.
fn edge_tooltip(drawing: &Drawing, edge: usize) -> String {
    let short = |text: &str| DETAIL_FONT.elide_middle(text, TOOLTIP_WIDTH);
    let name = |node: usize| match drawing.nodes.get(node) {
        Some(node) if node.subtitle.is_empty() => short(&node.title),
        Some(node) => short(&node.subtitle),
        None => String::new(),
    };
    let Some(edge) = drawing.edges.get(edge) else {
        return String::new();
    };
    let mut tooltip = format!("{} → {}", name(edge.from), name(edge.to));
    if !edge.label.is_empty() {
        tooltip.push('\n');
        tooltip.push_str(&short(&edge.label));
    }
    tooltip
}

fn labels(svg: &mut String, labels: &[Label]) {
    svg.push_str("<g class=\"labels\">\n");
    for label in labels {
        let (x, class) =
            if label.ends_at_arrow { (label.x + label.width, r#" class="end""#) } else { (label.x, "") };
        let (x, y, text) = (Px(x), Px(label.y), escape(&label.text));
        svg.line(format_args!(r#"<text{class} x="{x}" y="{y}">{text}</text>"#));
    }
    svg.push_str("</g>\n");
}

fn cards(svg: &mut String, drawing: &Drawing, cards: &[Card]) {
    svg.push_str("<g class=\"cards\">\n");
    for (node, card) in drawing.nodes.iter().zip(cards) {
        write_card(svg, node, card);
    }
    svg.push_str("</g>\n");
}

fn write_card(svg: &mut String, node: &Node, card: &Card) {
    let (width, height) = (Px(card.width), Px(card.height));
    let (class, x, y) = (node.kind.class(), Px(card.x), Px(card.y));
    svg.line(format_args!(r#"<g class="{class}" transform="translate({x} {y})">"#));
    svg.line(format_args!("<title>{}</title>", escape(&node_tooltip(node))));
    if card.height > HEADER {
        svg.line(format_args!(r#"<rect class="card" width="{width}" height="{height}" rx="{RADIUS}"/>"#));
        let across = Px(card.width - 2.0 * RADIUS);
        let down = Px(HEADER - RADIUS);
        svg.line(format_args!(
            r#"<path class="bar" d="M0 {RADIUS}a{RADIUS} {RADIUS} 0 0 1 {RADIUS}-{RADIUS}h{across}a{RADIUS} {RADIUS} 0 0 1 {RADIUS} {RADIUS}v{down}H0z"/>"#
        ));
    } else {
        svg.line(format_args!(r#"<rect class="bar" width="{width}" height="{height}" rx="{RADIUS}"/>"#));
    }
    let mut text = |class: &str, y: f64, text: &str| {
        let (y, text) = (Px(y), escape(text));
        svg.line(format_args!(r#"<text class="{class}" x="{CARD_PADDING}" y="{y}">{text}</text>"#));
    };
    text("type", HEADER / 2.0 + 4.5, &card.title);
    let mut bottom = HEADER;
    if !card.name.is_empty() {
        bottom += NAME_LINE;
        text("name", bottom - 3.0, &card.name);
    }
    for detail in &card.details {
        bottom += DETAIL_LINE;
        text("detail", bottom - 2.0, detail);
    }
    svg.push_str("</g>\n");
}

fn node_tooltip(node: &Node) -> String {
    let mut lines = vec![node.title.as_str()];
    lines.extend(Some(node.subtitle.as_str()).filter(|name| !name.is_empty()));
    lines.extend(node.details.iter().map(String::as_str));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::samples::{self, tags};
    use super::*;

    #[test]
    fn every_sample_is_a_well_formed_document() {
        for drawing in samples::all() {
            let svg = drawing.to_svg();
            let tags = tags(&svg);
            assert_eq!(tags[0], "svg");
            assert_eq!(svg.matches(r#"transform="translate"#).count(), drawing.nodes.len() + 1);
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{}", drawing.title);
        }
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let mut drawing = samples::plain(2, &[(0, 1)]);
        drawing.title = r#"a<b & "c"</svg>"#.into();
        drawing.nodes[0].subtitle = r#"<script>"&'"#.into();
        drawing.nodes[1].details = vec!["]]> & <x>\u{1}".into()];
        drawing.edges[0].label = r#"<"1×2"&>"#.into();
        let svg = drawing.to_svg();
        assert!(!tags(&svg).contains(&"script".to_owned()));
        assert!(svg.contains("a&lt;b &amp; &quot;c&quot;&lt;/svg&gt;</title>"));
        assert!(svg.contains("&lt;&quot;1×2&quot;&amp;&gt;</text>"));
        assert!(!svg.contains('\u{1}'));
    }

    #[test]
    fn the_same_drawing_gives_the_same_text() {
        for drawing in samples::all() {
            assert_eq!(drawing.to_svg(), drawing.clone().to_svg());
        }
    }

    #[test]
    fn the_legend_names_the_kinds_that_occur() {
        let svg = samples::unet(2).to_svg();
        for kind in NodeKind::ALL {
            let named = svg.contains(&format!(">{}</text>", kind.name()));
            let occurs = samples::unet(2).nodes.iter().any(|node| node.kind == kind);
            assert_eq!(named, occurs, "{kind:?}");
        }
    }

    #[test]
    fn the_full_name_of_an_elided_card_is_in_its_tooltip() {
        let drawing = samples::two_inputs();
        let svg = drawing.to_svg();
        let name = "head.a_name_so_long_that_it_cannot_fit_on_a_card.norm";
        assert!(svg.contains(&format!("<title>nn.LayerNorm\n{name}</title>")));
        assert!(!svg.contains(&format!(">{name}</text>")));
    }

    #[test]
    fn unknown_indices_are_left_out() {
        let svg = samples::plain(2, &[(0, 7), (usize::MAX, 1), (0, 1)]).to_svg();
        assert!(svg.contains("2 operators, 1 connection<"));
        assert_eq!(svg.matches("<path d=").count(), 1);
    }

    #[test]
    fn a_large_graph_stays_small() {
        let count = 5_000;
        let svg = samples::random(count, 5).to_svg();
        assert!(svg.len() < 600 * count, "{} bytes", svg.len());
    }

    #[test]
    fn a_long_name_is_not_repeated_for_each_edge() {
        let mut drawing = samples::plain(2, &[(0, 1); 500]);
        drawing.nodes[0].title = "n".repeat(100_000);
        assert!(drawing.to_svg().len() < 400_000);
    }

    #[test]
    fn paths_bend_only_where_necessary() {
        assert_eq!(path(&[(0.0, 0.0), (0.0, 10.0), (5.0, 20.0)]), "M0 0V10C0 15 5 15 5 20");
    }
}
