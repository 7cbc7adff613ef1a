//! Crossing reduction: the order of each layer from left to right.
//!
//! A depth-first search gives the initial order: it keeps branches together, with the longest branch in the middle.
//! Sweeps down and up then sort each layer by the barycentre of its neighbours, and swap adjacent vertices if that
//! removes crossings. The order with the fewest crossings wins.

use super::layers::Layers;
use super::mesh::Mesh;

/// The number of sweeps without improvement after which the search ends.
const PATIENCE: usize = 6;
/// Maximum number of sweeps, and of vertices and segments visited by all sweeps together.
const MAX_SWEEPS: usize = 32;
const MAX_WORK: usize = 2_000_000;
/// Maximum number of vertices of a mesh in which adjacent vertices are swapped.
const MAX_VERTICES_TO_SWAP: usize = 30_000;

/// Sorts the layers of `mesh`.
pub(super) fn reduce_crossings(mesh: &mut Mesh, layers: &Layers) {
    mesh.set_layers(first_order(mesh, layers));
    let mut fewest = crossings(mesh);
    let mut best = mesh.layers.clone();
    let mut idle = 0;
    for sweep in 0..sweeps(mesh) {
        if fewest == 0 || idle == PATIENCE {
            break;
        }
        sweep_once(mesh, sweep % 2 == 0, sweep % 4 >= 2);
        if mesh.layer_of.len() <= MAX_VERTICES_TO_SWAP {
            swap_neighbours(mesh);
        }
        let count = crossings(mesh);
        idle += 1;
        if count < fewest {
            (fewest, idle) = (count, 0);
            best.clone_from(&mesh.layers);
        }
    }
    mesh.set_layers(best);
}

fn sweeps(mesh: &Mesh) -> usize {
    let size = mesh.layer_of.len() + mesh.below.iter().map(Vec::len).sum::<usize>();
    (MAX_WORK / size.max(1)).clamp(4, MAX_SWEEPS)
}

/// The order in which a depth-first search from the top visits the vertices.
fn first_order(mesh: &Mesh, layers: &Layers) -> Vec<Vec<usize>> {
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); mesh.layers.len()];
    let mut seen = vec![false; mesh.layer_of.len()];
    let roots = mesh.layers.iter().flatten().copied().filter(|&vertex| mesh.above[vertex].is_empty());
    let mut stack = Vec::new();
    for root in roots {
        stack.push(root);
        while let Some(vertex) = stack.pop() {
            if std::mem::replace(&mut seen[vertex], true) {
                continue;
            }
            order[mesh.layer_of[vertex]].push(vertex);
            stack.extend(branches(mesh, layers, vertex).into_iter().rev());
        }
    }
    order
}

/// The vertices below `vertex`, with the one on the longest path moved to the middle.
fn branches(mesh: &Mesh, layers: &Layers, vertex: usize) -> Vec<usize> {
    let length = |lower: usize| {
        if mesh.is_bend(lower) { 0 } else { layers.below[lower] + 1 }
    };
    let mut branches = mesh.below[vertex].clone();
    let longest = (0..branches.len()).rev().max_by_key(|&index| length(branches[index]));
    if let Some(longest) = longest {
        let trunk = branches.remove(longest);
        branches.insert(branches.len() / 2, trunk);
    }
    branches
}

/// Sorts every layer by its neighbours in the layer above (`down`) or below. `flip` reverses ties.
fn sweep_once(mesh: &mut Mesh, down: bool, flip: bool) {
    let count = mesh.layers.len();
    for step in 1..count {
        let layer = if down { step } else { count - 1 - step };
        sort_layer(mesh, layer, down, flip);
        mesh.record_positions(layer);
    }
}

/// Sorts one layer by barycentres. Vertices without neighbours keep their positions.
fn sort_layer(mesh: &mut Mesh, layer: usize, down: bool, flip: bool) {
    let neighbours = if down { &mesh.above } else { &mesh.below };
    let mut keyed = Vec::new();
    let mut places = Vec::new();
    for (place, &vertex) in mesh.layers[layer].iter().enumerate() {
        let near = &neighbours[vertex];
        if near.is_empty() {
            continue;
        }
        let sum: usize = near.iter().map(|&other| mesh.position[other]).sum();
        keyed.push((sum as f64 / near.len() as f64, vertex));
        places.push(place);
    }
    if flip {
        keyed.reverse();
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (place, (_, vertex)) in places.into_iter().zip(keyed) {
        mesh.layers[layer][place] = vertex;
    }
}

/// Swaps adjacent vertices if that removes crossings.
fn swap_neighbours(mesh: &mut Mesh) {
    for layer in 0..mesh.layers.len() {
        for right in 1..mesh.layers[layer].len() {
            let (a, b) = (mesh.layers[layer][right - 1], mesh.layers[layer][right]);
            let now = crossings_of(mesh, a, b);
            if now > 0 && crossings_of(mesh, b, a) < now {
                mesh.layers[layer].swap(right - 1, right);
                mesh.position.swap(a, b);
            }
        }
    }
}

/// The number of crossings between the segments of `left` and `right` in this order.
fn crossings_of(mesh: &Mesh, left: usize, right: usize) -> usize {
    let side = |neighbours: &[Vec<usize>]| {
        let sorted = |vertex: usize| {
            let mut places: Vec<usize> =
                neighbours[vertex].iter().map(|&other| mesh.position[other]).collect();
            places.sort_unstable();
            places
        };
        let (lefts, rights) = (sorted(left), sorted(right));
        let mut passed = 0;
        let mut count = 0;
        for place in lefts {
            while rights.get(passed).is_some_and(|&other| other < place) {
                passed += 1;
            }
            count += passed;
        }
        count
    };
    side(&mesh.above) + side(&mesh.below)
}

/// The number of pairs of segments that cross.
pub(super) fn crossings(mesh: &Mesh) -> u64 {
    mesh.layers.windows(2).map(|pair| crossings_between(mesh, &pair[0], pair[1].len())).sum()
}

/// Counts inversions with a binary indexed tree (Barth, Jünger and Mutzel, "Simple and efficient bilayer cross
/// counting", 2002).
fn crossings_between(mesh: &Mesh, upper: &[usize], lower_count: usize) -> u64 {
    let mut tree = vec![0_u64; lower_count + 1];
    let (mut count, mut inserted) = (0, 0);
    for &vertex in upper {
        let mut places: Vec<usize> = mesh.below[vertex].iter().map(|&lower| mesh.position[lower]).collect();
        places.sort_unstable();
        for &place in &places {
            let mut node = place + 1;
            let mut not_right = 0;
            while node > 0 {
                not_right += tree[node];
                node &= node - 1;
            }
            count += inserted - not_right;
        }
        inserted += places.len() as u64;
        for place in places {
            let mut node = place + 1;
            while let Some(sum) = tree.get_mut(node) {
                *sum += 1;
                node += node & node.wrapping_neg();
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::{Drawing, layers, samples};
    use super::*;

    fn ordered(drawing: &Drawing) -> Mesh {
        let links = layers::links(drawing);
        let layers = layers::assign(drawing, &links);
        let mut mesh = Mesh::new(drawing, &links, &layers);
        reduce_crossings(&mut mesh, &layers);
        mesh
    }

    /// Counts crossings naively, pair by pair.
    fn crossings_by_pairs(mesh: &Mesh) -> u64 {
        let mut count = 0;
        for layer in &mesh.layers {
            let segments: Vec<(usize, usize)> = layer
                .iter()
                .flat_map(|&upper| mesh.below[upper].iter().map(move |&lower| (upper, lower)))
                .map(|(upper, lower)| (mesh.position[upper], mesh.position[lower]))
                .collect();
            for (index, a) in segments.iter().enumerate() {
                count += segments[..index]
                    .iter()
                    .filter(|b| (a.0 < b.0 && a.1 > b.1) || (a.0 > b.0 && a.1 < b.1))
                    .count() as u64;
            }
        }
        count
    }

    #[test]
    fn ordering_keeps_every_vertex_once() {
        for drawing in samples::all() {
            let mesh = ordered(&drawing);
            let mut vertices: Vec<usize> = mesh.layers.iter().flatten().copied().collect();
            vertices.sort_unstable();
            assert_eq!(vertices, (0..mesh.layer_of.len()).collect::<Vec<_>>(), "{}", drawing.title);
            for layer in &mesh.layers {
                assert!(layer.iter().enumerate().all(|(place, &vertex)| mesh.position[vertex] == place));
            }
        }
    }

    #[test]
    fn crossings_match_a_naive_count() {
        for drawing in samples::all() {
            let mesh = ordered(&drawing);
            assert_eq!(crossings(&mesh), crossings_by_pairs(&mesh), "{}", drawing.title);
        }
    }

    #[test]
    fn planar_networks_are_drawn_without_crossings() {
        for drawing in [samples::resnet(), samples::inception(), samples::unet(5), samples::two_inputs()] {
            assert_eq!(crossings(&ordered(&drawing)), 0, "{}", drawing.title);
        }
    }

    #[test]
    fn sweeps_reduce_the_crossings_of_a_shuffled_graph() {
        let drawing = samples::random(120, 7);
        let links = layers::links(&drawing);
        let layers = layers::assign(&drawing, &links);
        let mut mesh = Mesh::new(&drawing, &links, &layers);
        let before = crossings(&mesh);
        reduce_crossings(&mut mesh, &layers);
        assert!(crossings(&mesh) * 2 < before, "{before} crossings became {}", crossings(&mesh));
    }

    #[test]
    fn a_shortcut_runs_to_the_right_of_the_trunk() {
        let mesh = ordered(&samples::plain(4, &[(0, 3), (0, 1), (1, 2), (2, 3)]));
        assert!(mesh.position[1] < mesh.position[4] && mesh.position[2] < mesh.position[5]);
    }
}
