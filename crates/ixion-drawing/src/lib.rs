//! Drawings of a network's graph (SVG and Graphviz DOT), of its memory use and of its running times.
//!
//! A [`Drawing`] consists of cards (operators) and arrows (tensors). It is independent of models and files, and the
//! crate has no dependencies. [`Drawing::to_svg`] lays the cards out in layers, from the inputs at the top to the
//! outputs at the bottom, by the method of Sugiyama, Tagawa and Toda, "Methods for visual understanding of
//! hierarchical system structures" (1981):
//!
//! 1. `layers` breaks cycles and gives each card a layer, so that every arrow points downwards;
//! 2. `mesh` gives each arrow that skips layers a track: one invisible bend per layer;
//! 3. `order` sorts each layer from left to right, so that few arrows cross;
//! 4. `align` and `coordinates` compute the columns: the longest path becomes a straight trunk, shortcuts become
//!    straight side tracks;
//! 5. `routes` and `labels` draw the arrows between the layers and write the shapes next to them.
//!
//! Arrows pass layers of cards only on reserved tracks, and bend only between the layers, so no arrow touches a
//! card that it does not belong to. [`Drawing::to_dot`] leaves the layout to Graphviz.
//!
//! A [`MemoryMap`] shows the lifetimes and addresses of buffers; a [`Timeline`] shows when each operator ran.
//!
//! Output is deterministic: the same drawing gives the same text, byte for byte.

mod align;
mod bands;
mod coordinates;
mod dot;
mod labels;
mod layers;
mod layout;
mod memory;
mod mesh;
pub mod numbers;
mod order;
mod page;
mod palette;
mod routes;
#[cfg(test)]
mod samples;
mod style;
mod svg;
mod text;
mod timeline;

pub use memory::{Block, MemoryMap};
pub use timeline::{Bar, Timeline};

/// A drawing of a network: its operators and the tensors between them.
///
/// Edges with indices outside `nodes` are omitted. Cycles are allowed: in the SVG, the edge that closes a cycle points
/// upwards. An edge from a node to itself appears in the DOT text only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawing {
    /// The heading, such as the file's name.
    pub title: String,
    /// The cards. Edges refer to them by index.
    pub nodes: Vec<Node>,
    /// The arrows.
    pub edges: Vec<Edge>,
}

/// A card: one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The operator type, such as `nn.Conv2d`; shown in the coloured header.
    pub title: String,
    /// The operator name, such as `layer1.0.conv1`. May be empty.
    pub subtitle: String,
    /// Further lines, such as `64×3×7×7 weights, 37.6 KB`. May be empty.
    pub details: Vec<String>,
    /// The kind of operator; determines the header's colour.
    pub kind: NodeKind,
}

/// An arrow: a tensor from the operator that produces it to an operator that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Index in [`Drawing::nodes`] of the operator that produces the tensor.
    pub from: usize,
    /// Index in [`Drawing::nodes`] of the operator that reads the tensor.
    pub to: usize,
    /// The label next to the arrow, such as `1×64×56×56 f32`. May be empty.
    pub label: String,
}

/// The kind of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    /// A tensor that the caller provides. Inputs stay at the top of the drawing.
    Input,
    /// A tensor that the caller receives.
    Output,
    /// An operator with large weights: convolution, linear, embedding, recurrent.
    Weighted,
    /// Batch, layer, group and instance normalisation.
    Normalisation,
    /// A non-linear function: ReLU, GELU, softmax.
    Activation,
    /// Maximum and average pooling.
    Pooling,
    /// Arithmetic between tensors: add, multiply, expressions.
    Elementwise,
    /// A change of shape, not of values: reshape, permute, cat, slice.
    Shape,
    /// Everything else.
    Other,
}

impl NodeKind {
    /// Every kind, in the order of the legend.
    pub const ALL: [NodeKind; 9] = [
        NodeKind::Input,
        NodeKind::Weighted,
        NodeKind::Normalisation,
        NodeKind::Activation,
        NodeKind::Pooling,
        NodeKind::Elementwise,
        NodeKind::Shape,
        NodeKind::Other,
        NodeKind::Output,
    ];
}

impl Drawing {
    /// Renders a complete SVG document.
    ///
    /// Lengths are in CSS pixels. Colours follow the reader's light or dark setting. Long names are elided; tooltips of
    /// cards and arrows show them in full.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// Renders a Graphviz `digraph`, to be laid out by `dot`.
    ///
    /// Nodes are named `n0`, `n1`, … by their index. Nothing is elided.
    #[must_use]
    pub fn to_dot(&self) -> String {
        dot::write(self)
    }

    /// The edges between existing nodes, with their indices in `edges`.
    fn valid_edges(&self) -> impl Iterator<Item = (usize, &Edge)> {
        let count = self.nodes.len();
        self.edges.iter().enumerate().filter(move |(_, edge)| edge.from < count && edge.to < count)
    }
}
