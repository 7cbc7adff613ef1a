//! Contradictions between a file and the operators in it, which show that the file is not the model that was exported.
//!
//! PNNX runs a model on a sample while it exports it, and records the element types and shapes of all results. If an operator
//! returns something else for the sample, PNNX has written another operator than the model had: it has lost an argument, an axis
//! of a constant or a slice. The book's page on what PNNX gets wrong lists such losses, and how to export without them.

use super::ShapeError;
use super::evidence::{Contradiction, Evidence};
use super::rule::check_inputs;
use super::suspects::suspicion;
use super::symbols::axis_symbol;
use super::walk::infer_operator;
use crate::graph::{RuntimeGraph, RuntimeOperand, RuntimeOperator};
use crate::op::{CpuLayer, Creator, TensorMeta, catch_panic};
use crate::pnnx;
use crate::tensor::Dim;

/// The operators of a graph that contradict what the file records for the sample that the model was exported with, in execution
/// order.
///
/// `graph` must be built from the file as it is, since passes change operators, but not what is recorded. Sizes that the file
/// records as unknown say nothing, and neither do outputs without a recorded shape; PNNX records none for scalars. Nor do the
/// recorded sizes of outputs that depend on values, since PNNX's sample has other values than the user's. Plugins are not asked.
/// Each operator is judged on the recorded shapes of its inputs, so that a single fault is reported once.
///
/// ```
/// use ixion::Limits;
/// use ixion::graph::RuntimeGraph;
/// use ixion::pnnx::Graph;
/// use ixion::shape::contradictions;
///
/// let text = "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\n\
///     Tensor.index twice 1 1 x y expr=[[0,1]] #y=(2,2,3)f32\npnnx.Output out 1 0 y\n";
/// let mut graph = RuntimeGraph::from_pnnx(Graph::parse(text, &Limits::default())?);
/// graph.build()?;
/// let found = contradictions(&graph)?;
/// assert_eq!(found[0].to_string(), "Tensor.index `twice` returns 2×3 f32, but the file records 2×2×3 f32");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`GraphError::NotBuilt`](crate::graph::GraphError::NotBuilt).
pub fn contradictions(graph: &RuntimeGraph) -> Result<Vec<Contradiction>, ShapeError> {
    let inputs = graph.inputs().iter().map(|port| sample(graph.operand(port.operand)));
    let inputs: Vec<Option<TensorMeta>> = inputs.collect();
    check_inputs(graph, &inputs)?;
    let mut metas = vec![None; graph.operands().len()];
    for (port, input) in graph.inputs().iter().zip(inputs) {
        metas[port.operand.position()] = input;
    }
    let mut found = Vec::new();
    for operator in graph.operators() {
        let place = || *operator.place(graph.path());
        let evidence = suspicion(graph, operator);
        found.extend(evidence.map(|evidence| Contradiction { place: place(), evidence }));
        let layer = own_layer(graph, operator);
        // An operator that rejects these inputs says so when it runs.
        let inferred = layer.and_then(|_| infer_operator(graph, operator, &metas).ok().flatten());
        let mut inferred = inferred.unwrap_or_default().into_iter();
        let is_dynamic =
            layer.is_some_and(|layer| catch_panic(|| Ok(layer.is_data_dependent())).unwrap_or(true));
        for (position, &output) in operator.outputs().iter().enumerate() {
            let operand = graph.operand(output);
            let computed = inferred.next();
            let compare = |computed: &TensorMeta| claim(operand, position, computed, is_dynamic);
            metas[output.position()] = match computed.as_ref().and_then(compare) {
                None => computed.or_else(|| sample(operand)),
                Some(evidence) => {
                    found.push(Contradiction { place: place(), evidence });
                    sample(operand)
                }
            };
        }
    }
    Ok(found)
}

/// As [`contradictions`], for the graph of a file that is not built yet. Its layers are created, but not initialised, so of its
/// weights only sizes that it stores and constants into which it writes are read. Nothing is found if that fails; building the
/// graph then fails as well.
pub fn contradictions_in(mut graph: RuntimeGraph) -> Vec<Contradiction> {
    let connected = graph.connect().map_err(ShapeError::from);
    let found = connected.and_then(|()| contradictions(&graph));
    found.unwrap_or_else(|error| {
        log::debug!("the shapes in the file were not compared: {error}");
        Vec::new()
    })
}

/// The layer of an operator, unless it is that of a plugin, which may never answer.
fn own_layer<'g>(graph: &RuntimeGraph, operator: &'g RuntimeOperator) -> Option<&'g dyn CpuLayer> {
    let creator = graph.registry().known(operator.op_type())?;
    operator.layer().filter(|_| creator.namespace == Creator::<dyn CpuLayer>::BUILT_IN)
}

/// What the file records for an operand, with a symbol for every unknown size.
fn sample(operand: &RuntimeOperand) -> Option<TensorMeta> {
    let dim = |(axis, dim): (usize, &pnnx::Dim)| match dim {
        pnnx::Dim::Fixed(len) => Dim::Fixed(i64::try_from(*len).unwrap_or(i64::MAX)),
        pnnx::Dim::Named(name) => Dim::symbol(name),
        pnnx::Dim::Unknown => axis_symbol(operand.name(), axis),
    };
    let dims: Vec<Dim> = operand.shape()?.iter().enumerate().map(dim).collect();
    Some(TensorMeta::new(operand.dtype()?, dims))
}

/// The contradiction between an output and what the file records for it.
fn claim(
    operand: &RuntimeOperand,
    position: usize,
    computed: &TensorMeta,
    is_dynamic: bool,
) -> Option<Evidence> {
    let (dtype, shape) = (operand.dtype()?, operand.shape()?);
    let differs = |(recorded, computed): (&pnnx::Dim, &Dim)| match (recorded, computed.fixed()) {
        (pnnx::Dim::Fixed(recorded), Some(computed)) => u64::try_from(computed) != Ok(*recorded),
        _ => false,
    };
    let has_other_sizes = !is_dynamic && shape.iter().zip(computed.dims()).any(differs);
    (dtype != computed.dtype() || shape.len() != computed.rank() || has_other_sizes).then(|| {
        let (operand, shape) = (operand.name().to_owned(), shape.to_vec());
        Evidence::Output { position, operand, dtype, shape, computed: computed.clone() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    /// The contradictions in a model of these lines.
    fn found(lines: &str) -> Vec<Contradiction> {
        let lines: Vec<&str> = lines.lines().map(str::trim).collect();
        let text = format!("7767517\n{} 9\n{}\n", lines.len(), lines.join("\n"));
        let file = pnnx::Graph::parse(&text, &Limits::default()).unwrap();
        let mut graph = RuntimeGraph::from_pnnx(file).with_random_weights(0);
        graph.build().unwrap();
        contradictions(&graph).unwrap()
    }

    fn texts(lines: &str) -> Vec<String> {
        found(lines).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_fault_is_reported_once_with_what_to_do() {
        let all = found(
            "pnnx.Input in 0 1 a #a=(2,3)f32
             Tensor.index i 1 1 a b expr=[[0,1]] #b=(2,2,3)f32
             nn.ReLU r 1 1 b c #c=(2,2,3)f32
             torch.flatten f 1 1 c d start_dim=1 end_dim=2 $input=c #d=(2,6)f32
             pnnx.Output out 1 0 d",
        );
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(all[0].to_string(), "Tensor.index `i` returns 2×3 f32, but the file records 2×2×3 f32");
        assert_eq!(all[0].place.line, Some(4));
        let message = all[0].message();
        assert!(message.contains("see \"Constant indices with several axes\" on"), "{message}");
    }

    #[test]
    fn the_section_is_that_of_the_likely_loss() {
        let sections = |lines: &str| found(lines).iter().map(Contradiction::section).collect::<Vec<_>>();
        let copy = "pnnx.Input in 0 1 a #a=(2,4,4)f32
             Tensor.select s 1 1 a b dim=0 index=0 $input=a #b=(4,4)f32
             pnnx.Expression e 1 1 b c expr=mul(@0,2) #c=(2,4,4)f32
             pnnx.Output out 1 0 c";
        assert_eq!(sections(copy), ["Copies that broadcast"]);
        let all = "pnnx.Input in 0 1 a #a=(2,3)bool
             pnnx.Expression n 0 1 d expr=None
             pnnx.Expression f 0 1 k expr=False
             aten::all l 3 1 a d k b #b=(2,3)bool
             pnnx.Output out 1 0 b";
        assert_eq!(sections(all), ["Empty lists of axes"]);
        let pool = "pnnx.Input in 0 1 a #a=(1,2,4,4)f32
             nn.AdaptiveAvgPool2d p 1 1 a b output_size=(1,1) #b=(1,2,2,2)f32
             pnnx.Output out 1 0 b";
        assert_eq!(sections(pool), ["Shapes that differ"]);
    }

    #[test]
    fn types_and_sizes_are_compared() {
        let all = texts(
            "pnnx.Input in 0 1 a #a=(2,4)i64
             pnnx.Expression e 1 1 a b expr=torch.float(@0) #b=(2,4)i64
             Tensor.slice s 1 1 b c dim=1 start=1 end=3 step=1 $input=b #c=(2,3)i64
             torch.topk t 1 2 c d i dim=1 k=1 largest=True sorted=True $input=c #d=(2,1)i64 #i=(2,1)f32
             pnnx.Output out 2 0 d i",
        );
        let wanted = [
            "pnnx.Expression `e` returns 2×4 f32, but the file records 2×4 i64",
            "Tensor.slice `s` returns 2×2 i64, but the file records 2×3 i64",
            "torch.topk `t` returns 2×1 i64 as output 1, but the file records 2×1 f32",
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn unknown_sizes_and_data_dependent_ones_say_nothing() {
        for lines in [
            "pnnx.Input in 0 1 a #a=(?,3)f32\nTensor.slice s 1 1 a b dim=0 start=1 end=3 step=1 $input=a #b=(?,3)f32\npnnx.Output out 1 0 b",
            "pnnx.Input in 0 1 a #a=(?,3)f32\nnn.ReLU r 1 1 a b #b=(4,3)f32\npnnx.Output out 1 0 b",
            "pnnx.Input in 0 1 a #a=(2,3)f32\nnn.ReLU r 1 1 a b\npnnx.Output out 1 0 b",
            "pnnx.Input in 0 1 a #a=(2,3)f32\naten::nonzero n 1 1 a b #b=(6,2)i64\nF.relu r 1 1 b c $input=b #c=(6,2)i64\npnnx.Output out 1 0 c",
            "pnnx.Input in 0 1 a\nnn.ReLU r 1 1 a b #b=(4,3)f32\npnnx.Output out 1 0 b",
        ] {
            assert_eq!(texts(lines), [] as [&str; 0], "{lines}");
        }
    }
}
