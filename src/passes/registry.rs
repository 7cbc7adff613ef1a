//! All passes, in their order.

use super::{Entry, Pass, PassContext, PassError, PassStatistics, Statistics};
use crate::graph::{GraphError, resolve_control, resolve_quantization, restore_losses};
use crate::pnnx::{Graph, OperandId};
use std::time::Instant;

/// Passes in order of priority, each enabled or disabled.
///
/// [`Passes::default`] holds all built-in passes. See the [module](super) for an example.
#[derive(Debug, Clone)]
pub struct Passes {
    entries: Vec<Entry>,
    max_rounds: usize,
}

impl Default for Passes {
    fn default() -> Self {
        let mut entries = super::all::all();
        entries.sort_by_key(|entry| entry.priority);
        Self { entries, ..Self::empty() }
    }
}

impl Passes {
    /// The default maximum number of rounds.
    pub const MAX_ROUNDS: usize = 16;

    /// No passes.
    pub fn empty() -> Self {
        Self { entries: Vec::new(), max_rounds: Self::MAX_ROUNDS }
    }

    /// Adds an enabled pass. Passes of the same priority run in the order in which they were added.
    ///
    /// # Errors
    /// [`PassError::Duplicate`] if a pass already has this name.
    pub fn add(&mut self, priority: u32, pass: impl Pass + 'static) -> Result<(), PassError> {
        if self.entries.iter().any(|entry| entry.pass.name() == pass.name()) {
            return Err(PassError::Duplicate { name: pass.name().to_owned() });
        }
        self.entries.push(Entry::new(priority, pass));
        self.entries.sort_by_key(|entry| entry.priority);
        Ok(())
    }

    /// All passes, in the order in which they run.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Enables or disables a pass.
    ///
    /// # Errors
    /// [`PassError::Unknown`] if no pass has this name.
    pub fn set_enabled(&mut self, name: &str, enabled: bool) -> Result<(), PassError> {
        let known = || self.entries.iter().map(|entry| entry.pass.name().to_owned()).collect();
        let Some(at) = self.entries.iter().position(|entry| entry.pass.name() == name) else {
            return Err(PassError::Unknown { name: name.to_owned(), known: known() });
        };
        if let Some(entry) = self.entries.get_mut(at) {
            entry.enabled = enabled;
        }
        Ok(())
    }

    /// Enables or disables all passes.
    pub fn set_all_enabled(&mut self, enabled: bool) {
        self.entries.iter_mut().for_each(|entry| entry.enabled = enabled);
    }

    /// Sets the maximum number of rounds. Default: [`MAX_ROUNDS`](Self::MAX_ROUNDS).
    #[must_use]
    pub fn with_max_rounds(self, max_rounds: usize) -> Self {
        Self { max_rounds, ..self }
    }

    /// Runs all enabled passes in rounds, until none fires any more.
    ///
    /// # Errors
    /// A [`PassError`]. The graph may then be partly changed.
    pub fn run(&self, graph: &mut Graph, mut context: PassContext) -> Result<Statistics, PassError> {
        let enabled: Vec<&dyn Pass> =
            self.entries.iter().filter(|entry| entry.enabled).map(|entry| &*entry.pass).collect();
        let mut statistics = Statistics { nodes_before: graph.operator_count(), ..Statistics::default() };
        // A graph that cannot be resolved cannot be built either, and the build reports the error.
        if let Err(error) = resolve(graph, &context) {
            log::debug!("passes skipped, the graph cannot be built: {error}");
            return Ok(statistics);
        }
        let mut step = |pass: &&dyn Pass| run_one(*pass, graph, &mut context, &mut statistics);
        let rounds = run_to_fixpoint(&enabled, self.max_rounds, &mut step)?;
        statistics.rounds = rounds;
        statistics.nodes_after = graph.operator_count();
        Ok(statistics)
    }
}

/// Resolves what passes would misunderstand: lists that grow, whose operators return nothing that is used; quantised values,
/// which are not integers; and what only the recorded types and shapes tell, such as that a division is a floor division.
fn resolve(graph: &mut Graph, context: &PassContext) -> Result<(), GraphError> {
    resolve_control(graph, context.registry(), None)?;
    resolve_quantization(graph)?;
    restore_losses(graph)
}

// ANCHOR: run_to_fixpoint
/// Runs all passes in order, round after round, until no pass fires in a round or `max_rounds` is reached. Returns the
/// number of rounds. `run` returns whether a pass fired.
///
/// # Errors
/// The first error of `run`.
pub fn run_to_fixpoint<P, E>(
    passes: &[P],
    max_rounds: usize,
    run: &mut dyn FnMut(&P) -> Result<bool, E>,
) -> Result<usize, E> {
    // ANCHOR: run_to_fixpoint_todo -- task 6: run all passes until a whole round changes nothing
    for round in 0..max_rounds {
        let mut fired = false;
        for pass in passes {
            fired |= run(pass)?;
        }
        if !fired {
            return Ok(round + 1);
        }
    }
    Ok(max_rounds)
    // ANCHOR_END: run_to_fixpoint_todo
}
// ANCHOR_END: run_to_fixpoint

/// Runs one pass and checks that the graph is still valid, with the same inputs and outputs.
fn run_one(
    pass: &dyn Pass,
    graph: &mut Graph,
    context: &mut PassContext,
    statistics: &mut Statistics,
) -> Result<bool, PassError> {
    let (start, nodes, ports) = (Instant::now(), graph.operator_count(), ports(graph));
    let outcome = pass.run(graph, context)?;
    let fired = outcome.fired > 0;
    if fired {
        context.graph_changed();
        check(pass, graph, &ports)?;
    }
    let at = statistics.passes.iter().position(|known| known.name == pass.name()).unwrap_or_else(|| {
        let name = pass.name().to_owned();
        statistics.passes.push(PassStatistics { name, nodes_before: nodes, ..PassStatistics::default() });
        statistics.passes.len() - 1
    });
    let size = |nodes: usize| i64::try_from(nodes).unwrap_or(i64::MAX);
    if let Some(known) = statistics.passes.get_mut(at) {
        known.fired += outcome.fired;
        known.refused = outcome.refused;
        known.nodes_saved += size(nodes) - size(graph.operator_count());
        known.time += start.elapsed();
    }
    Ok(fired)
}

/// The names of the model's input and output operands.
fn ports(graph: &Graph) -> Vec<String> {
    let mut names = Vec::new();
    for (_, operator) in graph.operators() {
        let operands: &[OperandId] = match operator.op_type() {
            "pnnx.Input" => operator.outputs(),
            "pnnx.Output" => operator.inputs(),
            _ => &[],
        };
        names.extend(operands.iter().map(|&operand| graph.operand(operand).name().to_owned()));
    }
    names
}

fn check(pass: &dyn Pass, graph: &Graph, before: &[String]) -> Result<(), PassError> {
    let broken = |reason: String| PassError::Broken { pass: pass.name().to_owned(), reason };
    graph.check().map_err(|error| broken(error.to_string()))?;
    let after = ports(graph);
    if after == before {
        return Ok(());
    }
    Err(broken(format!("its inputs and outputs changed from {} to {}", before.join(", "), after.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_passes_are_valid_and_have_unique_names() {
        let passes = Passes::default();
        passes.iter().for_each(|entry| entry.pass.validate().unwrap());
        let names: BTreeSet<&str> = passes.iter().map(|entry| entry.pass.name()).collect();
        assert_eq!(names.len(), passes.iter().count());
        assert!(passes.iter().all(|entry| !entry.pass.doc().is_empty()));
    }

    #[test]
    fn lists_that_grow_are_resolved_before_dead_code_is_removed() {
        let text = "7767517\n6 5\npnnx.Input in 0 1 x #x=(2,3)f32\nprim::ListConstruct a 1 1 x l\n\
            F.relu b 1 1 x y\naten::append c 2 1 l y m\ntorch.cat d 1 1 l z dim=0\npnnx.Output out 1 0 z\n";
        let mut graph = Graph::parse(text, &crate::Limits::default()).unwrap();
        Passes::default().run(&mut graph, PassContext::default()).unwrap();
        let cat = graph.operator(graph.operator_named("d").unwrap());
        let list = graph.operator(graph.operand(cat.inputs()[0]).producer().unwrap());
        assert_eq!((list.op_type(), list.inputs().len()), ("prim::ListConstruct", 2));
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let mut passes = Passes::default();
        let error = passes.set_enabled("dead_cod", false).unwrap_err().to_string();
        assert!(error.starts_with("unknown pass `dead_cod`; known passes: dead_code, "), "{error}");
        passes.set_enabled("dead_code", false).unwrap();
        assert!(!passes.iter().next().unwrap().enabled);
    }
}
