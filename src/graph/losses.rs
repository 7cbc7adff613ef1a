//! Parts of a model that PNNX has lost, but which the types and shapes that it records still tell.

use super::{GraphError, ellipsis, filled, overwritten, restore_floor_divisions};
use crate::pnnx::Graph;

/// Puts right what PNNX has lost where the file leaves no doubt: [floor divisions](restore_floor_divisions), the ellipses of
/// einsum, the element types of comparisons in place, and masks of attention that PNNX has filled for its sample.
///
/// Doing it again changes nothing.
///
/// ```
/// use ixion::Limits;
/// use ixion::graph::restore_losses;
/// use ixion::pnnx::Graph;
///
/// let text = "7767517\n3 2\npnnx.Input in 0 1 a #a=(2,3,4)f32\n\
///     torch.einsum sum 1 1 a b equation=ij->i #a=(2,3,4)f32 #b=(2,3)f32\npnnx.Output out 1 0 b\n";
/// let mut graph = Graph::parse(text, &Limits::default())?;
/// restore_losses(&mut graph)?;
/// let sum = graph.operator(graph.operator_named("sum").unwrap());
/// assert_eq!(sum.param("equation").unwrap().raw(), "...ij->...i");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if the graph cannot be changed; a graph that was read from a file always can.
pub fn restore_losses(file: &mut Graph) -> Result<(), GraphError> {
    restore_floor_divisions(file)?;
    ellipsis::restore(file)?;
    filled::restore(file)?;
    overwritten::restore(file)
}
