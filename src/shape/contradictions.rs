//! Contradictions between a file and the operators in it, which show that the file is not the model that was exported.
//!
//! PNNX runs a model on a sample while it exports it, and records the element types and shapes of all results. If an operator
//! returns something else for the sample, PNNX has written another operator than the model had: it has lost an argument, an axis
//! of a constant or a slice. The book's page on what PNNX gets wrong lists such losses, and how to export without them.

use super::ShapeError;
use super::rule::check_inputs;
use super::symbols::axis_symbol;
use super::walk::infer_operator;
use crate::graph::{
    OperandIndex, OperatorIndex, OperatorPlace, RuntimeGraph, RuntimeOperand, RuntimeOperator,
};
use crate::op::{Category, CpuLayer, Creator, Elements, Properties, TensorMeta, catch_panic};
use crate::pnnx::{self, Expr, Function};
use crate::tensor::{DType, Dim};
use std::fmt;

/// An operator that cannot be what the exported model had in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Contradiction {
    /// The operator, with its line in the file.
    pub place: OperatorPlace,
    /// The reason.
    pub evidence: Evidence,
}

/// The reason why an operator cannot be what the exported model had in its place.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Evidence {
    /// An output of another element type or shape than the file records.
    Output {
        /// The position among the operator's outputs.
        position: usize,
        /// The name of its operand.
        operand: String,
        /// The element type in the file.
        dtype: DType,
        /// The shape in the file, which is that of the sample.
        shape: Vec<pnnx::Dim>,
        /// What the operator returns for inputs of the recorded shapes.
        computed: TensorMeta,
    },
    /// The difference or the quotient of a tensor and itself. PNNX reads one operand by two names after it has dropped what
    /// made them differ.
    Itself {
        /// The name of the operand.
        operand: String,
    },
    /// A sum with a stored product of a recurrent cell and its constant state. The cell adds the product with its input in place,
    /// so PNNX stores the sum for its own sample.
    Product {
        /// The name of the operand.
        operand: String,
    },
}

/// The page of the book that lists what PNNX loses.
const PAGE: &str = "What PNNX gets wrong, and what to do";

impl Contradiction {
    /// The section of the book's page "What PNNX gets wrong, and what to do" that explains the most likely loss, by its title.
    pub fn section(&self) -> &'static str {
        let (dtype, shape, computed) = match &self.evidence {
            Evidence::Output { dtype, shape, computed, .. } => (dtype, shape, computed),
            Evidence::Itself { .. } => return "Slices of axes of unknown size",
            Evidence::Product { .. } => return "Constants that change in place",
        };
        let op_type = self.place.op_type.as_str();
        let Properties { elements, category, .. } = Properties::of(op_type);
        let is_elementwise = matches!(category, Category::Elementwise | Category::Activation);
        match elements {
            _ if *dtype != computed.dtype() => "Element types that differ",
            _ if op_type == "Tensor.index" => "Constant indices with several axes",
            Elements::Computed if computed.rank() == 0 => "Empty lists of axes",
            Elements::Computed if is_elementwise && can_become(computed, shape) => "Copies that broadcast",
            _ if shape.len() != computed.rank() => "Shapes that differ",
            Elements::Sliced | Elements::Selected => "Slices of axes of unknown size",
            Elements::Reshaped | Elements::Expanded => "Sizes that are frozen",
            _ => "Shapes that differ",
        }
    }

    /// The contradiction as a warning, with what to do.
    pub fn message(&self) -> String {
        let section = self.section();
        format!(
            "{self}: PNNX has lost a part of the model, so results may be wrong; see \"{section}\" on the book's page \"{PAGE}\""
        )
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.place)?;
        match &self.evidence {
            Evidence::Output { position, dtype, shape, computed, .. } => {
                let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
                let which = if *position == 0 { String::new() } else { format!(" as output {position}") };
                let recorded = dims.join("×");
                write!(f, "returns {computed}{which}, but the file records {recorded} {dtype}")
            }
            Evidence::Itself { operand } => {
                write!(f, "computes the difference or the quotient of `{operand}` and itself")
            }
            Evidence::Product { operand } => {
                write!(f, "adds `{operand}`, a product of a recurrent cell that contains PNNX's sample")
            }
        }
    }
}

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
        let evidence = itself(graph, operator).or_else(|| stored_product(graph, operator));
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
/// weights only sizes that it stores are read. Nothing is found if that fails; building the graph then fails as well.
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

/// Whether a tensor can be broadcast to a recorded shape, of which unknown sizes say nothing.
fn can_become(tensor: &TensorMeta, shape: &[pnnx::Dim]) -> bool {
    let fits = |(dim, recorded): (&Dim, &pnnx::Dim)| match (dim.fixed(), recorded) {
        (Some(len), pnnx::Dim::Fixed(recorded)) => len == 1 || u64::try_from(len) == Ok(*recorded),
        _ => true,
    };
    tensor.rank() <= shape.len() && tensor.dims().iter().rev().zip(shape.iter().rev()).all(fits)
}

/// The operand that an expression reads by two names, and subtracts from itself or divides by itself.
fn itself(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Option<Evidence> {
    let inputs = operator.inputs();
    let mut numbered = inputs.iter().enumerate();
    let is_repeated = numbered.any(|(at, input)| inputs.iter().take(at).any(|it| it == input));
    if operator.op_type() != "pnnx.Expression" || !is_repeated {
        return None;
    }
    let expr = Expr::parse(operator.params().get("expr")?.raw()).ok()?;
    let mut found = None;
    expr.walk(&mut |part| {
        let Expr::Call { function: Function::Sub | Function::Div, args } = part else { return };
        let [Expr::Input(a), Expr::Input(b)] = args.as_slice() else { return };
        if a != b && inputs.get(*a) == inputs.get(*b) {
            found = inputs.get(*a).copied();
        }
    });
    Some(Evidence::Itself { operand: graph.operand(found?).name().to_owned() })
}

/// The stored product of a recurrent cell to which an expression adds another. Only these cells use `aten::unsafe_chunk`, which
/// divides the sum in `nn.LSTMCell`, and each product in `nn.GRUCell`.
fn stored_product(graph: &RuntimeGraph, operator: &RuntimeOperator) -> Option<Evidence> {
    let (&[a, b], &[sum]) = (operator.inputs(), operator.outputs()) else { return None };
    let is = |operator: OperatorIndex, op_type: &str| graph.operator(operator).op_type() == op_type;
    let is_from = |operand: OperandIndex, op_type: &str| {
        graph.operand(operand).producer().is_some_and(|producer| is(producer, op_type))
    };
    let is_sum = operator.op_type() == "pnnx.Expression"
        && operator.params().get("expr").is_some_and(|expr| expr.raw() == "add(@0,@1)");
    let (stored, other) = if is_from(a, "pnnx.Attribute") { (a, b) } else { (b, a) };
    let mut consumers = graph.operand(sum).consumers().iter();
    let is_of_cell =
        is_from(other, "aten::unsafe_chunk") || consumers.any(|&consumer| is(consumer, "aten::unsafe_chunk"));
    if !is_sum || !is_of_cell || !is_from(stored, "pnnx.Attribute") {
        return None;
    }
    // A stored bias would be a vector.
    let (stored, other) = (graph.operand(stored), graph.operand(other));
    let is_product = stored.shape().is_some() && stored.shape() == other.shape();
    is_product.then(|| Evidence::Product { operand: stored.name().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use std::collections::BTreeSet;

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
    fn the_book_has_each_section() {
        let book = include_str!("../../book/src/pnnx_losses.md");
        assert!(book.starts_with(&format!("# {PAGE}\n")));
        let output = |computed: &[i64], dtype, shape: &[u64]| Evidence::Output {
            position: 0,
            operand: "y".to_owned(),
            dtype,
            shape: shape.iter().copied().map(pnnx::Dim::Fixed).collect(),
            computed: TensorMeta::new(DType::F32, computed.iter().copied()),
        };
        let mut sections = BTreeSet::new();
        for op_type in ["Tensor.index", "Tensor.slice", "Tensor.reshape", "nn.Conv2d", "pnnx.Expression"] {
            let (op_type, name) = (op_type.to_owned(), "x".to_owned());
            let place = OperatorPlace { op_type, name, file: None, line: None };
            let outputs = [
                output(&[2, 3], DType::I64, &[2, 3]),
                output(&[2, 3], DType::F32, &[6]),
                output(&[2, 3], DType::F32, &[2, 4]),
                output(&[2, 3], DType::F32, &[5, 2, 3]),
                output(&[], DType::F32, &[2, 3]),
            ];
            let operand = || "y".to_owned();
            let others = [Evidence::Itself { operand: operand() }, Evidence::Product { operand: operand() }];
            for evidence in outputs.into_iter().chain(others) {
                sections.insert(Contradiction { place: place.clone(), evidence }.section());
            }
        }
        assert_eq!(sections.len(), 8, "{sections:?}");
        for section in sections {
            assert!(book.contains(&format!("\n## {section}\n")), "{section}");
        }
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

    #[test]
    fn products_of_cells_that_contain_the_sample() {
        let lstm = |stored: &str| {
            texts(&format!(
                "pnnx.Input in 0 1 a #a=(2,8)f32
                 pnnx.Attribute fold 0 1 h @data={stored}f32 #h={stored}f32
                 pnnx.Expression e 2 1 h a b expr=add(@0,@1) #b=(2,8)f32
                 aten::unsafe_chunk c 1 1 b l chunks=4 dim=1
                 prim::ListUnpack u 1 4 l i f g o #i=(2,2)f32 #f=(2,2)f32 #g=(2,2)f32 #o=(2,2)f32
                 pnnx.Output out 4 0 i f g o"
            ))
        };
        let wanted =
            "pnnx.Expression `e` adds `h`, a product of a recurrent cell that contains PNNX's sample";
        assert_eq!(lstm("(2,8)"), [wanted]);
        assert_eq!(lstm("(8)"), [] as [&str; 0]);
        let gru = texts(
            "pnnx.Input in 0 1 a #a=(2,6)f32
             aten::unsafe_chunk c 1 1 a l chunks=3 dim=1
             prim::ListUnpack u 1 3 l r z n #r=(2,2)f32 #z=(2,2)f32 #n=(2,2)f32
             pnnx.Attribute fold 0 1 h @data=(2,2)f32 #h=(2,2)f32
             pnnx.Expression e 2 1 r h s expr=add(@0,@1) #s=(2,2)f32
             pnnx.Output out 3 0 s z n",
        );
        assert_eq!(gru, [wanted]);
    }

    #[test]
    fn a_tensor_minus_itself_under_two_names() {
        let expression = |expr: &str, inputs: &str| {
            texts(&format!(
                "pnnx.Input in 0 1 a #a=(2,?)f32\npnnx.Expression e {inputs} b expr={expr} #b=(2,?)f32\npnnx.Output out 1 0 b"
            ))
        };
        let wanted = "pnnx.Expression `e` computes the difference or the quotient of `a` and itself";
        assert_eq!(expression("abs(sub(@0,@1))", "2 1 a a"), [wanted]);
        assert_eq!(expression("sub(@0,@0)", "1 1 a"), [] as [&str; 0]);
        assert_eq!(expression("add(@0,@1)", "2 1 a a"), [] as [&str; 0]);
    }
}
