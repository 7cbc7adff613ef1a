//! The PNNX file format: a model as a `.param` text and a `.bin` archive of weights.
//!
//! PNNX exports a PyTorch model as a list of operators with PyTorch's names and arguments. This crate reads,
//! checks, edits and writes such models. What an operator computes is outside its scope.
//!
//! # The text
//!
//! ```text
//! 7767517
//! 3 2
//! pnnx.Input               in                       0 1 x #x=(1,3)f32
//! nn.Linear                fc                       1 1 x y bias=True in_features=3 out_features=2 @bias=(2)f32 @weight=(2,3)f32 $input=x #x=(1,3)f32 #y=(1,2)f32
//! pnnx.Output              out                      1 0 y #y=(1,2)f32
//! ```
//!
//! The first line is a magic number; the second gives the numbers of operators and operands. Every other line
//! is one [`Operator`]: its type, its name, the numbers of its inputs and outputs, their names, and then fields
//! whose first character gives their kind:
//!
//! | in the text | meaning | here |
//! |---|---|---|
//! | `bias=True` | a parameter, whose type is inferred; see [`Parameter`] | [`Operator::params`] |
//! | `@weight=(2,3)f32` | a weight: shape and element type; the bytes are entry `fc.weight` of the archive | [`Operator::attrs`] |
//! | `$input=x` | the argument name of an input | [`Operator::input_names`] |
//! | `#y=(1,2)f32` | the shape of an operand in the sample run; `?` and `%name` are unknown sizes | [`Operand::shape`] |
//!
//! At optimisation level 0, PNNX repeats the name of a module that is called twice. The second `fc` is then called
//! `fc@2` here, but is still written as `fc`; see [`Operator::written_name`].
//!
//! Operators are listed in execution order, so an operator reads only what the lines above it compute. The
//! parameter `expr` holds fused arithmetic in a small expression language; see [`Expr`].
//!
//! # The archive
//!
//! The `.bin` is a zip file without compression; see [`Archive`]. Loading reads only its index; an
//! [`Attribute`] reads its bytes on demand.
//!
//! # A worked example
//!
//! ```
//! use ixion_tensor::Limits;
//! use ixion_pnnx::{Attribute, Graph};
//!
//! let text = "7767517\n3 2\n\
//!     pnnx.Input in 0 1 x #x=(1,3)f32\n\
//!     nn.Linear fc 1 1 x y bias=False in_features=3 @weight=(2,3)f32 $input=x\n\
//!     pnnx.Output out 1 0 y\n";
//! let mut graph = Graph::parse(text, &Limits::default())?;
//!
//! // Inspect the graph.
//! let fc = graph.operator_named("fc").unwrap();
//! let operator = graph.operator(fc);
//! assert_eq!(operator.op_type(), "nn.Linear");
//! assert_eq!(operator.get::<i64>("in_features")?, 3);
//! assert_eq!(operator.attr("weight").unwrap().shape(), [2, 3]);
//! assert_eq!(graph.operand(operator.inputs()[0]).name(), "x");
//!
//! // There is no archive, so the weight has no bytes yet.
//! assert_eq!(graph.check_weights().len(), 1);
//! graph.set_attribute(fc, "weight", Attribute::from_f32s(vec![2, 3], &[0.5; 6])?)?;
//! assert!(graph.check_weights().is_empty());
//!
//! // Put an activation between the layer and the output.
//! let out = graph.operator_named("out").unwrap();
//! let relu = graph.new_operator_after("F.relu", "relu", fc)?;
//! let activated = graph.new_operand("activated")?;
//! graph.connect_input(relu, graph.operand_named("y").unwrap(), Some("input"))?;
//! graph.connect_output(relu, activated)?;
//! graph.replace_input(out, 0, activated)?;
//!
//! // Save and load.
//! let folder = tempfile::tempdir()?;
//! let (param, bin) = (folder.path().join("m.param"), folder.path().join("m.bin"));
//! graph.save(&param, &bin)?;
//! let loaded = Graph::load(&param, Some(&bin), &Limits::default())?;
//! assert_eq!(loaded.to_param_text(), graph.to_param_text());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Python
//!
//! [`Graph::to_python`] writes the model as Python source that PyTorch runs, with the same weights. A [`PythonError`] lists
//! what PyTorch has no counterpart for.
//!
//! # Errors
//!
//! No file, however damaged, makes this crate panic. A [`PnnxError`] in a text prints as
//! `model.param:12:34: …`, with line and column; an error in the weights names the operator, the key and the
//! archive. Sizes are checked against [`Limits`](ixion_tensor::Limits) before anything is allocated.

#[doc(hidden)]
pub mod archive;
mod attribute;
mod error;
#[doc(hidden)]
pub mod expression;
mod graph;
mod ids;
mod load;
mod operand;
mod operator;
mod parameter;
mod problem;
mod python;
#[doc(hidden)]
pub mod recurrent;
mod save;
#[doc(hidden)]
pub mod text;
#[doc(hidden)]
pub mod value;

#[doc(inline)]
pub use archive::{Archive, ArchiveError, ArchiveWriter, Entry};
pub use attribute::{Attribute, WeightError};
#[doc(hidden)]
pub use attribute::{decode_floats, element_count};
pub use error::{PnnxError, Position};
#[doc(inline)]
pub use expression::{Expr, ExpressionError, ExpressionProblem, Function};
pub use graph::{Graph, GraphError};
pub use ids::{OperandId, OperatorId};
#[doc(hidden)]
pub use load::{Unlinked, link};
pub use operand::{Dim, Operand};
pub use operator::{Operator, ParamError, ParamProblem};
pub use parameter::{FromParameter, ParamTypeError, Parameter};
pub use problem::SyntaxProblem;
pub use python::{PythonError, PythonProblem, Unwritten};
#[doc(hidden)]
pub use save::{replace, write_beside};
#[doc(inline)]
pub use value::Value;
