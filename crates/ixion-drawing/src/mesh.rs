//! The mesh: nodes and bends, with segments between adjacent layers only.
//!
//! A link that skips layers runs on a track, with one bend in each skipped layer. Links of the same tensor (same
//! node, same label) share a track and branch off one by one, which keeps densely connected networks readable.
//! Tracks that would need too many bends are routed around the drawing, in the margin.

use std::collections::BTreeMap;

use super::Drawing;
use super::layers::{Layers, Link};

/// The maximum number of bends: per node, and in addition for the whole drawing.
const BENDS_PER_NODE: usize = 16;
const BENDS_BASE: usize = 4_000;

/// The course of a link from its upper to its lower node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Straight to the next layer.
    Direct,
    /// Along a track (an index into [`Mesh::tracks`]), which it leaves after `bends` bends.
    Track { track: usize, bends: usize },
    /// Around the drawing, in the margin.
    Margin,
}

/// A graph whose segments all join adjacent layers.
///
/// Vertices below `node_count` are the drawing's nodes, under the same index; the others are bends.
#[derive(Debug, Clone)]
pub(super) struct Mesh {
    pub(super) node_count: usize,
    /// The vertices of each layer, from left to right.
    pub(super) layers: Vec<Vec<usize>>,
    /// The layer of each vertex.
    pub(super) layer_of: Vec<usize>,
    /// The position of each vertex in its layer.
    pub(super) position: Vec<usize>,
    /// For each vertex, its neighbours one layer up, once per segment.
    pub(super) above: Vec<Vec<usize>>,
    /// For each vertex, its neighbours one layer down, once per segment.
    pub(super) below: Vec<Vec<usize>>,
    /// The bends of each track, from top to bottom.
    pub(super) tracks: Vec<Vec<usize>>,
    /// The course of each link.
    pub(super) courses: Vec<Course>,
}

impl Mesh {
    /// Builds the mesh of a drawing's nodes and links. Layers are initially in the order of the nodes' indices.
    pub(super) fn new(drawing: &Drawing, links: &[Link], layers: &Layers) -> Mesh {
        let node_count = drawing.nodes.len();
        let depth = layers.layer_of.iter().max().map_or(0, |last| last + 1);
        let mut mesh = Mesh {
            node_count,
            layers: vec![Vec::new(); depth],
            layer_of: Vec::with_capacity(node_count),
            position: Vec::with_capacity(node_count),
            above: Vec::with_capacity(node_count),
            below: Vec::with_capacity(node_count),
            tracks: Vec::new(),
            courses: vec![Course::Direct; links.len()],
        };
        for &layer in &layers.layer_of {
            mesh.add_vertex(layer);
        }
        for link in links.iter().filter(|link| layers.layer_of[link.from] + 1 == layers.layer_of[link.to]) {
            mesh.add_segment(link.from, link.to);
        }
        let mut bends_left = BENDS_BASE + BENDS_PER_NODE * node_count;
        for bundle in bundles(drawing, links, layers) {
            mesh.add_bundle(links, &bundle, &mut bends_left);
        }
        mesh
    }

    /// Returns true if a vertex is a bend of a track.
    pub(super) fn is_bend(&self, vertex: usize) -> bool {
        vertex >= self.node_count
    }

    /// Sets the order of each layer's vertices and records their positions.
    pub(super) fn set_layers(&mut self, layers: Vec<Vec<usize>>) {
        self.layers = layers;
        for layer in 0..self.layers.len() {
            self.record_positions(layer);
        }
    }

    /// Updates `position` after a layer has been sorted.
    pub(super) fn record_positions(&mut self, layer: usize) {
        for (position, &vertex) in self.layers[layer].iter().enumerate() {
            self.position[vertex] = position;
        }
    }

    /// The bends of a link between its upper and its lower node.
    pub(super) fn bends(&self, link: usize) -> &[usize] {
        match self.courses[link] {
            Course::Track { track, bends } => &self.tracks[track][..bends],
            Course::Direct | Course::Margin => &[],
        }
    }

    fn add_vertex(&mut self, layer: usize) -> usize {
        let vertex = self.layer_of.len();
        self.layer_of.push(layer);
        self.position.push(self.layers[layer].len());
        self.layers[layer].push(vertex);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        vertex
    }

    fn add_segment(&mut self, upper: usize, lower: usize) {
        self.below[upper].push(lower);
        self.above[lower].push(upper);
    }

    /// Adds a track for the links of a bundle, or routes them through the margin if too few bends are left.
    fn add_bundle(&mut self, links: &[Link], bundle: &Bundle, bends_left: &mut usize) {
        let Some(left) = bends_left.checked_sub(bundle.bends) else {
            bundle.links.iter().for_each(|&index| self.courses[index] = Course::Margin);
            return;
        };
        *bends_left = left;
        let first_layer = self.layer_of[bundle.from] + 1;
        let mut upper = bundle.from;
        let mut track = Vec::with_capacity(bundle.bends);
        for layer in first_layer..first_layer + bundle.bends {
            let bend = self.add_vertex(layer);
            self.add_segment(upper, bend);
            track.push(bend);
            upper = bend;
        }
        for &index in &bundle.links {
            let target = links[index].to;
            let bends = self.layer_of[target] - first_layer;
            if let Some(&last) = bends.checked_sub(1).and_then(|last| track.get(last)) {
                self.add_segment(last, target);
            }
            self.courses[index] = Course::Track { track: self.tracks.len(), bends };
        }
        self.tracks.push(track);
    }
}

/// Links that share a track.
struct Bundle {
    from: usize,
    /// The number of bends that the longest of the links needs.
    bends: usize,
    /// Indices of the links.
    links: Vec<usize>,
}

/// The links that skip layers, grouped by tensor, in ascending order of bends.
fn bundles(drawing: &Drawing, links: &[Link], layers: &Layers) -> Vec<Bundle> {
    let mut by_tensor: BTreeMap<(usize, &str, Option<usize>), Bundle> = BTreeMap::new();
    for (index, link) in links.iter().enumerate() {
        let bends = layers.layer_of[link.to] - layers.layer_of[link.from] - 1;
        if bends == 0 {
            continue;
        }
        let label = drawing.edges.get(link.edge).map_or("", |edge| edge.label.as_str());
        let alone = link.upward.then_some(index);
        let bundle = by_tensor.entry((link.from, label, alone)).or_insert_with(|| Bundle {
            from: link.from,
            bends: 0,
            links: Vec::new(),
        });
        bundle.bends = bundle.bends.max(bends);
        bundle.links.push(index);
    }
    let mut bundles: Vec<Bundle> = by_tensor.into_values().collect();
    bundles.sort_by_key(|bundle| bundle.bends);
    bundles
}

#[cfg(test)]
mod tests {
    use super::super::{layers, samples};
    use super::*;

    fn mesh(drawing: &Drawing) -> Mesh {
        let links = layers::links(drawing);
        Mesh::new(drawing, &links, &layers::assign(drawing, &links))
    }

    #[test]
    fn segments_join_neighbouring_layers() {
        for drawing in samples::all() {
            let mesh = mesh(&drawing);
            for (upper, below) in mesh.below.iter().enumerate() {
                for &lower in below {
                    assert_eq!(mesh.layer_of[upper] + 1, mesh.layer_of[lower], "{}", drawing.title);
                    assert!(mesh.above[lower].contains(&upper));
                }
            }
        }
    }

    #[test]
    fn a_long_edge_gets_a_bend_in_each_layer_it_passes() {
        let mesh = mesh(&samples::plain(4, &[(0, 1), (1, 2), (2, 3), (0, 3)]));
        assert_eq!(mesh.courses[3], Course::Track { track: 0, bends: 2 });
        assert_eq!(mesh.bends(3), [4, 5]);
        assert!(mesh.is_bend(4) && !mesh.is_bend(3));
    }

    #[test]
    fn edges_of_one_tensor_share_a_track_and_edges_of_two_do_not() {
        let mut drawing = samples::plain(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (0, 3), (0, 4)]);
        drawing.edges[6].label = "other".into();
        let mesh = mesh(&drawing);
        assert_eq!(mesh.tracks.len(), 2);
        assert_eq!(mesh.bends(4)[0], mesh.bends(5)[0]);
        assert_ne!(mesh.bends(5)[0], mesh.bends(6)[0]);
    }

    #[test]
    fn tracks_beyond_the_limit_go_through_the_margin() {
        let count = 2_000;
        let mut edges: Vec<(usize, usize)> = (1..count).map(|node| (node - 1, node)).collect();
        edges.extend((0..count - 2).map(|node| (node, count - 1)));
        let mesh = mesh(&samples::plain(count, &edges));
        assert!(mesh.courses.contains(&Course::Margin));
        assert!(mesh.layer_of.len() <= BENDS_BASE + (BENDS_PER_NODE + 1) * count);
    }
}
