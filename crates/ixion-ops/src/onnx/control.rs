//! The choice between values that are both computed.

use super::decompose::{Decompose, entry};
use super::decomposition::Decomposition;
use super::lowering::Source;
use crate::indexing::selection::Where;
use crate::op::{Layer, LayerError, Result, TensorMeta, exactly};
use crate::support::arguments::{InputCount, OutputCount};
use crate::support::broadcast::{Converted, TensorOrScalar};
use crate::support::dynamic::dynamic_layers;
use ixion_tensor::{DType, Dim, Limits, Tensor, TensorView};
use std::ops::RangeInclusive;

const CONDITION: Source = Source::Input(0);

crate::operator! {
    /// `If` (since 1) after import: the condition, then the values of one branch, then those of the other. Each output is the
    /// value of the first branch if the condition is true, else that of the second. Both branches are computed, so that neither
    /// may fail, whatever the condition is. If the shapes of an output's two values differ, its shape is known only when it runs.
    pub struct If for "If" {
        /// Number of inputs: one and twice as many as there are outputs.
        inputs: InputCount,
        /// Number of outputs that the file lists.
        outputs: OutputCount,
    }
}

/// One of two tensors with the same element type and number of axes.
#[derive(Debug, Clone, Copy)]
struct Choose;

impl If {
    /// The two values of an output.
    fn values(&self, output: usize) -> [Source; 2] {
        [Source::Input(1 + output), Source::Input(1 + self.outputs.0 + output)]
    }
}

impl Decompose for If {
    fn num_inputs(&self) -> Option<RangeInclusive<usize>> {
        Some(exactly(self.outputs.0.saturating_mul(2).saturating_add(1)))
    }

    fn num_outputs(&self) -> usize {
        self.outputs.0
    }

    fn is_data_dependent(&self) -> bool {
        true
    }

    fn decompose(&self, decomposition: &mut Decomposition) -> Result<Vec<Source>> {
        let condition = decomposition.meta(CONDITION)?;
        check_condition(condition)?;
        if let Some([Dim::Fixed(value)]) = condition.values() {
            let branch = usize::from(*value == 0);
            return Ok((0..self.outputs.0).map(|output| self.values(output)[branch]).collect());
        }
        let mut scalar = CONDITION;
        if condition.rank() > 0 {
            scalar = decomposition.reshape(Vec::new(), scalar)?;
        }
        (0..self.outputs.0).map(|output| choose(decomposition, scalar, self.values(output))).collect()
    }
}

/// Adds the step that chooses between two values.
fn choose(decomposition: &mut Decomposition, condition: Source, values: [Source; 2]) -> Result<Source> {
    let [then, other] = [decomposition.meta(values[0])?, decomposition.meta(values[1])?];
    check_types(then, other)?;
    let inputs = [condition, values[0], values[1]];
    if then.dims() == other.dims() {
        let choice = Where { input: TensorOrScalar::Input(1), other: TensorOrScalar::Input(2) };
        return decomposition.then(choice, &inputs);
    }
    decomposition.step(Choose, &inputs)
}

fn check_condition(condition: &TensorMeta) -> Result<()> {
    if condition.dtype() != DType::Bool {
        return Err(LayerError::dtype("the condition", "bool", condition.dtype()));
    }
    if condition.dims().iter().any(|len| len.differs(&Dim::Fixed(1))) {
        return Err(LayerError::shape("the condition", "one element", condition));
    }
    Ok(())
}

fn check_types(then: &TensorMeta, other: &TensorMeta) -> Result<()> {
    if then.dtype() != other.dtype() {
        return Err(LayerError::dtype("the value of the second branch", then.dtype(), other.dtype()));
    }
    Ok(())
}

impl Layer for Choose {
    fn num_inputs(&self) -> RangeInclusive<usize> {
        exactly(3)
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let (condition, then, other) = (&inputs[0], &inputs[1], &inputs[2]);
        check_condition(condition)?;
        check_types(then, other)?;
        if then.rank() != other.rank() {
            let wanted = format!("{} axes, as in the first branch", then.rank());
            return Err(LayerError::shape("the value of the second branch", wanted, other));
        }
        let dims = then.dims().iter().zip(other.dims()).map(|(len, other)| match len == other {
            true => len.clone(),
            false => Dim::fresh("chosen"),
        });
        Ok(vec![then.with_dims(dims)])
    }

    fn is_data_dependent(&self) -> bool {
        true
    }
}

impl Choose {
    fn compute(&self, inputs: &[TensorView<'_>], limits: &Limits) -> Result<Vec<Tensor>> {
        let condition = Converted::of(&inputs[0], DType::Bool)?;
        let is_first = condition.view().to_tensor()?.to_vec::<bool>()?.first().copied().unwrap_or_default();
        let chosen = if is_first { &inputs[1] } else { &inputs[2] };
        let bytes = chosen.num_elements().saturating_mul(chosen.dtype().size());
        limits.check_tensor("the chosen value", bytes as u64)?;
        Ok(vec![chosen.to_tensor()?])
    }
}

dynamic_layers!(Choose);

operators! { entry => If; category Shape }

#[cfg(test)]
mod tests {
    use crate::op::TensorMeta;
    use crate::support::testing::{operator, tensor};
    use ixion_tensor::DType;

    #[test]
    fn values_of_one_shape() {
        let (a, b) = (tensor(&[2], &[1f32, f32::NAN]), tensor(&[2], &[3f32, 4.0]));
        let (c, d) = (tensor(&[], &[1i64]), tensor(&[], &[2i64]));
        let run = |condition: bool| {
            let condition = tensor(&[1], &[condition]);
            operator("If", &[]).with_outputs(2).run(&[&condition, &a, &c, &b, &d]).unwrap()
        };
        assert_eq!(run(false)[0].to_vec::<f32>().unwrap(), [3.0, 4.0]);
        assert_eq!(run(true)[1].to_vec::<i64>().unwrap(), [1]);
        assert_eq!(run(true)[1].shape().len(), 0);
    }

    #[test]
    fn values_of_different_lengths() {
        let (a, b) = (tensor(&[2], &[1f32, 2.0]), tensor(&[3], &[3f32, 4.0, 5.0]));
        let run = |condition: bool| operator("If", &[]).run(&[&tensor(&[], &[condition]), &a, &b]).unwrap();
        assert_eq!(run(true)[0].to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(run(false)[0].to_vec::<f32>().unwrap(), [3.0, 4.0, 5.0]);
    }

    #[test]
    fn values_that_cannot_be_chosen_between() {
        let yes = TensorMeta::new(DType::Bool, [0usize; 0]);
        let [a, b, c] = [(DType::F32, 1), (DType::I64, 1), (DType::F32, 2)]
            .map(|(dtype, rank)| TensorMeta::new(dtype, vec![1usize; rank]));
        let refused = |inputs: &[&TensorMeta], why: &str| {
            let inputs: Vec<TensorMeta> = inputs.iter().map(|&input| input.clone()).collect();
            let error = operator("If", &[]).infer(&inputs).unwrap_err().to_string();
            assert!(error.contains(why), "`{why}` is not in: {error}");
        };
        refused(&[&yes, &a, &b], "expected f32");
        refused(&[&yes, &a, &c], "1 axes");
        refused(&[&a, &a, &a], "bool");
        assert!(operator("If", &[]).create(2).is_err() || operator("If", &[]).infer(&[yes, a]).is_err());
    }

    #[test]
    fn a_known_condition_decides_without_the_other_value() {
        let (a, b) = (tensor(&[1], &[1f32]), tensor(&[1, 1], &[2f32]));
        let run = |condition| operator("If", &[]).run(&[&tensor(&[], &[condition]), &a, &b]).unwrap();
        assert_eq!((run(true)[0].shape().rank(), run(false)[0].shape().rank()), (1, 2));
    }
}
