//! Blocks: vertically aligned runs of vertices.
//!
//! Each vertex may be joined with one vertex above and one below. Segments are joined in order of priority: those on
//! the longest paths first (the trunk of the network), then tracks by length, then the ends of tracks. A segment
//! that would cross a joined one is not joined.

use std::collections::BTreeMap;

use super::layers::Layers;
use super::mesh::Mesh;

/// The block index of each vertex, and the number of blocks.
pub(super) struct Blocks {
    pub(super) of: Vec<usize>,
    pub(super) count: usize,
}

/// A segment that may be joined. Sorts by descending priority.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// `usize::MAX` minus the priority, so that long paths sort first.
    shortness: usize,
    /// Distance from the middle of both layers: of equals, the one nearest the middle becomes the trunk.
    off_centre: usize,
    upper: usize,
    lower: usize,
}

/// Joins the vertices of an ordered mesh into blocks.
pub(super) fn align(mesh: &Mesh, layers: &Layers) -> Blocks {
    let mut joined_below = vec![None; mesh.layer_of.len()];
    let mut joined_above = vec![false; mesh.layer_of.len()];
    let mut gaps: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); mesh.layers.len()];
    for Candidate { upper, lower, .. } in candidates(mesh, layers) {
        let gap = &mut gaps[mesh.layer_of[upper]];
        let (top, bottom) = (mesh.position[upper], mesh.position[lower]);
        if joined_below[upper].is_some() || joined_above[lower] || crosses(gap, top, bottom) {
            continue;
        }
        gap.insert(top, bottom);
        joined_below[upper] = Some(lower);
        joined_above[lower] = true;
    }
    number(&joined_below, &joined_above)
}

fn candidates(mesh: &Mesh, layers: &Layers) -> Vec<Candidate> {
    let mut track_length = vec![0; mesh.layer_of.len()];
    for track in &mesh.tracks {
        track.iter().for_each(|&bend| track_length[bend] = track.len());
    }
    let priority = |upper: usize, lower: usize| match (mesh.is_bend(upper), mesh.is_bend(lower)) {
        (false, false) => layers.above[upper] + 2 + layers.below[lower],
        (true, true) => track_length[upper],
        _ => 0,
    };
    let off_centre = |vertex: usize| {
        let last = mesh.layers[mesh.layer_of[vertex]].len().saturating_sub(1);
        (2 * mesh.position[vertex]).abs_diff(last)
    };
    let mut candidates = Vec::new();
    for (upper, below) in mesh.below.iter().enumerate() {
        for &lower in below {
            let shortness = usize::MAX - priority(upper, lower);
            let off_centre = off_centre(upper) + off_centre(lower);
            candidates.push(Candidate { shortness, off_centre, upper, lower });
        }
    }
    candidates.sort_unstable();
    candidates
}

/// Returns true if a segment between two positions crosses one that is already joined.
fn crosses(gap: &BTreeMap<usize, usize>, top: usize, bottom: usize) -> bool {
    let left = gap.range(..top).next_back();
    let right = gap.range(top..).next();
    left.is_some_and(|(_, &place)| place > bottom) || right.is_some_and(|(_, &place)| place < bottom)
}

fn number(joined_below: &[Option<usize>], joined_above: &[bool]) -> Blocks {
    let mut blocks = Blocks { of: vec![0; joined_below.len()], count: 0 };
    for head in (0..joined_below.len()).filter(|&vertex| !joined_above[vertex]) {
        let mut next = Some(head);
        while let Some(vertex) = next {
            blocks.of[vertex] = blocks.count;
            next = joined_below[vertex];
        }
        blocks.count += 1;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::super::{Drawing, layers, order, samples};
    use super::*;

    fn aligned(drawing: &Drawing) -> (Mesh, Blocks) {
        let links = layers::links(drawing);
        let layers = layers::assign(drawing, &links);
        let mut mesh = Mesh::new(drawing, &links, &layers);
        order::reduce_crossings(&mut mesh, &layers);
        let blocks = align(&mesh, &layers);
        (mesh, blocks)
    }

    #[test]
    fn a_block_has_one_vertex_in_each_of_its_layers() {
        for drawing in samples::all() {
            let (mesh, blocks) = aligned(&drawing);
            let mut layers_of = vec![Vec::new(); blocks.count];
            for (vertex, &block) in blocks.of.iter().enumerate() {
                layers_of[block].push(mesh.layer_of[vertex]);
            }
            for layers in &mut layers_of {
                layers.sort_unstable();
                assert!(layers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{}", drawing.title);
            }
        }
    }

    #[test]
    fn joined_segments_do_not_cross() {
        for drawing in samples::all() {
            let (mesh, blocks) = aligned(&drawing);
            for pair in mesh.layers.windows(2) {
                let places: Vec<usize> = pair[0]
                    .iter()
                    .filter_map(|&upper| {
                        pair[1].iter().position(|&lower| blocks.of[lower] == blocks.of[upper])
                    })
                    .collect();
                assert!(places.is_sorted(), "{}", drawing.title);
            }
        }
    }

    #[test]
    fn the_longest_path_is_one_block() {
        let (_, blocks) =
            aligned(&samples::plain(6, &[(0, 4), (4, 5), (0, 1), (1, 2), (2, 3), (3, 5), (0, 5)]));
        assert!([0, 1, 2, 3, 5].iter().all(|&node| blocks.of[node] == blocks.of[0]));
        assert_ne!(blocks.of[4], blocks.of[0]);
    }

    #[test]
    fn a_track_is_one_block() {
        let (mesh, blocks) = aligned(&samples::unet(5));
        for track in &mesh.tracks {
            assert!(track.iter().all(|&bend| blocks.of[bend] == blocks.of[track[0]]));
        }
    }
}
