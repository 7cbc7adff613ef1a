//! Loading and running a model in one line.

use super::{Builder, Context, EngineError, Plan, PlanFile};
use crate::shape::Contradiction;
use crate::tensor::Tensor;
use std::path::PathBuf;
use std::sync::Arc;

/// A plan with a single context: the simplest way to run a model.
///
/// ```
/// use ixion::{Model, Tensor};
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/model_file/linear/linear.pnnx.param");
/// let input = Tensor::from_vec(vec![0.5f32; 32], &[1, 32])?;
/// let outputs = Model::load(path)?.run(&[input])?;
/// assert_eq!(outputs[0].shape().dims(), &[1, 128]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Model {
    context: Context<'static>,
}

impl Model {
    /// Reads a `.param` file and the archive next to it, or a saved plan. Logs a warning for each of [`Model::warnings`].
    ///
    /// # Errors
    /// As [`Builder::build`] or [`Plan::load`].
    pub fn load(path: impl Into<PathBuf>) -> Result<Self, EngineError> {
        let path = path.into();
        if PlanFile::is_plan(&path) {
            return Self::from_plan(Plan::load(path)?);
        }
        let plan = Builder::new(path).build()?;
        plan.warnings().iter().for_each(|warning| log::warn!("{}", warning.message()));
        Self::from_plan(plan)
    }

    /// Creates a model from a plan, which may be built with other settings.
    ///
    /// # Errors
    /// As [`Plan::context`].
    pub fn from_plan(plan: Plan) -> Result<Self, EngineError> {
        Ok(Self { context: Context::shared(Arc::new(plan))? })
    }

    /// Runs the model on its inputs, in the order of [`Plan::inputs`], and returns all outputs.
    ///
    /// # Errors
    /// As [`Context::run`].
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>, EngineError> {
        self.context.run(inputs)
    }

    /// The operators of the file that contradict what it records, as [`Plan::warnings`].
    pub fn warnings(&self) -> &[Contradiction] {
        self.plan().warnings()
    }

    /// The plan: names of inputs and outputs, operators, options.
    pub fn plan(&self) -> &Plan {
        self.context.plan()
    }

    /// The context, which can do more than [`Model::run`].
    pub fn context(&mut self) -> &mut Context<'static> {
        &mut self.context
    }
}
