//! Layers: the vertical position of each node.
//!
//! A node is one layer below the lowest node that it reads from (longest-path layering). Constants, and nodes
//! that depend on constants alone, move down to just above the first node that reads them.

use super::{Drawing, NodeKind};

/// An edge in layout direction, which is always downwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// Index in [`Drawing::edges`].
    pub(super) edge: usize,
    /// The upper node.
    pub(super) from: usize,
    /// The lower node.
    pub(super) to: usize,
    /// Whether the edge closes a cycle, and is drawn from `to` up to `from`.
    pub(super) upward: bool,
}

/// The layer of each node, and the lengths of the paths through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layers {
    /// Layer of each node, 0 at the top.
    pub(super) layer_of: Vec<usize>,
    /// Number of nodes on the longest path that ends above each node.
    pub(super) above: Vec<usize>,
    /// Number of nodes on the longest path that starts below each node.
    pub(super) below: Vec<usize>,
}

/// The valid edges of `drawing` without self-loops, reversed where necessary so that they form no cycle.
pub(super) fn links(drawing: &Drawing) -> Vec<Link> {
    let mut links: Vec<Link> = drawing
        .valid_edges()
        .filter(|(_, edge)| edge.from != edge.to)
        .map(|(index, edge)| Link { edge: index, from: edge.from, to: edge.to, upward: false })
        .collect();
    for index in closing(drawing.nodes.len(), &links) {
        let link = &mut links[index];
        std::mem::swap(&mut link.from, &mut link.to);
        link.upward = true;
    }
    links
}

/// The links that close a cycle: the back edges of a depth-first search.
fn closing(count: usize, links: &[Link]) -> Vec<usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        OnPath,
        Done,
    }
    let out = outgoing(count, links);
    let mut is_source = vec![true; count];
    links.iter().for_each(|link| is_source[link.to] = false);
    let mut state = vec![State::New; count];
    let mut closing = Vec::new();
    let roots = (0..count).filter(|&node| is_source[node]).chain((0..count).filter(|&node| !is_source[node]));
    for root in roots {
        if state[root] != State::New {
            continue;
        }
        state[root] = State::OnPath;
        let mut path = vec![(root, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&index) = out[*node].get(*next) else {
                state[*node] = State::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let target = links[index].to;
            match state[target] {
                State::New => {
                    state[target] = State::OnPath;
                    path.push((target, 0));
                }
                State::OnPath => closing.push(index),
                State::Done => {}
            }
        }
    }
    closing
}

/// For each node, the indices of the links that leave it.
fn outgoing(count: usize, links: &[Link]) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); count];
    for (index, link) in links.iter().enumerate() {
        out[link.from].push(index);
    }
    out
}

/// Assigns each node of `drawing` a layer. `links` must come from [`links`].
pub(super) fn assign(drawing: &Drawing, links: &[Link]) -> Layers {
    let count = drawing.nodes.len();
    let out = outgoing(count, links);
    let sequence = topological(&out, links);

    let mut above = vec![0; count];
    let mut needs_input: Vec<bool> = drawing.nodes.iter().map(|node| node.kind == NodeKind::Input).collect();
    for &node in &sequence {
        for target in out[node].iter().map(|&index| links[index].to) {
            above[target] = above[target].max(above[node] + 1);
            needs_input[target] |= needs_input[node];
        }
    }

    let mut layer_of = above.clone();
    let mut below = vec![0; count];
    for &node in sequence.iter().rev() {
        let targets = || out[node].iter().map(|&index| links[index].to);
        below[node] = targets().map(|target| below[target] + 1).max().unwrap_or(0);
        if !needs_input[node] {
            let first = targets().map(|target| layer_of[target]).min();
            layer_of[node] = first.map_or(layer_of[node], |first: usize| first.saturating_sub(1));
        }
    }
    Layers { layer_of, above, below }
}

/// The nodes in topological order (Kahn's algorithm).
fn topological(out: &[Vec<usize>], links: &[Link]) -> Vec<usize> {
    let mut waiting = vec![0_usize; out.len()];
    links.iter().for_each(|link| waiting[link.to] += 1);
    let mut sequence: Vec<usize> = (0..out.len()).filter(|&node| waiting[node] == 0).collect();
    let mut next = 0;
    while let Some(&node) = sequence.get(next) {
        next += 1;
        for target in out[node].iter().map(|&index| links[index].to) {
            waiting[target] -= 1;
            if waiting[target] == 0 {
                sequence.push(target);
            }
        }
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    fn layers(drawing: &Drawing) -> (Vec<Link>, Layers) {
        let links = links(drawing);
        let layers = assign(drawing, &links);
        (links, layers)
    }

    #[test]
    fn every_link_leads_to_a_lower_layer() {
        for drawing in samples::all() {
            let (links, layers) = layers(&drawing);
            for link in &links {
                assert!(layers.layer_of[link.from] < layers.layer_of[link.to], "{}: {link:?}", drawing.title);
            }
        }
    }

    #[test]
    fn every_layer_holds_a_node() {
        for drawing in samples::all() {
            let (_, layers) = layers(&drawing);
            let count = layers.layer_of.iter().max().map_or(0, |last| last + 1);
            assert!((0..count).all(|layer| layers.layer_of.contains(&layer)), "{}", drawing.title);
        }
    }

    #[test]
    fn a_cycle_is_broken_at_the_edge_that_closes_it() {
        let drawing = samples::plain(4, &[(0, 1), (1, 2), (2, 3), (3, 1)]);
        let (links, layers) = layers(&drawing);
        assert_eq!(layers.layer_of, [0, 1, 2, 3]);
        assert_eq!(links[3], Link { edge: 3, from: 1, to: 3, upward: true });
        assert!(links[..3].iter().all(|link| !link.upward));
    }

    #[test]
    fn a_cycle_without_a_source_is_broken_too() {
        let (links, layers) = layers(&samples::plain(3, &[(0, 1), (1, 2), (2, 0)]));
        assert_eq!(links.iter().filter(|link| link.upward).count(), 1);
        assert_eq!(layers.layer_of, [0, 1, 2]);
    }

    #[test]
    fn loops_and_unknown_indices_are_left_out() {
        let drawing = samples::plain(2, &[(0, 0), (0, 1), (0, 2), (usize::MAX, 1)]);
        assert_eq!(links(&drawing), [Link { edge: 1, from: 0, to: 1, upward: false }]);
    }

    #[test]
    fn a_constant_is_just_above_its_reader_and_an_input_at_the_top() {
        let mut drawing = samples::plain(7, &[(0, 1), (1, 2), (2, 3), (4, 5), (5, 3), (6, 3)]);
        drawing.nodes[0].kind = NodeKind::Input;
        drawing.nodes[6].kind = NodeKind::Input;
        let (_, layers) = layers(&drawing);
        assert_eq!(layers.layer_of, [0, 1, 2, 3, 1, 2, 0]);
    }

    #[test]
    fn path_lengths_count_nodes_above_and_below() {
        let (_, layers) = layers(&samples::plain(4, &[(0, 1), (1, 2), (0, 2), (2, 3)]));
        assert_eq!(layers.above, [0, 1, 2, 3]);
        assert_eq!(layers.below, [3, 2, 1, 0]);
    }
}
