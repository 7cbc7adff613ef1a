//! Routes: where each arrow leaves its card, bends and arrives.
//!
//! A route is a list of legs. A leg crosses one gap between two layers, from a position at its top to a position at
//! its bottom; between legs, the arrow runs straight down. Arrows meet a card at ports, which are spread over its
//! edge so that each port faces the origin or target of its arrow.

use super::layers::Link;
use super::mesh::{Course, Mesh};

/// Space between two ports, and between a port and the card's corner.
const PORT_GAP: f64 = 14.0;
const PORT_MARGIN: f64 = 18.0;
/// Distance of the first margin lane from the cards, space between lanes, and the number of lanes.
const MARGIN: f64 = 48.0;
const LANE_GAP: f64 = 10.0;
const LANES: usize = 24;

/// The part of an arrow in one gap. The gap below layer `n` has the number `n`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Leg {
    pub(super) gap: usize,
    /// The horizontal position at the top of the gap.
    pub(super) top: f64,
    /// The horizontal position at the bottom of the gap.
    pub(super) bottom: f64,
}

/// The route of a link, from top to bottom.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    /// Index of the link.
    pub(super) link: usize,
    pub(super) legs: Vec<Leg>,
    /// Whether the first leg starts at a card. Otherwise it branches off a track that another route draws.
    pub(super) from_card: bool,
}

/// The routes of all links. `centres` has the centre of each vertex, `half_widths` half the width of each card.
pub(super) fn routes(mesh: &Mesh, links: &[Link], centres: &[f64], half_widths: &[f64]) -> Vec<Route> {
    let lanes = lanes(mesh, links, centres, half_widths);
    let ports = Ports::new(mesh, links, centres, half_widths, &lanes);
    let mut drawn = vec![false; mesh.tracks.len()];
    longest_first(mesh, links)
        .into_iter()
        .map(|index| {
            let link = &links[index];
            let gap = mesh.layer_of[link.from];
            let (leave, arrive) = (ports.leave[index], ports.arrive[index]);
            let course = mesh.courses[index];
            let from_card =
                !matches!(course, Course::Track { track, .. } if std::mem::replace(&mut drawn[track], true));
            let legs = match course {
                Course::Margin => vec![
                    Leg { gap, top: leave, bottom: lanes[index] },
                    Leg { gap: mesh.layer_of[link.to] - 1, top: lanes[index], bottom: arrive },
                ],
                Course::Direct => vec![Leg { gap, top: leave, bottom: arrive }],
                Course::Track { .. } => along_track(mesh, index, centres, gap, leave, arrive, from_card),
            };
            Route { link: index, legs, from_card }
        })
        .collect()
}

/// The links, with the longest of each track before those that leave it earlier.
fn longest_first(mesh: &Mesh, links: &[Link]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..links.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(mesh.bends(index).len()));
    order
}

/// The legs of a link on a track: all of them, or only the last one if another route draws the track.
fn along_track(
    mesh: &Mesh,
    link: usize,
    centres: &[f64],
    gap: usize,
    leave: f64,
    arrive: f64,
    whole: bool,
) -> Vec<Leg> {
    let bends = mesh.bends(link);
    let mut places: Vec<f64> = bends.iter().map(|&bend| centres[bend]).collect();
    places.insert(0, leave);
    places.push(arrive);
    let skipped = if whole { 0 } else { bends.len() };
    let legs = places.windows(2).enumerate().skip(skipped);
    legs.map(|(step, pair)| Leg { gap: gap + step, top: pair[0], bottom: pair[1] }).collect()
}

/// The position of the margin lane of each link that needs one. Links that would overlap get different lanes, as long
/// as lanes are free.
fn lanes(mesh: &Mesh, links: &[Link], centres: &[f64], half_widths: &[f64]) -> Vec<f64> {
    let half = |vertex: usize| half_widths.get(vertex).copied().unwrap_or(0.0);
    let right_edge = (0..centres.len()).map(|vertex| centres[vertex] + half(vertex)).fold(0.0, f64::max);
    let mut margin_links: Vec<usize> =
        (0..links.len()).filter(|&index| mesh.courses[index] == Course::Margin).collect();
    margin_links.sort_by_key(|&index| (mesh.layer_of[links[index].from], index));
    let mut lanes = vec![0.0; links.len()];
    let mut free_from = [0; LANES];
    for index in margin_links {
        let start = mesh.layer_of[links[index].from];
        let free = free_from.iter().position(|&from| from <= start);
        let soonest = || (0..LANES).min_by_key(|&lane| free_from[lane]).unwrap_or(0);
        let lane = free.unwrap_or_else(soonest);
        free_from[lane] = mesh.layer_of[links[index].to];
        lanes[index] = right_edge + MARGIN + lane as f64 * LANE_GAP;
    }
    lanes
}

/// The positions at which each link leaves its upper card and arrives at its lower card.
struct Ports {
    leave: Vec<f64>,
    arrive: Vec<f64>,
}

/// A port to be placed: the centre of what it faces, its preferred position, and its links.
struct PortRequest {
    facing: f64,
    place: f64,
    links: Vec<usize>,
}

impl Ports {
    fn new(mesh: &Mesh, links: &[Link], centres: &[f64], half_widths: &[f64], lanes: &[f64]) -> Ports {
        let (leaving, arriving) = port_requests(mesh, links, centres, lanes);
        let mut ports = Ports { leave: vec![0.0; links.len()], arrive: vec![0.0; links.len()] };
        for node in 0..mesh.node_count {
            let (centre, half) = (centres[node], half_widths[node]);
            spread(&leaving[node], centre, half, &mut ports.leave);
            spread(&arriving[node], centre, half, &mut ports.arrive);
        }
        ports
    }
}

/// The ports on each node's lower and on its upper edge, from left to right.
fn port_requests(
    mesh: &Mesh,
    links: &[Link],
    centres: &[f64],
    lanes: &[f64],
) -> (Vec<Vec<PortRequest>>, Vec<Vec<PortRequest>>) {
    let empty = || std::iter::repeat_with(Vec::new).take(mesh.node_count).collect::<Vec<Vec<PortRequest>>>();
    let (mut leaving, mut arriving) = (empty(), empty());
    let mut port_of_track = vec![None; mesh.tracks.len()];
    for (index, link) in links.iter().enumerate() {
        let (upper, lower) = (centres[link.from], centres[link.to]);
        let bends = mesh.bends(index);
        let request = |vertex: Option<&usize>, other: f64| {
            let (facing, place) = match (mesh.courses[index], vertex) {
                (Course::Margin, _) => (lanes[index], lanes[index]),
                (_, Some(&bend)) => (centres[bend], centres[bend]),
                (_, None) => (other, (upper + lower) / 2.0),
            };
            PortRequest { facing, place, links: vec![index] }
        };
        arriving[link.to].push(request(bends.last(), upper));
        let ports = &mut leaving[link.from];
        let port = match mesh.courses[index] {
            Course::Track { track, .. } => *port_of_track[track].get_or_insert(ports.len()),
            Course::Direct | Course::Margin => ports.len(),
        };
        match ports.get_mut(port) {
            Some(port) => port.links.push(index),
            None => ports.push(request(bends.first(), lower)),
        }
    }
    for requests in leaving.iter_mut().chain(&mut arriving) {
        requests.sort_by(|a, b| a.facing.total_cmp(&b.facing));
    }
    (leaving, arriving)
}

/// Places the ports of one edge of a card: the port that faces straight ahead at the centre (or else the middle port
/// at its preferred position), the others outwards from it.
fn spread(requests: &[PortRequest], centre: f64, half: f64, places: &mut [f64]) {
    let limit = (half - PORT_MARGIN).max(0.0);
    let ahead = requests.iter().position(|request| (request.facing - centre).abs() < 0.5);
    let pivot = ahead.unwrap_or(requests.len() / 2);
    let Some(request) = requests.get(pivot) else { return };
    let start = (request.place - centre).clamp(-limit, limit);
    let start = if requests.len() > 1 { start.clamp(-limit / 2.0, limit / 2.0) } else { start };
    set(request, centre + start, places);
    for side in [1.0, -1.0] {
        let others: Vec<&PortRequest> = if side > 0.0 {
            requests[pivot + 1..].iter().collect()
        } else {
            requests[..pivot].iter().rev().collect()
        };
        let room = limit - start * side;
        let gap = (room / others.len().max(1) as f64).min(PORT_GAP);
        let mut last = start * side;
        for (index, request) in others.iter().enumerate() {
            let furthest = limit - gap * (others.len() - 1 - index) as f64;
            last = ((request.place - centre) * side).min(furthest).max(last + gap);
            set(request, centre + last * side, places);
        }
    }
}

fn set(request: &PortRequest, place: f64, places: &mut [f64]) {
    request.links.iter().for_each(|&link| places[link] = place);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(facing: &[f64], half: f64) -> Vec<f64> {
        let requests: Vec<PortRequest> = facing
            .iter()
            .enumerate()
            .map(|(link, &x)| PortRequest { facing: x, place: x, links: vec![link] })
            .collect();
        let mut places = vec![f64::NAN; facing.len()];
        spread(&requests, 100.0, half, &mut places);
        places
    }

    #[test]
    fn a_port_that_faces_straight_ahead_is_in_the_centre() {
        assert_eq!(place(&[100.0], 60.0), [100.0]);
        assert_eq!(place(&[100.0, 180.0], 60.0), [100.0, 142.0]);
        assert_eq!(place(&[20.0, 100.0, 110.0], 60.0), [58.0, 100.0, 114.0]);
    }

    #[test]
    fn ports_stay_on_the_card_and_in_order() {
        for count in 1..40 {
            for start in [-500.0, 40.0, 90.0, 400.0] {
                let facing: Vec<f64> = (0..count).map(|index| start + 7.0 * f64::from(index)).collect();
                let places = place(&facing, 60.0);
                assert!(places.is_sorted(), "{places:?}");
                assert!(places.iter().all(|&x| (42.0 - 1e-9..=158.0 + 1e-9).contains(&x)), "{places:?}");
            }
        }
    }

    #[test]
    fn two_edges_between_the_same_cards_have_two_ports() {
        let places = place(&[100.0, 100.0], 60.0);
        assert_eq!(places, [100.0, 114.0]);
    }

    #[test]
    fn a_port_that_faces_a_near_column_is_in_it() {
        assert_eq!(place(&[120.0], 60.0), [120.0]);
        assert_eq!(place(&[500.0], 60.0), [142.0]);
    }
}
