//! The style sheet of the SVG: fonts, and colours for light and dark mode.

use super::NodeKind;
use super::labels::LABEL_FONT;
use super::layout::{DETAIL_FONT, NAME_FONT, TITLE_FONT};
use super::page::{HEADING_FONT, LEGEND_FONT, Lines};

const SANS: &str = r#"system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif"#;
const MONO: &str = r#"ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace"#;

/// The rules common to light and dark mode.
const STYLE: &str = "\
.drawing .edges path{fill:none;stroke-width:1.5;marker-end:url(#drawing-head)}
.drawing .edges path:hover{stroke:#2563eb;stroke-width:3}
.drawing .cards rect{stroke-width:1.25}
.drawing .type{fill:#fff;font-weight:600}
.drawing .labels text{stroke-width:4;stroke-linejoin:round;paint-order:stroke}
.drawing .end{text-anchor:end}
";

/// Colours of page, card, edge, heading and name, details and summary, label.
const LIGHT: [&str; 6] = ["#f8fafc", "#ffffff", "#94a3b8", "#0f172a", "#526077", "#526077"];
const DARK: [&str; 6] = ["#0d1117", "#171d27", "#64748b", "#e6edf3", "#a3b1c6", "#a3b1c6"];

/// Writes the style sheet with the rules `more` of a drawing, and the arrowhead marker.
pub(super) fn write(svg: &mut String, kinds: &[NodeKind], more: &str) {
    svg.push_str("<style>\n");
    for (class, font) in [("heading", HEADING_FONT), ("summary", LEGEND_FONT), ("type", TITLE_FONT)] {
        svg.line(format_args!(".drawing .{class}{{font:{}px {SANS}}}", font.size));
    }
    for (class, font) in [("name", NAME_FONT), ("detail", DETAIL_FONT), ("labels text", LABEL_FONT)] {
        svg.line(format_args!(".drawing .{class}{{font:{}px {MONO}}}", font.size));
    }
    svg.push_str(".drawing .heading{font-weight:700}\n");
    svg.push_str(STYLE);
    for kind in kinds {
        let (class, colour) = (kind.class(), kind.colour());
        svg.line(format_args!(
            ".drawing .{class} rect{{stroke:{colour}}}.drawing .{class} .bar{{fill:{colour}}}"
        ));
    }
    colours(svg, &LIGHT);
    svg.push_str("@media (prefers-color-scheme:dark){\n");
    colours(svg, &DARK);
    svg.push_str("}\n");
    svg.push_str(more);
    svg.push_str(
        "</style>\n<defs><marker id=\"drawing-head\" viewBox=\"0 0 10 10\" refX=\"9.2\" refY=\"5\" ",
    );
    svg.push_str("markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">");
    svg.push_str("<path class=\"head\" d=\"M0 1 10 5 0 9 2 5z\"/></marker></defs>\n");
}

fn colours(svg: &mut String, [page, card, edge, text, faint, label]: &[&str; 6]) {
    svg.line(format_args!(".drawing .page{{fill:{page}}}.drawing .card{{fill:{card}}}"));
    svg.line(format_args!(".drawing .edges path{{stroke:{edge}}}.drawing .head{{fill:{edge}}}"));
    svg.line(format_args!(".drawing .heading,.drawing .name{{fill:{text}}}"));
    svg.line(format_args!(".drawing .summary,.drawing .detail{{fill:{faint}}}"));
    svg.line(format_args!(".drawing .labels text{{fill:{label};stroke:{page}}}"));
}
