//! Operators that return their input: clone, contiguous, identity, and dropout in evaluation mode.

use crate::op::{CpuLayer, Io, Layer, LayerError, Result, TensorMeta, View};
use crate::support::choices::MemoryFormat;
use crate::support::delegation::delegating;
use crate::support::views::{fill, view_layers};
use ixion_tensor::{DType, Layout, Shape, Tensor};

crate::operator! {
    /// `torch.clone`, `torch.Tensor.contiguous`, `torch.Tensor.detach` and similar: returns the input. Tensors of a graph are
    /// immutable, so a view serves as a copy, whatever its memory layout.
    pub struct CloneTensor for
        "torch.clone", "Tensor.clone", "Tensor.contiguous", "aten::detach", "aten::resolve_conj", "aten::resolve_neg"
    {
        /// Accepted for compatibility; the order in memory does not affect results.
        memory_format: Option<MemoryFormat> = None,
    }
}

crate::operator! {
    /// `torch.nn.Identity`: returns the input.
    pub struct Identity for "nn.Identity" {}
}

crate::operator! {
    /// `torch.nn.Dropout` and its variants in evaluation mode: returns the input.
    pub struct Dropout for
        "nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d", "nn.AlphaDropout", "nn.FeatureAlphaDropout",
        "F.dropout", "F.dropoutnd", "F.dropout1d", "F.dropout2d", "F.dropout3d", "F.alpha_dropout", "F.feature_alpha_dropout"
    {
        /// The probability that an element is zeroed in training; not used.
        p: f64 = 0.5,
        /// Whether to drop elements; only `False` is supported.
        training: bool = false,
        /// Accepted for compatibility; the result is the same.
        inplace: bool = false,
    }
    validate |dropout| {
        check_evaluation("training", if dropout.training { "True" } else { "False" })
    }
}

crate::operator! {
    /// `torch.native_dropout` in evaluation mode: returns the input, and a mask that is true everywhere.
    pub struct NativeDropout for "aten::native_dropout" {
        /// The probability that an element is zeroed in training; not used.
        p: f64,
        /// Whether to drop elements, as `None` does too; only `False` is supported.
        train: Option<bool>,
    }
    validate |dropout| {
        let train = match dropout.train {
            Some(false) => "False",
            Some(true) => "True",
            None => "None",
        };
        check_evaluation("train", train)
    }
}

/// Checks that a parameter does not ask for training.
fn check_evaluation(key: &'static str, training: &str) -> Result<()> {
    if training == "False" {
        return Ok(());
    }
    let reason = "Ixion runs trained models; export it after `model.eval()`";
    Err(LayerError::invalid(key, training, reason))
}

impl Layer for NativeDropout {
    fn num_outputs(&self) -> usize {
        2
    }

    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        // PyTorch has a mask of the input's type if there are no elements.
        let is_empty = inputs[0].num_elements() == 0usize;
        let dtype = if is_empty { inputs[0].dtype() } else { DType::Bool };
        Ok(vec![inputs[0].with_dims(inputs[0].dims().to_vec()), inputs[0].with_dtype(dtype)])
    }
}

impl CpuLayer for NativeDropout {
    fn forward(&mut self, io: &mut Io<'_, '_>) -> Result<()> {
        let [output, mask] = &mut *io.outputs else { return Ok(()) };
        output.copy_from(&io.inputs[0])?;
        fill(mask, &Tensor::scalar(true).cast(mask.dtype())?)
    }
}

impl Layer for Identity {
    fn infer(&self, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        Ok(vec![inputs[0].clone()])
    }

    fn view(&self, _: usize, inputs: &[Layout], _: &Shape) -> Result<Option<View>> {
        Ok(Some(View { input: 0, layout: inputs[0] }))
    }
}

view_layers!(Identity);

delegating! {
    CloneTensor |_layer| Identity {};
    Dropout |_layer| Identity {};
}

operators! { CloneTensor: moves(Copied), Identity: moves(Copied), Dropout: moves(Copied), NativeDropout }

#[cfg(test)]
mod tests {
    use crate::support::testing::{counting, operator};
    use ixion_tensor::{DType, Tensor};

    #[test]
    fn the_input_is_returned() {
        let cases: [(&str, &[(&str, &str)]); 6] = [
            ("torch.clone", &[("memory_format", "torch.channels_last")]),
            ("Tensor.clone", &[]),
            ("Tensor.contiguous", &[("memory_format", "torch.contiguous_format")]),
            ("nn.Identity", &[]),
            ("nn.Dropout2d", &[("p", "0.3"), ("inplace", "False")]),
            ("F.dropout", &[("training", "False")]),
        ];
        let x = counting(DType::Bf16, &[2, 3]).permute(&[1, 0]).unwrap();
        for (op_type, params) in cases {
            let output = operator(op_type, params).run_one(&[&x]).unwrap();
            assert!(output == x && output.shares_storage(&x), "{op_type}");
            operator(op_type, params).survives(1);
        }
    }

    #[test]
    fn training_is_refused() {
        let error =
            operator("F.dropout", &[("p", "0.5"), ("training", "True")]).create(1).unwrap_err().to_string();
        assert_eq!(
            error,
            "parameter `training` is True: Ixion runs trained models; export it after `model.eval()`"
        );
        for train in ["True", "None"] {
            let params = [("p", "0.5"), ("train", train)];
            let error = operator("aten::native_dropout", &params).create(1).unwrap_err().to_string();
            assert!(error.starts_with(&format!("parameter `train` is {train}: ")), "{error}");
        }
    }

    #[test]
    fn no_element_is_dropped() {
        let x = counting(DType::F16, &[2, 3]);
        let dropout = operator("aten::native_dropout", &[("p", "0.5"), ("train", "False")]);
        let outputs = dropout.run(&[&x]).unwrap();
        assert_eq!(outputs, [x, Tensor::ones(DType::Bool, &[2, 3]).unwrap()]);
        let empty = dropout.run(&[&counting(DType::F32, &[0])]).unwrap();
        assert_eq!(empty[1].dtype(), DType::F32);
        dropout.survives(1);
    }
}
