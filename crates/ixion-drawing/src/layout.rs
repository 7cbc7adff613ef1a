//! The layout: sizes and positions in pixels, from the top left corner.

use super::bands::Bands;
use super::labels::{self, Label};
use super::layers::{self, Link};
use super::mesh::Mesh;
use super::routes::{self, Route};
use super::text::Font;
use super::{Drawing, Node, align, coordinates, order};

pub(super) const TITLE_FONT: Font = Font::bold_sans(12.5);
pub(super) const NAME_FONT: Font = Font::mono(11.0);
pub(super) const DETAIL_FONT: Font = Font::mono(10.5);

/// Height of a card's header, of its name and of each detail, and the space below the last of these.
pub(super) const HEADER: f64 = 26.0;
pub(super) const NAME_LINE: f64 = 18.0;
pub(super) const DETAIL_LINE: f64 = 15.0;
const CARD_FOOT: f64 = 7.0;
/// Space between a card's side and its text.
pub(super) const CARD_PADDING: f64 = 12.0;
/// Minimum and maximum width of a card.
const MIN_CARD_WIDTH: f64 = 132.0;
const MAX_CARD_WIDTH: f64 = 240.0;
/// Widths are rounded up to multiples of this, so that cards in a column often have the same width.
const WIDTH_STEP: f64 = 12.0;

/// A card with its displayed text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Card {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: String,
    pub(super) name: String,
    pub(super) details: Vec<String>,
}

/// An arrow as the points that it passes through, in its own direction. Between two points with the same x it is
/// straight; otherwise it is a curve that starts and ends vertically.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arrow {
    /// Index in [`Drawing::edges`].
    pub(super) edge: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// Everything that is drawn, and the size of the drawing area.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// One card for each node of the drawing, in the same order.
    pub(super) cards: Vec<Card>,
    pub(super) arrows: Vec<Arrow>,
    pub(super) labels: Vec<Label>,
}

impl Layout {
    /// Lays out a drawing.
    pub(super) fn new(drawing: &Drawing) -> Layout {
        let links = layers::links(drawing);
        let layers = layers::assign(drawing, &links);
        let mut mesh = Mesh::new(drawing, &links, &layers);
        order::reduce_crossings(&mut mesh, &layers);
        let blocks = align::align(&mesh, &layers);

        let mut cards: Vec<Card> = drawing.nodes.iter().map(card).collect();
        let half_widths: Vec<f64> = cards.iter().map(|card| card.width / 2.0).collect();
        let centres = coordinates::place(&mesh, &blocks, &half_widths);
        let routes = routes::routes(&mesh, &links, &centres, &half_widths);
        let heights: Vec<f64> = cards.iter().map(|card| card.height).collect();
        let bands = Bands::new(&mesh, &heights, &routes);
        for (node, card) in cards.iter_mut().enumerate() {
            let (top, bottom) = bands.layer(mesh.layer_of[node]);
            card.x = centres[node] - card.width / 2.0;
            card.y = (top + bottom - card.height) / 2.0;
        }
        let arrows = routes.iter().map(|route| arrow(route, &links[route.link], &cards, &bands)).collect();
        let labels = labels::labels(drawing, &links, &routes, &bands);
        let mut layout = Layout { width: 0.0, height: bands.bottom(), cards, arrows, labels };
        layout.fit();
        layout
    }

    /// Moves everything so that the left edge is at 0, and sets the width.
    fn fit(&mut self) {
        let cards = self.cards.iter().map(|card| (card.x, card.x + card.width));
        let labels = self.labels.iter().map(|label| (label.x, label.x + label.width));
        let points = self.arrows.iter().flat_map(|arrow| arrow.points.iter().map(|&(x, _)| (x, x)));
        let all = cards.chain(labels).chain(points);
        let (left, right) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(left, right), (a, b)| (left.min(a), right.max(b)));
        if left > right {
            return;
        }
        self.cards.iter_mut().for_each(|card| card.x -= left);
        self.labels.iter_mut().for_each(|label| label.x -= left);
        self.arrows.iter_mut().flat_map(|arrow| &mut arrow.points).for_each(|point| point.0 -= left);
        self.width = right - left;
    }
}

/// A node's card, with its text elided to fit, not yet positioned.
fn card(node: &Node) -> Card {
    let details = node.details.iter().map(|detail| DETAIL_FONT.width(detail));
    let text = details.fold(TITLE_FONT.width(&node.title).max(NAME_FONT.width(&node.subtitle)), f64::max);
    let width = ((text + 2.0 * CARD_PADDING) / WIDTH_STEP).ceil() * WIDTH_STEP;
    let width = width.clamp(MIN_CARD_WIDTH, MAX_CARD_WIDTH);
    let room = width - 2.0 * CARD_PADDING;
    let name = NAME_FONT.elide_middle(&node.subtitle, room);
    let details: Vec<String> =
        node.details.iter().map(|detail| DETAIL_FONT.elide_end(detail, room)).collect();
    let mut height = HEADER + details.len() as f64 * DETAIL_LINE;
    if !name.is_empty() {
        height += NAME_LINE;
    }
    if height > HEADER {
        height += CARD_FOOT;
    }
    Card { x: 0.0, y: 0.0, width, height, title: TITLE_FONT.elide_end(&node.title, room), name, details }
}

/// The points of a route, without those inside straight lines.
fn arrow(route: &Route, link: &Link, cards: &[Card], bands: &Bands) -> Arrow {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(2 * route.legs.len() + 2);
    let mut add = |x: f64, y: f64| {
        if let [.., (before, _), (last, last_y)] = points.as_mut_slice()
            && *before == x
            && *last == x
        {
            *last_y = y;
        } else {
            points.push((x, y));
        }
    };
    if let Some(first) = route.legs.first().filter(|_| route.from_card) {
        let card = &cards[link.from];
        add(first.top, card.y + card.height);
    }
    for leg in &route.legs {
        let (top, bottom) = bands.gap(leg.gap);
        add(leg.top, top);
        add(leg.bottom, bottom);
    }
    if let Some(last) = route.legs.last() {
        add(last.bottom, cards[link.to].y);
    }
    if link.upward {
        points.reverse();
    }
    Arrow { edge: link.edge, points }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn cards_do_not_overlap() {
        for drawing in samples::all() {
            let cards = Layout::new(&drawing).cards;
            for (index, a) in cards.iter().enumerate() {
                for b in &cards[..index] {
                    let apart = a.x + a.width <= b.x
                        || b.x + b.width <= a.x
                        || a.y + a.height <= b.y
                        || b.y + b.height <= a.y;
                    assert!(apart, "{}: {a:?} {b:?}", drawing.title);
                }
            }
        }
    }

    #[test]
    fn every_edge_of_an_acyclic_drawing_goes_down_and_ends_at_its_cards() {
        for drawing in [
            samples::resnet(),
            samples::inception(),
            samples::two_inputs(),
            samples::unet(4),
            samples::transformer(3),
            samples::random(80, 3),
        ] {
            let layout = Layout::new(&drawing);
            assert_eq!(layout.arrows.len(), drawing.edges.len());
            for arrow in &layout.arrows {
                let edge = &drawing.edges[arrow.edge];
                let target = &layout.cards[edge.to];
                assert!(layout.cards[edge.from].y < target.y);
                assert!(
                    arrow.points.windows(2).all(|pair| pair[0].1 < pair[1].1),
                    "{}: {arrow:?}",
                    drawing.title
                );
                let &(x, y) = arrow.points.last().unwrap();
                assert_eq!(y, target.y);
                assert!(x > target.x && x < target.x + target.width);
            }
        }
    }

    #[test]
    fn arrows_touch_no_card_but_their_own() {
        for drawing in samples::all() {
            let layout = Layout::new(&drawing);
            for arrow in &layout.arrows {
                let edge = &drawing.edges[arrow.edge];
                for pair in arrow.points.windows(2) {
                    let (left, right) = (pair[0].0.min(pair[1].0), pair[0].0.max(pair[1].0));
                    let (top, bottom) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                    for (node, card) in layout.cards.iter().enumerate() {
                        let meets = left < card.x + card.width
                            && right > card.x
                            && top < card.y + card.height
                            && bottom > card.y;
                        assert!(
                            !meets || node == edge.from || node == edge.to,
                            "{}: {edge:?} at {node}",
                            drawing.title
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_edge_that_closes_a_cycle_points_up() {
        let layout = Layout::new(&samples::plain(3, &[(0, 1), (1, 2), (2, 0)]));
        let back = layout.arrows.iter().find(|arrow| arrow.edge == 2).unwrap();
        assert!(back.points.windows(2).all(|pair| pair[0].1 > pair[1].1));
    }

    #[test]
    fn text_fits_its_card() {
        let mut drawing = samples::two_inputs();
        drawing.nodes[0].title = "W".repeat(500);
        drawing.nodes[1].details = vec!["卷积".repeat(300)];
        for card in Layout::new(&drawing).cards {
            let room = card.width - 2.0 * CARD_PADDING;
            assert!(card.width <= MAX_CARD_WIDTH);
            assert!(TITLE_FONT.width(&card.title) <= room && NAME_FONT.width(&card.name) <= room);
            assert!(card.details.iter().all(|detail| DETAIL_FONT.width(detail) <= room));
        }
    }

    #[test]
    fn everything_is_within_the_area() {
        for drawing in samples::all() {
            let layout = Layout::new(&drawing);
            for card in &layout.cards {
                assert!(card.x >= 0.0 && card.x + card.width <= layout.width + 1e-6);
                assert!(card.y >= 0.0 && card.y + card.height <= layout.height + 1e-6);
            }
        }
    }
}
