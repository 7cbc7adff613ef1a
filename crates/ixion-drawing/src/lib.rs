//! Drawings of a network's graph, as SVG and as Graphviz DOT, of the memory that it takes, and of the time.
//!
//! A [`Drawing`] says what to draw: cards (operators) and arrows (tensors). It knows nothing of models or files,
//! and needs nothing beyond the standard library. [`Drawing::to_svg`] lays the cards out in layers, from the
//! inputs at the top to the outputs at the bottom, in the manner of Sugiyama, Tagawa and Toda, "Methods for
//! visual understanding of hierarchical system structures" (1981):
//!
//! 1. `layers` breaks cycles and gives each card a layer, so that every arrow points downwards;
//! 2. `mesh` gives each arrow that passes other layers a track: one invisible bend per layer;
//! 3. `order` sorts each layer from left to right, so that few arrows cross;
//! 4. `align` and `coordinates` find the columns: the longest path becomes a straight trunk, shortcuts become
//!    straight side tracks;
//! 5. `routes` and `labels` draw the arrows between the layers and write the shapes beside them.
//!
//! Arrows run through cards' layers only on tracks that are kept free, and bend only between the layers.
//! So no arrow touches a card that it does not belong to. [`Drawing::to_dot`] leaves the layout to Graphviz.
//!
//! A [`MemoryMap`] draws who holds which part of the memory, and when; a [`Timeline`] when each operator ran.
//!
//! The same drawing always gives the same text, byte for byte.

mod align;
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

/// What to draw: the operators of a network and the tensors that flow between them.
///
/// Edges whose indices lie outside `nodes` are left out. Cycles are allowed: in the SVG, the edge that closes
/// one points upwards. An edge from a node to itself appears in the DOT text only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawing {
    /// Heading of the picture, such as the file's name.
    pub title: String,
    /// The cards. Edges refer to them by index.
    pub nodes: Vec<Node>,
    /// The arrows.
    pub edges: Vec<Edge>,
}

/// A card: one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Operator type, such as `nn.Conv2d`: the text of the coloured header.
    pub title: String,
    /// Operator name, such as `layer1.0.conv1`. May be empty.
    pub subtitle: String,
    /// Further lines, such as `64×3×7×7 weights, 37.6 KB`. May be empty.
    pub details: Vec<String>,
    /// What the operator does, shown as the header's colour.
    pub kind: NodeKind,
}

/// An arrow: one tensor that goes from the operator that makes it to an operator that reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Index in [`Drawing::nodes`] of the operator that makes the tensor.
    pub from: usize,
    /// Index in [`Drawing::nodes`] of the operator that reads the tensor.
    pub to: usize,
    /// Text beside the arrow, such as `1×64×56×56 f32`. May be empty.
    pub label: String,
}

/// What an operator does, in the words that a reader of a network would use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind {
    /// A tensor that the caller gives. Inputs stay at the top of the drawing.
    Input,
    /// A tensor that the caller gets.
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
    /// A change of form, not of values: reshape, permute, cat, slice.
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
    /// The drawing as a complete SVG document.
    ///
    /// Lengths are in CSS pixels. Colours follow the reader's light or dark setting. Long names are elided, and
    /// pointing at a card or an arrow shows them in full.
    #[must_use]
    pub fn to_svg(&self) -> String {
        svg::write(self)
    }

    /// The drawing as a Graphviz `digraph`, to be laid out by `dot`.
    ///
    /// Nodes are called `n0`, `n1`, … by their index. Nothing is elided.
    #[must_use]
    pub fn to_dot(&self) -> String {
        dot::write(self)
    }

    /// The edges between two existing nodes, with their index in `edges`.
    fn valid_edges(&self) -> impl Iterator<Item = (usize, &Edge)> {
        let count = self.nodes.len();
        self.edges.iter().enumerate().filter(move |(_, edge)| edge.from < count && edge.to < count)
    }
}
