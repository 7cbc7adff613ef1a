//! A timeline of a run: a row for each operator, from top to bottom in execution order, and time from left to right.

use super::page::{self, LEGEND_FONT, Lines, MARGIN, Px, TICK_FONT, legend, ticks};
use super::text::{Font, escape};
use super::{NodeKind, style};
use crate::numbers;
use std::time::Duration;

/// A timeline of a run: start and duration of each operator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The heading.
    pub title: String,
    /// A line below the heading.
    pub summary: String,
    /// The operators, in execution order.
    pub bars: Vec<Bar>,
    /// The duration of the whole run.
    pub total: Duration,
}

/// A bar of the timeline: one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    /// The start time, relative to the start of the run.
    pub start: Duration,
    /// The duration.
    pub time: Duration,
    /// The kind of operator.
    pub kind: NodeKind,
    /// The operator's name.
    pub name: String,
    /// The lines of the tooltip.
    pub tooltip: Vec<String>,
}

/// Width of the plot, maximum space for names on its left, and space for times on its right.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 200.0;
const TIMES: f64 = 76.0;
/// Height of a row, and of the bar in it.
const ROW: f64 = 17.0;
const BAR: f64 = 11.0;
/// Space between the plot and the text next to it.
const GAP: f64 = 7.0;
/// Space for the times above the plot.
const ABOVE: f64 = 16.0;
const NAME_FONT: Font = TICK_FONT;

const STYLE: &str = "\
.drawing .grid{stroke-width:1;opacity:.5}
.drawing .bars rect{stroke:none}
.drawing .bars .row{fill:transparent}
.drawing .bars g:hover .row{fill:#94a3b833}
.drawing .right{text-anchor:end}
.drawing .grid{stroke:#cbd5e1}
@media (prefers-color-scheme:dark){
.drawing .grid{stroke:#334155}
}
";

impl Timeline {
    /// Renders a complete SVG document. Lengths are in CSS pixels; colours follow the reader's light or dark setting.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let names =
            self.bars.iter().map(|bar| NAME_FONT.width(&bar.name)).fold(0.0, f64::max).min(NAMES) + GAP;
        let width = (names + WIDTH + TIMES).max(LEGEND_FONT.width(&self.summary)) + 2.0 * MARGIN;
        let kinds: Vec<NodeKind> = NodeKind::ALL.into_iter().filter(|kind| self.has(*kind)).collect();
        let legend = legend(&kinds.iter().map(|&kind| page::entry(kind)).collect::<Vec<_>>(), width);
        let top = legend.bottom + 2.0 * ABOVE;
        let height = (top + ROW * self.bars.len() as f64 + MARGIN).ceil();

        let mut text = page::open(&self.title, width.ceil(), height);
        style::write(&mut text, &kinds, STYLE);
        page::heading(&mut text, &self.title, &self.summary, (width.ceil(), height));
        text.push_str(&legend.text);
        text.line(format_args!(r#"<g transform="translate({} {})">"#, Px(MARGIN + names), Px(top)));
        self.draw_grid(&mut text);
        self.draw_bars(&mut text, names);
        text.push_str("</g>\n</svg>\n");
        text
    }

    fn has(&self, kind: NodeKind) -> bool {
        self.bars.iter().any(|bar| bar.kind == kind)
    }

    /// The time that spans the plot.
    fn whole(&self) -> Duration {
        let last = self.bars.iter().map(|bar| bar.start.saturating_add(bar.time)).max().unwrap_or_default();
        self.total.max(last)
    }

    /// Draws times above, and vertical lines.
    fn draw_grid(&self, text: &mut String) {
        let down = Px(ROW * self.bars.len() as f64);
        let (whole, most) = (self.whole(), u64::try_from(self.total.as_nanos()).unwrap_or(u64::MAX));
        for time in ticks(most).into_iter().map(Duration::from_nanos) {
            let label = if time.is_zero() { "0".to_owned() } else { numbers::time(time) };
            let (x, left) = (x(time, whole), x(time, whole) - TICK_FONT.width(&label) / 2.0);
            text.line(format_args!(r#"<path class="grid" d="M{} 0v{down}"/>"#, Px(x)));
            text.line(format_args!(r#"<text class="detail" x="{}" y="-{GAP}">{label}</text>"#, Px(left)));
        }
    }

    fn draw_bars(&self, text: &mut String, names: f64) {
        text.push_str("<g class=\"bars\">\n");
        let whole = self.whole();
        for (row, bar) in self.bars.iter().enumerate() {
            let top = ROW * row as f64;
            let (x, right) = (x(bar.start, whole), x(bar.start.saturating_add(bar.time), whole));
            let (class, width) = (bar.kind.class(), (right - x).max(0.7));
            let tooltip = escape(&bar.tooltip.join("\n"));
            text.line(format_args!(r#"<g class="{class}"><title>{tooltip}</title>"#));
            let (left, all) = (Px(-names), Px(names + WIDTH + TIMES));
            text.line(format_args!(
                r#"<rect class="row" x="{left}" y="{}" width="{all}" height="{ROW}"/>"#,
                Px(top)
            ));
            let (y, baseline) = (Px(top + (ROW - BAR) / 2.0), Px(top + ROW / 2.0 + TICK_FONT.size / 3.0));
            text.line(format_args!(
                r#"<rect class="bar" x="{}" y="{y}" width="{}" height="{BAR}" rx="{}"/>"#,
                Px(x),
                Px(width),
                if width > 6.0 { 2 } else { 0 }
            ));
            let name = escape(&NAME_FONT.elide_middle(&bar.name, NAMES));
            text.line(format_args!(r#"<text class="detail right" x="-{GAP}" y="{baseline}">{name}</text>"#));
            let (after, time) = (Px(x + width + GAP), numbers::time(bar.time));
            text.line(format_args!(r#"<text class="name" x="{after}" y="{baseline}">{time}</text></g>"#));
        }
        text.push_str("</g>\n");
    }
}

/// The horizontal position of a time, from the left edge of a plot that spans `whole`.
fn x(time: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { WIDTH * time.div_duration_f64(whole).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::super::samples::tags;
    use super::*;

    /// `count` operators that take a millisecond each, in sequence.
    fn timeline(count: u64) -> Timeline {
        let bar = |row: u64| Bar {
            start: Duration::from_millis(row),
            time: Duration::from_millis(1),
            kind: NodeKind::ALL[row as usize % NodeKind::ALL.len()],
            name: format!("layer{row}.<conv>"),
            tooltip: vec!["nn.Conv2d".into(), "1×3 & more".into()],
        };
        Timeline {
            title: "a<b".into(),
            summary: "two & two".into(),
            bars: (0..count).map(bar).collect(),
            total: Duration::from_millis(count),
        }
    }

    #[test]
    fn every_timeline_is_a_well_formed_document() {
        for timeline in
            [timeline(0), timeline(1), timeline(40), Timeline { total: Duration::ZERO, ..timeline(2) }]
        {
            let svg = timeline.to_svg();
            assert_eq!(tags(&svg)[0], "svg");
            assert_eq!(
                svg.matches("class=\"bar\" x=").count(),
                timeline.bars.len() + svg.matches("rx=\"3\"").count()
            );
            assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
        }
    }

    #[test]
    fn bars_are_at_their_times() {
        let timeline = timeline(4);
        assert_eq!(x(Duration::from_millis(1), timeline.whole()), WIDTH / 4.0);
        let second = format!(r#"x="{}" y="{}" width="{}""#, Px(WIDTH / 4.0), Px(ROW + 3.0), Px(WIDTH / 4.0));
        assert!(timeline.to_svg().contains(&second), "{second}");
        assert!(timeline.to_svg().contains(">layer1.&lt;conv&gt;</text>"));
    }

    /// Bars that end after `total` are drawn as well.
    #[test]
    fn no_bar_leaves_the_plot() {
        let short = Timeline { total: Duration::from_millis(1), ..timeline(4) };
        assert_eq!(short.whole(), Duration::from_millis(4));
    }
}
