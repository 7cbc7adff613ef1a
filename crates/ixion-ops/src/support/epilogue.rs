//! Fused operations on a product before it is stored: an activation function, a sum with another tensor, or both.

use super::broadcast::broadcasts;
use super::float;
use super::shape_cache::ShapeCache;
use crate::arithmetic::expression::Compiled;
use crate::op::{FieldValue, LayerError, OperatorReader, Result, TensorMeta, Written};
use ixion_kernels::Float;
use ixion_kernels::elementwise::{ApplyEpilogue, Prepared, Run};
use ixion_kernels::elementwise::{Program, Value};
use ixion_pnnx::Function;
use ixion_tensor::{DType, Limits, Shape, TensorView, TensorViewMut};

/// The parameter `epilogue=relu(add(@0,@1))` of convolutions, `linear` and `matmul`: an expression that is applied to each
/// element of the result while it is still in the cache. PNNX does not write it, Ixion's passes do.
///
/// `@0` is the result, `@1`, `@2`, … are additional inputs of the operator, which the file names `$epilogue_1=…`,
/// `$epilogue_2=…`. They are broadcast to the shape of the result. The result keeps its shape and its element type.
#[derive(Debug, Clone)]
pub struct Epilogue {
    expr: Compiled,
    /// Positions of the additional inputs.
    inputs: Vec<usize>,
    ready: ShapeCache<Prepared>,
}

const INPUTS: [&str; 4] = ["epilogue_1", "epilogue_2", "epilogue_3", "epilogue_4"];

impl Epilogue {
    /// The number of additional inputs.
    pub fn num_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Returns true if each element depends only on the elements at the same position, provided that all tensors have the
    /// result's shape.
    pub(crate) fn is_pointwise(&self) -> bool {
        self.expr.is_pointwise()
    }

    /// The position of the added input and the bounds, if the epilogue is the result clamped between two bounds, or the
    /// clamped sum of the result and an additional input. Products compute this while their sums are in registers.
    pub(crate) fn bounded_sum(&self) -> Option<(Option<usize>, [f32; 2])> {
        let (added, bounds) = self.expr.bounded_sum()?;
        match added {
            Some(input) => Some((Some(*self.inputs.get(input.checked_sub(1)?)?), bounds)),
            None => Some((None, bounds)),
        }
    }

    /// The position of the added input, if the epilogue is the sum of a function of the result and an additional input.
    pub(crate) fn added_input(&self) -> Option<usize> {
        self.inputs.get(self.expr.added_input()?.checked_sub(1)?).copied()
    }

    /// The function of the result to which [an input](Epilogue::added_input) is added.
    pub(crate) fn without_added(&self) -> Option<Self> {
        let expr = self.expr.without_added()?;
        Some(Self { expr, inputs: self.inputs.clone(), ready: ShapeCache::default() })
    }

    /// The position of the added input and the function, if the epilogue is a function of the result, or of the sum of the
    /// result and an additional input. The function is ReLU, ReLU6, GELU by tanh, or `None` for the identity.
    pub fn function_of_sum(&self) -> Option<(Option<usize>, Option<Function>)> {
        let (added, function) = self.expr.function_of_sum()?;
        let position = |input: usize| self.inputs.get(input.checked_sub(1)?).copied();
        match added {
            Some(input) => Some((Some(position(input)?), function)),
            None => Some((None, function)),
        }
    }

    /// The bounds and the added elements of a [`Epilogue::bounded_sum`], if the output and the added input are `f32`, of the
    /// same shape and contiguous.
    pub(crate) fn in_registers<'a>(
        &self,
        inputs: &[TensorView<'a>],
        output: &TensorViewMut<'_>,
    ) -> Option<([f32; 2], Option<&'a [f32]>)> {
        let (added, bounds) = self.bounded_sum()?;
        if output.dtype() != DType::F32 || !output.layout().is_contiguous() {
            return None;
        }
        let Some(position) = added else { return Some((bounds, None)) };
        let added = inputs.get(position).filter(|added| added.shape() == output.shape())?;
        Some((bounds, Some(added.slice::<f32>().ok()?)))
    }

    /// Checks that the result keeps its element type and its shape.
    ///
    /// # Errors
    /// Returns an error if the result would change its type or shape, or if an input cannot be broadcast to it.
    pub fn check(&self, result: &TensorMeta, inputs: &[TensorMeta]) -> Result<()> {
        let metas = self.metas(result, inputs)?;
        if let Some(input) = metas.iter().find(|meta| !broadcasts(meta.dims(), result.dims())) {
            let wanted = format!("a shape that can be broadcast to {result}");
            return Err(LayerError::shape("an input of the epilogue", wanted, input));
        }
        let found = self.expr.infer(&metas)?;
        if found.dtype() == result.dtype() && found.may_have_dims(result.dims()) {
            return Ok(());
        }
        Err(LayerError::shape("the result of the epilogue", result, found))
    }

    /// The program that computes the epilogue. Its inputs are the operator's; the result is in the output.
    ///
    /// # Errors
    /// As [`Epilogue::check`].
    pub fn program(&self, result: &TensorMeta, inputs: &[TensorMeta]) -> Result<(Program, Value)> {
        let place = |input: usize| Some(*self.inputs.get(input.checked_sub(1)?)?);
        self.expr.program(&self.metas(result, inputs)?, place)
    }

    fn metas(&self, result: &TensorMeta, inputs: &[TensorMeta]) -> Result<Vec<TensorMeta>> {
        let additional = self.inputs.iter().map(|&position| {
            let input = inputs.get(position).cloned();
            input.ok_or_else(|| LayerError::missing_input(position, inputs.len()))
        });
        std::iter::once(Ok(result.with_dims(result.dims().to_vec()))).chain(additional).collect()
    }

    /// Prepares the epilogue for a result of this element type and shape.
    ///
    /// # Errors
    /// As [`Epilogue::check`], which the caller has run before.
    pub fn start<'a>(
        &'a mut self,
        inputs: &'a [TensorView<'a>],
        dtype: DType,
        shape: &Shape,
    ) -> Result<Run<'a>> {
        let Self { expr, inputs: positions, ready } = self;
        let make = || -> Result<Prepared> {
            let result = TensorMeta::new(dtype, shape.iter().copied());
            let views = positions.iter().filter_map(|&position| inputs.get(position));
            let views = views.map(|view| TensorMeta::new(view.dtype(), view.shape().iter().copied()));
            let metas: Vec<TensorMeta> = std::iter::once(result).chain(views).collect();
            let place = |input: usize| Some(*positions.get(input.checked_sub(1)?)?);
            let (program, value) = expr.program(&metas, place)?;
            Ok(program.prepare(value, inputs, dtype, shape)?)
        };
        Ok(ready.get_or_make(|ready| ready.fits(inputs, dtype, shape), make)?.start(inputs)?)
    }

    /// Applies the epilogue to a complete result.
    ///
    /// # Errors
    /// As [`Epilogue::start`]; also if the deadline has passed.
    pub fn apply(
        &mut self,
        inputs: &[TensorView<'_>],
        output: &mut TensorViewMut<'_>,
        limits: &Limits,
    ) -> Result<()> {
        let (dtype, shape) = (output.dtype(), *output.shape());
        if shape.num_elements() == 0 {
            return Ok(());
        }
        Ok(self.start(inputs, dtype, &shape)?.whole(output, limits)?)
    }
}

/// As [`Epilogue::check`], if there is one.
pub(crate) fn check(epilogue: Option<&Epilogue>, result: &TensorMeta, inputs: &[TensorMeta]) -> Result<()> {
    epilogue.map_or(Ok(()), |epilogue| epilogue.check(result, inputs))
}

/// Lets `fill` write all elements of an output in row-major order as `T`, and apply the epilogue to each chunk. If the output
/// has another type or layout, the epilogue is applied to all of it afterwards.
///
/// # Errors
/// The errors of `fill` and of the epilogue.
pub(crate) fn with<T: Float>(
    epilogue: Option<&mut Epilogue>,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
    fill: impl FnOnce(&mut [T], Option<&dyn ApplyEpilogue<T>>) -> Result<()>,
) -> Result<()> {
    let mut fill = Some(fill);
    let mut fill = |values: &mut [T], apply: Option<&dyn ApplyEpilogue<T>>| {
        fill.take().map_or(Ok(()), |fill| fill(values, apply))
    };
    with_filled(epilogue, inputs, output, limits, &mut fill)
}

/// Writes an output, and applies an epilogue to its chunks, if it gets one.
type Fill<'a, T> = dyn FnMut(&mut [T], Option<&dyn ApplyEpilogue<T>>) -> Result<()> + 'a;

fn with_filled<T: Float>(
    epilogue: Option<&mut Epilogue>,
    inputs: &[TensorView<'_>],
    output: &mut TensorViewMut<'_>,
    limits: &Limits,
    fill: &mut Fill<'_, T>,
) -> Result<()> {
    let (dtype, shape) = (output.dtype(), *output.shape());
    match epilogue {
        Some(epilogue) if dtype == T::DTYPE && output.layout().is_contiguous() => {
            let run = epilogue.start(inputs, dtype, &shape)?;
            fill(output.slice()?, Some(&run))
        }
        Some(epilogue) => {
            float::write(output, |output| fill(output, None))?;
            epilogue.apply(inputs, output, limits)
        }
        None => float::write(output, |output| fill(output, None)),
    }
}

impl FieldValue for Option<Epilogue> {
    const KIND: &'static str = "an expression";

    fn read(reader: &mut OperatorReader<'_>, key: &'static str) -> Result<Option<Self>> {
        let Some(parameter) = reader.param(key).filter(|parameter| !parameter.is_none()) else {
            return Ok(None);
        };
        let expr = Compiled::parse(key, parameter)?;
        let mut inputs = Vec::new();
        for name in INPUTS.into_iter().take(expr.input_count().saturating_sub(1)) {
            inputs.extend(reader.later_input(name)?);
        }
        if expr.input_count() == 1 + inputs.len() && expr.is_arithmetic() {
            return Ok(Some(Some(Epilogue { expr, inputs, ready: ShapeCache::default() })));
        }
        let reason = "expected arithmetic on `@0`, the result, and on `@1` to `@4`, the inputs `epilogue_1` to `epilogue_4`";
        Err(LayerError::invalid(key, format!("`{}`", parameter.raw()), reason))
    }

    fn num_inputs(&self) -> usize {
        self.as_ref().map_or(0, Epilogue::num_inputs)
    }

    fn written(&self) -> Written {
        if self.is_none() { Written::Nothing } else { Written::Unwritable }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{operator, waves};
    use super::*;
    use crate::support::testing::on_threads;
    use ixion_tensor::Tensor;
    use proptest::prelude::*;

    /// A product: its type and parameters, and the shapes of its input and its weight.
    #[derive(Debug, Clone)]
    struct Case {
        op_type: &'static str,
        params: Vec<(&'static str, &'static str)>,
        input: Vec<usize>,
        weight: Vec<usize>,
    }

    impl Case {
        fn run(&self, epilogue: Option<&str>, dtype: DType, further: &[Tensor]) -> Result<Tensor> {
            let cast = |tensor: Tensor| tensor.cast(dtype).unwrap();
            let (input, weight) = (cast(waves(&self.input)), cast(waves(&self.weight)));
            let mut params = self.params.clone();
            params.extend(epilogue.map(|text| ("epilogue", text)));
            let operator = operator(self.op_type, &params);
            if self.op_type == "torch.matmul" {
                let names = [&["input", "other"], &INPUTS[..]].concat();
                let inputs: Vec<&Tensor> = [&input, &weight].into_iter().chain(further).collect();
                return operator.with_names(&names).run_one(&inputs);
            }
            let names = [&["input"], &INPUTS[..]].concat();
            let inputs: Vec<&Tensor> = [&input].into_iter().chain(further).collect();
            operator.with_attr("weight", weight).with_names(&names).run_one(&inputs)
        }
    }

    fn cases() -> impl Strategy<Value = Case> {
        let case = |op_type, params: &[(&'static str, &'static str)], input: &[usize], weight: &[usize]| {
            Case { op_type, params: params.to_vec(), input: input.to_vec(), weight: weight.to_vec() }
        };
        prop::sample::select(vec![
            case("nn.Conv2d", &[("padding", "1")], &[2, 3, 5, 6], &[4, 3, 3, 3]),
            case("nn.Conv2d", &[], &[2, 3, 5, 6], &[4, 3, 1, 1]),
            case("nn.Conv2d", &[("groups", "4"), ("padding", "1")], &[2, 4, 5, 6], &[4, 1, 3, 3]),
            case("nn.Conv2d", &[("groups", "2")], &[1, 18, 30, 30], &[20, 9, 5, 5]),
            case("nn.Conv1d", &[("stride", "2")], &[3, 17], &[5, 3, 2]),
            case("nn.Conv3d", &[], &[1, 2, 3, 4, 5], &[3, 2, 2, 2, 2]),
            case("nn.ConvTranspose2d", &[("stride", "2"), ("groups", "2")], &[2, 4, 3, 5], &[4, 2, 2, 3]),
            case("nn.Linear", &[], &[2, 3, 7], &[5, 7]),
            case("nn.Linear", &[], &[600, 9], &[4, 9]),
            case("torch.matmul", &[], &[2, 3, 4, 5], &[3, 5, 6]),
            case("torch.matmul", &[], &[4, 5], &[5, 6]),
        ])
    }

    /// A shape that is broadcast to another.
    fn broadcast_from(shape: &[usize], ones: u8, skip: usize) -> Vec<usize> {
        let dims = shape.iter().enumerate();
        let dims = dims.map(|(axis, &len)| if ones >> axis & 1 == 1 { 1 } else { len });
        dims.skip(skip.min(shape.len())).collect()
    }

    const EXPRESSIONS: &[&str] = &[
        "relu(@0)",
        "silu(@0)",
        "relu(add(@0,@1))",
        "add(gelu(@0),mul(@1,@2))",
        "mul(@1,sub(2,mul(@0,@0)))",
        "clamp(add(@0,@1),-1,@2)",
        "@0",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn it_is_the_product_and_then_the_expression(
            case in cases(),
            text in prop::sample::select(EXPRESSIONS),
            axes in prop::array::uniform2((any::<u8>(), 0usize..6)),
            dtype in prop::sample::select(&[DType::F32, DType::F64, DType::F16][..]),
        ) {
            let count = (1..=2).filter(|n| text.contains(&format!("@{n}"))).count();
            let product = case.run(None, dtype, &[]).unwrap();
            let further: Vec<Tensor> = axes[..count].iter()
                .map(|&(ones, skip)| waves(&broadcast_from(product.shape(), ones, skip)).cast(dtype).unwrap())
                .collect();
            let inputs: Vec<&Tensor> = [&product].into_iter().chain(&further).collect();
            let want = operator("pnnx.Expression", &[("expr", text)]).run_one(&inputs).unwrap();
            let (alone, pooled) = on_threads(&[2], || case.run(Some(text), dtype, &further).unwrap());
            for got in [&alone].into_iter().chain(&pooled) {
                prop_assert_eq!(got.to_le_bytes().unwrap(), want.to_le_bytes().unwrap(), "{} of {:?}", text, case);
            }
        }
    }

    #[test]
    fn sums_within_bounds_are_found() {
        let found = |text: &str| {
            let parameter = crate::op::RuntimeParameter::parse(text);
            let expr = Compiled::parse("epilogue", &parameter).unwrap();
            let inputs = (1..expr.input_count()).map(|input| input + 6).collect();
            Epilogue { expr, inputs, ready: ShapeCache::default() }.bounded_sum()
        };
        let none = [f32::NEG_INFINITY, f32::INFINITY];
        assert_eq!(found("relu(@0)"), Some((None, [0.0, f32::INFINITY])));
        assert_eq!(found("relu6(@0)"), Some((None, [0.0, 6.0])));
        assert_eq!(found("add(@0,@1)"), Some((Some(7), none)));
        assert_eq!(found("relu(add(@2,@0))"), Some((Some(8), [0.0, f32::INFINITY])));
        for other in [
            "silu(@0)",
            "add(@0,@0)",
            "relu(add(@1,@2))",
            "relu(mul(@0,@1))",
            "add(relu(@0),@1)",
            "add(@0,1)",
        ] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn sums_with_functions_are_taken_apart() {
        let epilogue = |text: &str| {
            let parameter = crate::op::RuntimeParameter::parse(text);
            let expr = Compiled::parse("epilogue", &parameter).unwrap();
            let inputs = (1..expr.input_count()).map(|input| input + 6).collect();
            Epilogue { expr, inputs, ready: ShapeCache::default() }
        };
        for (text, input) in [("add(@1,silu(@0))", 7), ("add(mul(@0,sigmoid(@0)),@2)", 8)] {
            let epilogue = epilogue(text);
            assert_eq!(epilogue.added_input(), Some(input), "{text}");
            let mut function = epilogue.without_added().unwrap();
            let mut output = Tensor::from_vec(vec![1.0f32, -2.0], &[2]).unwrap();
            let unused = Tensor::zeros(DType::I8, &[2]).unwrap();
            let inputs = vec![unused.view(); 9];
            function.apply(&inputs, &mut output.view_mut().unwrap(), &Limits::default()).unwrap();
            let wanted = Tensor::from_vec(vec![0.731_058_6f32, -0.238_405_84], &[2]).unwrap();
            assert!(output.allclose(&wanted, 1e-6, 0.0, false).unwrap().holds(), "{text}");
        }
        for other in ["silu(@0)", "add(@1,silu(@1))", "add(@1,mul(@0,@1))", "mul(@1,silu(@0))"] {
            let epilogue = epilogue(other);
            assert!(epilogue.added_input().is_none() && epilogue.without_added().is_none(), "{other}");
        }
    }

    #[test]
    fn epilogues_that_change_type_or_shape_are_refused() {
        let case = Case {
            op_type: "nn.Linear",
            params: vec![("bias", "False")],
            input: vec![2, 3],
            weight: vec![4, 3],
        };
        let fails = |text: &str, further: &[Tensor]| {
            case.run(Some(text), DType::F32, further).unwrap_err().to_string()
        };
        assert!(fails("add(@0,@1)", &[waves(&[3, 2, 4])]).contains("can be broadcast to 2×4 f32"));
        assert!(fails("torch.int(@0)", &[]).contains("the result of the epilogue"));
        assert!(fails("add(@0,@1)", &[waves(&[4])]).contains("the result of the epilogue"));
        assert!(fails("add(@0,@2)", &[waves(&[4])]).contains("epilogue"));
        assert!(fails("[1,2]", &[]).contains("arithmetic"));
        assert!(fails("relu(", &[]).contains("`relu` requires 1"));
        assert!(case.run(Some("None"), DType::F32, &[]).is_ok());
    }
}
