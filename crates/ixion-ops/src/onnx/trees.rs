//! Ensembles of decision trees.

use crate::op::{
    Cost, CpuLayer, FieldValue, FromOperator, Io, Layer, LayerError, NO_KEY, OperatorReader, Result,
    TensorMeta, Weight, Written,
};
use crate::support::choices::choices;
use ixion_kernels::parallel::for_each_chunk;
use ixion_tensor::{DType, Dim, LimitError, Tensor, TensorView};
use std::ops::RangeInclusive;
use std::sync::Arc;

choices! {
    /// How the weights of all trees become one number.
    pub enum Aggregate {
        /// Their sum.
        Sum = "SUM",
        /// Their sum, divided by the number of trees.
        Average = "AVERAGE",
        /// The smallest one.
        Min = "MIN",
        /// The largest one.
        Max = "MAX",
    }
}

crate::operator! {
    /// `TreeEnsemble` (since 5 of `ai.onnx.ml`): the weights of the leaves that the features of each row, N×features, reach in
    /// all trees, N×targets in the type of the weights. A node follows the nodes that lead to it.
    pub struct TreeEnsemble for "TreeEnsemble" {
        /// The number of targets.
        n_targets: usize,
        /// How the weights of all trees become one number.
        aggregate: Aggregate = Aggregate::Sum,
        /// For each node, the feature that it compares; −1 for a leaf.
        features: Weight,
        /// For each node, the number that the feature is compared with.
        thresholds: Weight,
        /// For each node, the comparison: 0 ≤, 1 <, 2 ≥, 3 >, 4 =, 5 ≠; and 8 more if it holds for NaN.
        modes: Weight,
        /// For each node, the nodes that follow if the comparison holds, and if not; for a leaf, the first of its weights, and
        /// the one behind the last.
        children: Weight,
        /// The first node of each tree.
        roots: Weight,
        /// For each weight, its target.
        targets: Weight,
        /// The weights of all leaves.
        weights: Weight,
        /// The trees, once they are read.
        forest: Ready,
    }
}

/// The trees, once they are read.
#[derive(Debug, Clone, Default)]
pub struct Ready(Option<Arc<Forest>>);

impl FieldValue for Ready {
    const KIND: &'static str = NO_KEY;

    fn read(_: &mut OperatorReader<'_>, _: &'static str) -> Result<Option<Self>> {
        Ok(Some(Self::default()))
    }

    fn written(&self) -> Written {
        Written::Nothing
    }
}

/// A node of a tree.
#[derive(Debug, Clone, Copy)]
enum Node {
    Split { feature: usize, threshold: f64, mode: u8, children: [usize; 2] },
    Leaf { first: usize, end: usize },
}

/// Trees, with positions that were checked.
#[derive(Debug)]
struct Forest {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    leaves: Vec<(usize, f64)>,
    /// The number of features that some node compares.
    features: usize,
}

/// The elements of a weight.
fn numbers(weight: &Weight, inputs: &[TensorView<'_>]) -> Result<Vec<i64>> {
    Ok(weight.view(inputs)?.to_tensor()?.cast(DType::I64)?.to_vec::<i64>()?)
}

fn reals(weight: &Weight, inputs: &[TensorView<'_>]) -> Result<Vec<f64>> {
    Ok(weight.view(inputs)?.to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?)
}

fn damaged(key: &'static str, found: impl ToString, reason: &str) -> LayerError {
    LayerError::invalid(key, found.to_string(), reason)
}

impl TreeEnsemble {
    fn read(&self, inputs: &[TensorView<'_>]) -> Result<Forest> {
        let (features, modes) = (numbers(&self.features, inputs)?, numbers(&self.modes, inputs)?);
        let (thresholds, children) = (reals(&self.thresholds, inputs)?, numbers(&self.children, inputs)?);
        let count = features.len();
        if modes.len() != count || thresholds.len() != count || children.len() / 2 != count {
            return Err(damaged("features", count, "all lists of nodes must be equally long"));
        }
        let leaves = self.leaves(inputs)?;
        let place = |key, number: i64, range: std::ops::Range<usize>| {
            let found = usize::try_from(number).ok().filter(|place| range.contains(place));
            found.ok_or_else(|| {
                damaged(key, number, &format!("it must be from {} to {}", range.start, range.end))
            })
        };
        let mut nodes = Vec::with_capacity(count);
        let lists = features.iter().zip(&modes).zip(&thresholds).zip(children.chunks_exact(2));
        for (at, (((feature, mode), threshold), pair)) in lists.enumerate() {
            let &[yes, no] = pair else { continue };
            nodes.push(if *feature < 0 {
                let first = place("children", yes, 0..leaves.len() + 1)?;
                Node::Leaf { first, end: place("children", no, first..leaves.len() + 1)? }
            } else {
                let children =
                    [place("children", yes, at + 1..count)?, place("children", no, at + 1..count)?];
                let feature = place("features", *feature, 0..usize::MAX)?;
                let mode = u8::try_from(*mode).ok().filter(|mode| mode & 7 < 6 && *mode < 16);
                let mode = mode.ok_or_else(|| damaged("modes", at, "it is no comparison"))?;
                Node::Split { feature, threshold: *threshold, mode, children }
            });
        }
        let roots = numbers(&self.roots, inputs)?;
        let roots = roots.into_iter().map(|root| place("roots", root, 0..count)).collect::<Result<_>>()?;
        let used = nodes
            .iter()
            .filter_map(|node| if let Node::Split { feature, .. } = node { Some(*feature) } else { None });
        let features = used.max().map_or(0, |feature| feature.saturating_add(1));
        Ok(Forest { nodes, roots, leaves, features })
    }

    fn leaves(&self, inputs: &[TensorView<'_>]) -> Result<Vec<(usize, f64)>> {
        let (targets, weights) = (numbers(&self.targets, inputs)?, reals(&self.weights, inputs)?);
        if targets.len() != weights.len() {
            return Err(damaged("targets", targets.len(), "there must be as many targets as weights"));
        }
        let checked = targets.into_iter().zip(weights).map(|(target, weight)| {
            let found = usize::try_from(target).ok().filter(|target| *target < self.n_targets);
            Ok((found.ok_or_else(|| damaged("targets", target, "it must be below `n_targets`"))?, weight))
        });
        checked.collect()
    }
}

/// Whether a comparison holds.
fn holds(mode: u8, x: f64, threshold: f64) -> bool {
    let is_met = match mode & 7 {
        0 => x <= threshold,
        1 => x < threshold,
        2 => x >= threshold,
        3 => x > threshold,
        4 => x == threshold,
        _ => x != threshold,
    };
    is_met || (mode & 8 != 0 && x.is_nan())
}

impl Forest {
    /// The weights of the leaf that a row reaches from a root.
    fn reached(&self, root: usize, row: &[f64]) -> &[(usize, f64)] {
        let mut at = root;
        loop {
            // Every step leads to a later node, so this ends.
            match self.nodes.get(at) {
                Some(Node::Split { feature, threshold, mode, children }) => {
                    let x = row.get(*feature).copied().unwrap_or(f64::NAN);
                    at = children[usize::from(!holds(*mode, x, *threshold))];
                }
                Some(Node::Leaf { first, end }) => return self.leaves.get(*first..*end).unwrap_or_default(),
                None => return &[],
            }
        }
    }

    /// Fills the numbers of a row.
    fn evaluate(&self, row: &[f64], aggregate: Aggregate, results: &mut [f64]) {
        let start = match aggregate {
            Aggregate::Sum | Aggregate::Average => 0.0,
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
        };
        results.fill(start);
        for root in &self.roots {
            for (target, weight) in self.reached(*root, row) {
                if let Some(result) = results.get_mut(*target) {
                    *result = match aggregate {
                        Aggregate::Sum | Aggregate::Average => *result + weight,
                        Aggregate::Min => result.min(*weight),
                        Aggregate::Max => result.max(*weight),
                    };
                }
            }
        }
        for result in results {
            if aggregate == Aggregate::Average {
                *result /= self.roots.len().max(1) as f64;
            }
            // No leaf had a weight for this target.
            if result.is_infinite() && *result == start {
                *result = 0.0;
            }
        }
    }
}

impl Layer for TreeEnsemble {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        let count = 1 + self.field_inputs();
        count..=count
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let rows = match inputs[0].dims() {
            [_] => Dim::Fixed(1),
            [rows, _] => rows.clone(),
            _ => return Err(LayerError::shape("the input", "N×features", &inputs[0])),
        };
        let dtype = self.weights.meta(inputs)?.dtype();
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(LayerError::dtype("`weights`", "f32 and f64", dtype));
        }
        Ok(vec![TensorMeta::new(dtype, [rows, Dim::from(self.n_targets)])])
    }

    fn cost(&self, inputs: &[TensorMeta], outputs: &[TensorMeta]) -> Cost {
        Cost::of_moving(inputs, outputs)
    }
}

impl CpuLayer for TreeEnsemble {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let forest = match &self.forest.0 {
            Some(forest) => Arc::clone(forest),
            None => Arc::new(self.read(io.inputs)?),
        };
        // Weights that the graph computes may be others in the next run.
        if self.field_inputs() == 0 {
            self.forest.0 = Some(Arc::clone(&forest));
        }
        let width = io.inputs[0].shape().last().copied().unwrap_or(0);
        if width < forest.features {
            let wanted = format!("N×{} or more", forest.features);
            return Err(LayerError::shape("the input", wanted, format!("{:?}", io.inputs[0].shape())));
        }
        let rows = io.inputs[0].to_tensor()?.cast(DType::F64)?.to_vec::<f64>()?;
        let (targets, limits) = (self.n_targets.max(1), io.context.limits());
        let count = io.outputs[0].num_elements();
        limits.check_tensor("the sums of the trees", (count as u64).saturating_mul(8))?;
        let mut results = vec![0f64; count];
        for_each_chunk::<_, LimitError>(&mut results, targets.saturating_mul(ROWS), &|start, part| {
            limits.check_deadline()?;
            for (row, results) in part.chunks_mut(targets).enumerate() {
                let row = (start / targets + row) * width;
                forest.evaluate(rows.get(row..row + width).unwrap_or_default(), self.aggregate, results);
            }
            Ok(())
        })?;
        let shape = io.outputs[0].shape().to_vec();
        let results = Tensor::from_vec(results, &shape)?.cast(io.outputs[0].dtype())?;
        Ok(io.outputs[0].copy_from(&results.view())?)
    }
}

/// Rows that a thread computes at a time.
const ROWS: usize = 16;

operators! { TreeEnsemble; category Other }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::testing::{operator, tensor};

    /// x₀ ≤ 0.5 ? (x₁ > 1 ? 10 for target 0 : 20 for target 1) : 30 for both.
    fn tree(roots: &[i64], children: &[i64]) -> Vec<Tensor> {
        vec![
            tensor(&[5], &[0i64, 1, -1, -1, -1]),
            tensor(&[5], &[0.5f32, 1.0, 0.0, 0.0, 0.0]),
            tensor(&[5], &[8u8, 3, 0, 0, 0]),
            tensor(&[5, 2], children),
            tensor(&[roots.len()], roots),
            tensor(&[4], &[0i64, 1, 0, 1]),
            tensor(&[4], &[10f32, 20.0, 30.0, 30.0]),
        ]
    }

    fn run(parts: &[Tensor], x: &Tensor) -> Result<Tensor> {
        let mut inputs = vec![x];
        inputs.extend(parts);
        operator("TreeEnsemble", &[("n_targets", "2")]).run_one(&inputs)
    }

    #[test]
    fn rows_reach_leaves() {
        let children = [1i64, 4, 2, 3, 0, 1, 1, 2, 2, 4];
        let x = tensor(&[4, 2], &[0.5f32, 2.0, 0.0, 1.0, 0.6, 0.0, f32::NAN, 0.0]);
        let found = run(&tree(&[0], &children), &x).unwrap();
        assert_eq!(found.to_vec::<f32>().unwrap(), [10.0, 0.0, 0.0, 20.0, 30.0, 30.0, 0.0, 20.0]);
        let twice = run(&tree(&[0, 0], &children), &x).unwrap();
        assert_eq!(twice.to_vec::<f32>().unwrap(), [20.0, 0.0, 0.0, 40.0, 60.0, 60.0, 0.0, 40.0]);
    }

    #[test]
    fn damaged_trees() {
        let x = tensor(&[1, 2], &[0.5f32, 2.0]);
        for children in [
            [0i64, 4, 2, 3, 0, 1, 1, 2, 2, 4],
            [1, 9, 2, 3, 0, 1, 1, 2, 2, 4],
            [1, 4, 2, 3, 0, 1, 1, 2, 2, 9],
        ] {
            assert!(run(&tree(&[0], &children), &x).is_err(), "{children:?}");
        }
        let children = [1i64, 4, 2, 3, 0, 1, 1, 2, 2, 4];
        assert!(run(&tree(&[7], &children), &x).is_err());
        assert!(run(&tree(&[0], &children), &tensor(&[1, 1], &[0.5f32])).is_err());
    }
}
