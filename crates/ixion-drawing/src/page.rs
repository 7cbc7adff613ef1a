//! Elements common to all drawings: the frame, a heading, a legend, and the formatting of lengths.

use super::NodeKind;
use super::text::{Font, escape};
use std::fmt::{self, Write as _};

/// The margin around the drawing.
pub(super) const MARGIN: f64 = 36.0;

pub(super) const HEADING_FONT: Font = Font::bold_sans(18.0);
pub(super) const LEGEND_FONT: Font = Font::sans(11.5);
/// The font of numbers and names next to a plot.
pub(super) const TICK_FONT: Font = Font::mono(10.5);
/// Baselines of the heading, of the line below it and of the legend's first row, from the top.
const HEADING_LINE: f64 = 46.0;
const SUMMARY_LINE: f64 = 66.0;
const LEGEND_LINE: f64 = 94.0;
const LEGEND_ROW: f64 = 20.0;
/// Size of a legend's colour sample, space after it, and space between entries.
const SAMPLE: f64 = 11.0;
const AFTER_SAMPLE: f64 = 6.0;
const BETWEEN_ENTRIES: f64 = 16.0;

/// A length, formatted with at most one decimal.
pub(super) struct Px(pub(super) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        write!(f, "{}", if tenths == 0.0 { 0.0 } else { tenths })
    }
}

/// A text that is written line by line.
pub(super) trait Lines {
    /// Appends a line.
    fn line(&mut self, text: fmt::Arguments<'_>);
}

impl Lines for String {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a `String` never fails.
        let _ = self.write_fmt(text);
        self.push('\n');
    }
}

/// The start of a document of the given size.
pub(super) fn open(title: &str, width: f64, height: f64) -> String {
    let mut svg = String::new();
    svg.line(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="drawing" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">"#
    ));
    svg.line(format_args!("<title>{}</title>", escape(title)));
    svg
}

/// Writes the background, the heading, and a summary line below it.
pub(super) fn heading(svg: &mut String, title: &str, summary: &str, (width, height): (f64, f64)) {
    svg.line(format_args!(r#"<rect class="page" width="{width}" height="{height}"/>"#));
    let title = escape(&HEADING_FONT.elide_middle(title, width - 2.0 * MARGIN));
    svg.line(format_args!(r#"<text class="heading" x="{MARGIN}" y="{HEADING_LINE}">{title}</text>"#));
    let summary = escape(summary);
    svg.line(format_args!(r#"<text class="summary" x="{MARGIN}" y="{SUMMARY_LINE}">{summary}</text>"#));
}

/// A legend and its bottom edge.
pub(super) struct Legend {
    pub(super) text: String,
    pub(super) bottom: f64,
}

/// The CSS class and the name of a kind, for a legend.
pub(super) fn entry(kind: NodeKind) -> (&'static str, &'static str) {
    (kind.class(), kind.name())
}

/// A legend of (class, name) entries, wrapped to the width.
pub(super) fn legend(entries: &[(&str, &str)], width: f64) -> Legend {
    let mut legend = Legend { text: String::new(), bottom: LEGEND_LINE };
    let mut x = f64::INFINITY;
    let mut y = LEGEND_LINE - LEGEND_ROW;
    for (class, name) in entries {
        let entry = SAMPLE + AFTER_SAMPLE + LEGEND_FONT.width(name);
        if x + entry > width - MARGIN {
            x = MARGIN;
            y += LEGEND_ROW;
            legend.bottom += LEGEND_ROW;
        }
        legend.text.line(format_args!(
            r#"<g class="{class}"><rect class="bar" x="{}" y="{}" width="{SAMPLE}" height="{SAMPLE}" rx="3"/><text class="summary" x="{}" y="{y}">{name}</text></g>"#,
            Px(x),
            Px(y - 9.5),
            Px(x + SAMPLE + AFTER_SAMPLE),
        ));
        x += entry + BETWEEN_ENTRIES;
    }
    legend
}

/// About six round numbers from 0 to at most `max`.
pub(super) fn ticks(max: u64) -> Vec<u64> {
    let rough = (max / 6).max(1);
    let power = 10u64.pow(rough.ilog10());
    let step = [1, 2, 5, 10].into_iter().map(|digit| power.saturating_mul(digit)).find(|&step| step >= rough);
    let step = step.unwrap_or(rough);
    (0..=max / step).map(|count| count * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_one_decimal_at_most() {
        assert_eq!([Px(1.0), Px(1.26), Px(-0.01)].map(|length| length.to_string()), ["1", "1.3", "0"]);
    }

    #[test]
    fn a_legend_has_as_many_rows_as_it_needs() {
        let entries = [("a", "Weighted"), ("b", "Normalisation"), ("c", "Pooling")];
        assert_eq!(legend(&[], 500.0).bottom, LEGEND_LINE);
        assert_eq!(legend(&entries, 500.0).bottom, LEGEND_LINE + LEGEND_ROW);
        assert_eq!(legend(&entries, 150.0).bottom, LEGEND_LINE + 3.0 * LEGEND_ROW);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0), [0]);
        assert_eq!(ticks(7), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(ticks(1344), [0, 500, 1000]);
        assert_eq!(ticks(9_633_792), [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000]);
        assert!(ticks(u64::MAX).len() < 12);
    }
}
