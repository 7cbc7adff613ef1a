//! Labels: the shapes next to the arrows.
//!
//! A tensor is labelled once, in the gap below the card that produces it, next to the straightest of its arrows.
//! Gaps contain no cards, so a label cannot cover one. Of the rows and sides available, a label takes one without
//! another label and with as few crossing arrows as possible. If none is free, the label is omitted; the arrow's
//! tooltip still shows it.

use std::collections::BTreeMap;

use super::Drawing;
use super::bands::Bands;
use super::layers::Link;
use super::routes::{Leg, Route};
use super::text::Font;

pub(super) const LABEL_FONT: Font = Font::mono(10.5);

/// Height of a row, distance between the tops of two rows (which overlap), and between a row's top and the baseline of
/// its text.
const ROW: f64 = 14.0;
const ROW_STEP: f64 = 5.0;
const BASELINE: f64 = 10.5;
/// Space between an arrow and its label, and between a label and anything else.
const ARROW_GAP: f64 = 6.0;
const LABEL_GAP: f64 = 3.0;
/// Maximum number of arrows behind a label.
const MAX_PASSING: usize = 1;
/// Maximum width of a label in pixels. Longer labels are elided.
const MAX_WIDTH: f64 = 200.0;

/// A line of text next to an arrow.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    pub(super) text: String,
    /// The left edge, based on the estimated width.
    pub(super) x: f64,
    /// The baseline.
    pub(super) y: f64,
    pub(super) width: f64,
    /// Whether the arrow is to the right of the text, which then ends at `x + width`.
    pub(super) ends_at_arrow: bool,
}

/// The horizontal extent of something in a row.
#[derive(Clone, Copy)]
struct Span {
    from: f64,
    to: f64,
}

impl Span {
    fn overlaps(self, other: Span) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// Places the labels of `drawing`.
pub(super) fn labels(drawing: &Drawing, links: &[Link], routes: &[Route], bands: &Bands) -> Vec<Label> {
    let mut legs_of_gap: Vec<Vec<Leg>> = vec![Vec::new(); bands.gaps()];
    for leg in routes.iter().flat_map(|route| &route.legs) {
        legs_of_gap[leg.gap].push(*leg);
    }
    let mut wanted: Vec<Vec<(Leg, &str)>> = vec![Vec::new(); bands.gaps()];
    for ((_, text), leg) in straightest(drawing, links, routes) {
        wanted[leg.gap].push((leg, text));
    }
    let mut labels = Vec::new();
    for (gap, mut wanted) in wanted.into_iter().enumerate() {
        wanted.sort_by(|a, b| a.0.top.total_cmp(&b.0.top));
        let rows = rows(&legs_of_gap[gap], gap, bands);
        let first = labels.len();
        for (leg, text) in wanted {
            let label = label(text, &leg, &rows, &labels[first..], bands);
            labels.extend(label);
        }
    }
    labels
}

/// For each node and label, the first leg of the straightest arrow that starts there.
fn straightest<'a>(
    drawing: &'a Drawing,
    links: &[Link],
    routes: &[Route],
) -> BTreeMap<(usize, &'a str), Leg> {
    let mut best: BTreeMap<(usize, &str), Leg> = BTreeMap::new();
    let lean = |leg: &Leg| (leg.top - leg.bottom).abs();
    for route in routes.iter().filter(|route| route.from_card) {
        let link = &links[route.link];
        let text = drawing.edges.get(link.edge).map_or("", |edge| edge.label.as_str());
        let Some(&leg) = route.legs.first().filter(|_| !text.is_empty()) else {
            continue;
        };
        let entry = best.entry((link.from, text)).or_insert(leg);
        if lean(&leg) < lean(entry) {
            *entry = leg;
        }
    }
    best
}

/// A line of a gap that can hold labels.
struct Row {
    top: f64,
    /// The spans of the arrows, sorted by their left ends.
    arrows: Vec<Span>,
    /// The width of the widest of `arrows`.
    widest: f64,
}

impl Row {
    fn new(top: f64, legs: &[Leg], bands: &Bands) -> Row {
        let mut arrows: Vec<Span> = legs.iter().map(|leg| span(leg, top, bands)).collect();
        arrows.sort_by(|a, b| a.from.total_cmp(&b.from));
        let widest = arrows.iter().map(|arrow| arrow.to - arrow.from).fold(0.0, f64::max);
        Row { top, arrows, widest }
    }

    /// The number of arrows that overlap a span.
    fn passing(&self, span: Span) -> usize {
        let first = self.arrows.partition_point(|arrow| arrow.from < span.from - self.widest);
        let near = self.arrows[first..].iter().take_while(|arrow| arrow.from < span.to);
        near.filter(|arrow| arrow.overlaps(span)).count()
    }
}

/// The rows of a gap, those in the middle first.
fn rows(legs: &[Leg], gap: usize, bands: &Bands) -> Vec<Row> {
    let (top, bottom) = bands.gap(gap);
    let middle = (top + bottom - ROW) / 2.0;
    let steps = ((middle - top) / ROW_STEP).floor().max(0.0) as i32;
    let mut offsets: Vec<i32> = (-steps..=steps).collect();
    offsets.sort_by_key(|offset| offset.abs());
    let row = |offset| Row::new(middle + f64::from(offset) * ROW_STEP, legs, bands);
    offsets.into_iter().map(row).collect()
}

/// The span of an arrow in the row that starts at `top`.
fn span(leg: &Leg, top: f64, bands: &Bands) -> Span {
    let (a, b) = (bands.x_at(leg, top), bands.x_at(leg, top + ROW));
    Span { from: a.min(b), to: a.max(b) }
}

/// Finds the best position for a label among the labels that the gap already has.
fn label(text: &str, leg: &Leg, rows: &[Row], others: &[Label], bands: &Bands) -> Option<Label> {
    let text = LABEL_FONT.elide_end(text, MAX_WIDTH);
    let width = LABEL_FONT.width(&text);
    let mut best: Option<(usize, Label)> = None;
    for ends_at_arrow in [false, true] {
        for row in rows {
            let own = span(leg, row.top, bands);
            let x = if ends_at_arrow { own.from - ARROW_GAP - width } else { own.to + ARROW_GAP };
            let place = Span { from: x - LABEL_GAP, to: x + width + LABEL_GAP };
            let passing = row.passing(place);
            let better = passing <= MAX_PASSING && best.as_ref().is_none_or(|(fewest, _)| passing < *fewest);
            let y = row.top + BASELINE;
            if better && !others.iter().any(|other| other.overlaps(place, y)) {
                best = Some((passing, Label { text: text.clone(), x, y, width, ends_at_arrow }));
            }
        }
    }
    best.map(|(_, label)| label)
}

impl Label {
    /// Returns true if the label overlaps a label with the given span and the baseline `y`.
    fn overlaps(&self, span: Span, y: f64) -> bool {
        (self.y - y).abs() < ROW && Span { from: self.x, to: self.x + self.width }.overlaps(span)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{layout::Layout, samples};

    #[test]
    fn labels_do_not_overlap_each_other_or_cards() {
        for drawing in samples::all() {
            let layout = Layout::new(&drawing);
            let boxes: Vec<[f64; 4]> = layout
                .labels
                .iter()
                .map(|label| [label.x, label.y - 9.0, label.x + label.width, label.y + 2.0])
                .collect();
            let cards =
                layout.cards.iter().map(|card| [card.x, card.y, card.x + card.width, card.y + card.height]);
            let meet = |a: &[f64; 4], b: &[f64; 4]| a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
            for (index, label) in boxes.iter().enumerate() {
                assert!(!boxes[..index].iter().any(|other| meet(label, other)), "{}", drawing.title);
                assert!(!cards.clone().any(|card| meet(label, &card)), "{}", drawing.title);
            }
        }
    }

    #[test]
    fn every_tensor_of_a_clear_network_is_labelled_once() {
        for drawing in [samples::resnet(), samples::inception(), samples::two_inputs(), samples::unet(4)] {
            let tensors: std::collections::BTreeSet<_> =
                drawing.edges.iter().map(|edge| (edge.from, &edge.label)).collect();
            assert_eq!(Layout::new(&drawing).labels.len(), tensors.len(), "{}", drawing.title);
        }
    }

    #[test]
    fn labels_stay_inside_the_drawing() {
        for drawing in samples::all() {
            let layout = Layout::new(&drawing);
            for label in &layout.labels {
                assert!(label.x >= 0.0 && label.x + label.width <= layout.width, "{}", label.text);
            }
        }
    }
}
