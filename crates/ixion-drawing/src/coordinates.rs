//! Columns: the horizontal position of each block.
//!
//! Blocks are first packed to the left, as close as their neighbours allow. Then blocks move towards the blocks they
//! are linked with, pushing along the blocks in between, as long as that shortens the segments between blocks in
//! total. This is a descent on the sum of horizontal distances that keeps the order.

use super::align::Blocks;
use super::mesh::Mesh;

/// Space between two cards, between a card and a track, and between two tracks, in pixels.
const CARD_GAP: f64 = 30.0;
const TRACK_GAP: f64 = 20.0;
const TRACKS_GAP: f64 = 16.0;
/// Distances below this count as zero.
const EPSILON: f64 = 1e-6;
/// Maximum number of rounds over all blocks, and of springs and walls visited by all moves together.
const MAX_ROUNDS: usize = 60;
const MAX_WORK: usize = 12_000_000;

/// The centre of each vertex. `half_widths` holds half the width of each node's card.
pub(super) fn place(mesh: &Mesh, blocks: &Blocks, half_widths: &[f64]) -> Vec<f64> {
    let mut field = Field::new(mesh, blocks, half_widths);
    let sequence = field.pack();
    field.relax(&sequence);
    blocks.of.iter().map(|&block| field.x[block]).collect()
}

/// The blocks, with the walls that keep them apart and the springs that pull them together.
struct Field {
    /// The centre of each block.
    x: Vec<f64>,
    /// For each block, the blocks right and left of it, with the minimum distance between the centres.
    walls: [Vec<Vec<(usize, f64)>>; 2],
    /// For each block, the blocks that segments lead to, once per segment.
    springs: Vec<Vec<usize>>,
    /// Scratch space: whether a block is part of the group being moved.
    in_group: Vec<bool>,
    work_left: usize,
}

/// The direction of a move. The discriminant is the index in [`Field::walls`].
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Right = 0,
    Left = 1,
}

impl Side {
    fn sign(self) -> f64 {
        match self {
            Side::Right => 1.0,
            Side::Left => -1.0,
        }
    }
}

impl Field {
    fn new(mesh: &Mesh, blocks: &Blocks, half_widths: &[f64]) -> Field {
        let mut walls = [vec![Vec::new(); blocks.count], vec![Vec::new(); blocks.count]];
        for layer in &mesh.layers {
            for pair in layer.windows(2) {
                let (left, right) = (blocks.of[pair[0]], blocks.of[pair[1]]);
                walls[0][left].push((right, distance(mesh, half_widths, pair[0], pair[1])));
            }
        }
        for left in 0..blocks.count {
            keep_widest(&mut walls[0][left]);
            for (right, gap) in walls[0][left].clone() {
                walls[1][right].push((left, gap));
            }
        }
        let mut springs = vec![Vec::new(); blocks.count];
        for (upper, below) in mesh.below.iter().enumerate() {
            for &lower in below {
                let (a, b) = (blocks.of[upper], blocks.of[lower]);
                if a != b {
                    springs[a].push(b);
                    springs[b].push(a);
                }
            }
        }
        Field {
            x: vec![0.0; blocks.count],
            walls,
            springs,
            in_group: vec![false; blocks.count],
            work_left: MAX_WORK,
        }
    }

    /// Packs the blocks to the left. Returns them in topological order, from left to right.
    fn pack(&mut self) -> Vec<usize> {
        let mut waiting: Vec<usize> = self.walls[1].iter().map(Vec::len).collect();
        let mut sequence: Vec<usize> = (0..waiting.len()).filter(|&block| waiting[block] == 0).collect();
        let mut next = 0;
        while let Some(&block) = sequence.get(next) {
            next += 1;
            for &(right, gap) in &self.walls[0][block] {
                self.x[right] = self.x[right].max(self.x[block] + gap);
                waiting[right] -= 1;
                if waiting[right] == 0 {
                    sequence.push(right);
                }
            }
        }
        sequence
    }

    /// Moves blocks to the right and to the left until no segment gets shorter.
    fn relax(&mut self, sequence: &[usize]) {
        for _ in 0..MAX_ROUNDS {
            let mut moved = false;
            for &block in sequence.iter().rev() {
                moved |= self.slide(block, Side::Right);
            }
            for &block in sequence {
                moved |= self.slide(block, Side::Left);
            }
            if !moved || self.work_left == 0 {
                break;
            }
        }
    }

    /// Moves `block` to one side as long as that shortens segments. Returns true if it moved.
    fn slide(&mut self, block: usize, side: Side) -> bool {
        let mut moved = false;
        while self.work_left > 0 {
            let group = self.group(block, side);
            let step = self.helpful_step(&group, side);
            for &member in &group {
                self.in_group[member] = false;
                self.x[member] += step * side.sign();
            }
            if step <= EPSILON {
                break;
            }
            moved = true;
        }
        moved
    }

    /// The blocks that move with `block`: those in contact with it on that side, and so on transitively.
    fn group(&mut self, block: usize, side: Side) -> Vec<usize> {
        let mut group = vec![block];
        self.in_group[block] = true;
        let mut next = 0;
        while let Some(&member) = group.get(next) {
            next += 1;
            let walls = &self.walls[side as usize][member];
            self.work_left = self.work_left.saturating_sub(1 + walls.len());
            for &(other, gap) in walls {
                if !self.in_group[other] && self.slack(member, other, gap) <= EPSILON {
                    self.in_group[other] = true;
                    group.push(other);
                }
            }
        }
        group
    }

    /// The free space between two neighbours.
    fn slack(&self, a: usize, b: usize, gap: f64) -> f64 {
        (self.x[a] - self.x[b]).abs() - gap
    }

    /// The distance that the group can move until it meets a wall or a spring becomes vertical. 0 if the move does not
    /// shorten the springs in total.
    fn helpful_step(&mut self, group: &[usize], side: Side) -> f64 {
        let mut pull = 0_i64;
        let mut step = f64::INFINITY;
        for &member in group {
            self.work_left = self.work_left.saturating_sub(1 + self.springs[member].len());
            for &other in self.springs[member].iter().filter(|&&other| !self.in_group[other]) {
                let offset = (self.x[other] - self.x[member]) * side.sign();
                if offset > EPSILON {
                    pull += 1;
                    step = step.min(offset);
                } else {
                    pull -= 1;
                }
            }
            for &(other, gap) in
                self.walls[side as usize][member].iter().filter(|(other, _)| !self.in_group[*other])
            {
                step = step.min(self.slack(member, other, gap));
            }
        }
        if pull > 0 && step.is_finite() { step } else { 0.0 }
    }
}

/// The minimum distance between the centres of two adjacent vertices.
fn distance(mesh: &Mesh, half_widths: &[f64], left: usize, right: usize) -> f64 {
    let half = |vertex: usize| half_widths.get(vertex).copied().unwrap_or(0.0);
    let gap = match (mesh.is_bend(left), mesh.is_bend(right)) {
        (true, true) => TRACKS_GAP,
        (false, false) => CARD_GAP,
        _ => TRACK_GAP,
    };
    half(left) + gap + half(right)
}

/// Keeps only the widest wall to each neighbour.
fn keep_widest(walls: &mut Vec<(usize, f64)>) {
    walls.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    walls.dedup_by_key(|(other, _)| *other);
}

#[cfg(test)]
mod tests {
    use super::super::{Drawing, align, layers, order, samples};
    use super::*;

    const HALF: f64 = 70.0;

    fn placed(drawing: &Drawing) -> (Mesh, Vec<f64>) {
        let links = layers::links(drawing);
        let layers = layers::assign(drawing, &links);
        let mut mesh = Mesh::new(drawing, &links, &layers);
        order::reduce_crossings(&mut mesh, &layers);
        let blocks = align::align(&mesh, &layers);
        let x = place(&mesh, &blocks, &vec![HALF; mesh.node_count]);
        (mesh, x)
    }

    #[test]
    fn neighbours_keep_their_distance() {
        for drawing in samples::all() {
            let (mesh, x) = placed(&drawing);
            let half_widths = vec![HALF; mesh.node_count];
            for layer in &mesh.layers {
                for pair in layer.windows(2) {
                    let wanted = distance(&mesh, &half_widths, pair[0], pair[1]);
                    assert!(x[pair[1]] - x[pair[0]] >= wanted - 1e-3, "{}", drawing.title);
                }
            }
        }
    }

    #[test]
    fn the_trunk_of_a_residual_network_is_straight() {
        let drawing = samples::resnet();
        let (_, x) = placed(&drawing);
        let side = drawing.nodes.iter().position(|node| node.subtitle.contains("downsample")).unwrap();
        for (index, node) in drawing.nodes.iter().enumerate() {
            let on_trunk = !node.subtitle.contains("downsample");
            assert_eq!(x[index] == x[0], on_trunk, "{}", node.subtitle);
        }
        assert_eq!(x[side], x[0] + 2.0 * HALF + CARD_GAP);
    }

    #[test]
    fn skips_of_a_u_net_are_nested_tracks() {
        let (mesh, x) = placed(&samples::unet(4));
        let mut tracks: Vec<&Vec<usize>> = mesh.tracks.iter().collect();
        tracks.sort_by_key(|track| track.len());
        for (rank, track) in tracks.iter().enumerate() {
            let wanted = x[0] + HALF + TRACK_GAP + rank as f64 * TRACKS_GAP;
            assert!(track.iter().all(|&bend| (x[bend] - wanted).abs() < 1e-6));
        }
    }
}
