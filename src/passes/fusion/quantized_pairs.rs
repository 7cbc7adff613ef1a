//! Quantising and dequantising at once.
//!
//! ```text
//! torch.quantize_per_tensor quantize       1 1 x q dtype=torch.qint8 scale=0.1 zero_point=0
//! torch.dequantize dequantize              1 1 q y scale=0.1 zero_point=0
//!     ↓
//! aten::fake_quantize_per_tensor_affine dequantize 1 1 x y quant_max=127 quant_min=-128 scale=0.1 zero_point=0
//! ```
//!
//! The same happens to `QuantizeLinear` and `DequantizeLinear` of ONNX, with `divides=True`: ONNX divides by the scale. Fake
//! quantisation of what has been rounded to the same numbers before, and at most been moved since, is removed.
//!
//! Models have such pairs around operators that are to be computed in integers. An engine knows that int8 holds the results of
//! fake quantisation exactly, and computes in int8 around it. Pairs whose numbers int8 cannot hold stay. NaN has no quantised
//! value: what becomes of it differs from one implementation to another, and here becomes the smallest number.

use super::site::{NewOperator, producer};
use super::weights::constant;
use crate::op::{Properties, Quantized};
use crate::ops::quantized::{DeQuantize, FakeQuantize, QuantizePerTensor};
use crate::ops::support::arguments::ParamOrInput;
use crate::passes::quantized_weights::{has_same_steps, rounding};
use crate::passes::visit::{Verdict, Visit, remove};
use crate::passes::{Facts, PassContext};
use crate::pnnx::{Graph, GraphError, OperandId, Operator, OperatorId};
use crate::tensor::{DType, Tensor};
use std::collections::HashSet;

/// The pass.
pub(in crate::passes) const QUANTIZED_PAIRS: Visit = Visit {
    name: "quantized_pairs",
    doc: "Replaces quantising and dequantising by fake quantisation with constant parameters, whose results can be int8.",
    visit,
};

const FAKE_QUANTIZE: &str = "aten::fake_quantize_per_tensor_affine";

fn visit(graph: &mut Graph, context: &PassContext, id: OperatorId) -> Result<Verdict, GraphError> {
    let facts = context.facts(graph);
    if let Some(new) = with_constants(graph, facts, id) {
        new.replace(graph, &[id])?;
        return Ok(Verdict::Fired);
    }
    if let Some((output, input)) = is_rounded_again(graph, context, id) {
        return remove(graph, id, output, input);
    }
    let Some(pair) = Pair::of(graph, facts, id) else { return Ok(Verdict::Other) };
    match pair.fake(graph, facts) {
        Ok(new) => {
            let old = pair.operators(graph);
            new.replace(graph, old)?;
            Ok(Verdict::Fired)
        }
        Err(reason) => {
            log::debug!("`{}` does not become int8: {reason}", graph.operator(id).name());
            Ok(Verdict::Refused(reason))
        }
    }
}

/// An operator that quantises, and one that dequantises its result.
struct Pair {
    /// The one that dequantises, then the one that quantises.
    operators: [OperatorId; 2],
    input: OperandId,
    quantized: OperandId,
    output: OperandId,
    scale: f64,
    zero_point: i64,
    /// Whether the pair is of ONNX.
    divides: bool,
}

impl Pair {
    /// The pair that ends with an operator, if its scale and its zero point are constants. Those of channels have operators of
    /// their own in PyTorch, and more than one element in ONNX. Constants stay, for constant folding.
    fn of(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<Self> {
        let dequantize = graph.get_operator(id)?;
        let &quantized = dequantize.inputs().first()?;
        let (source, quantize) = producer(graph, quantized)?;
        let (&input, &output) = (quantize.inputs().first()?, dequantize.outputs().first()?);
        let roles = [quantize, dequantize].map(|operator| Properties::of(operator.op_type()).quantized);
        let types = [quantize, dequantize].map(Operator::op_type);
        let divides = match roles {
            [Quantized::Quantizes, Quantized::Dequantizes] => false,
            _ if types == ["QuantizeLinear", "DequantizeLinear"] => true,
            _ => return None,
        };
        let factors = |operator: &Operator| match divides {
            true => of_onnx(graph, operator),
            false => of_pytorch(graph, facts, operator),
        };
        let (scale, zero_point) = factors(quantize)?;
        let is_pair = factors(dequantize) == Some((scale, zero_point)) && !is_constant(graph, input);
        let operators = [id, source];
        is_pair.then_some(Self { operators, input, quantized, output, scale, zero_point, divides })
    }

    /// The operators that are not needed any more: the first one may have other readers.
    fn operators(&self, graph: &Graph) -> &[OperatorId] {
        let is_own = graph.operand(self.quantized).consumers().len() == 1;
        self.operators.get(..if is_own { 2 } else { 1 }).unwrap_or_default()
    }

    /// The operator that replaces both.
    ///
    /// # Errors
    /// The reason if int8 cannot hold its results, or its types are unknown.
    fn fake(&self, graph: &Graph, facts: &Facts) -> Result<NewOperator, String> {
        let dtype = |operand| facts.meta(graph, operand).map(|meta| meta.dtype());
        let [least, most] = match dtype(self.quantized) {
            Some(DType::I8) => [i64::from(i8::MIN), i64::from(i8::MAX)],
            Some(DType::U8) => [0, i64::from(u8::MAX)],
            Some(other) => return Err(format!("its quantised numbers are {other}")),
            None => return Err("the type of its quantised numbers is unknown".to_owned()),
        };
        if dtype(self.input) != Some(DType::F32) || dtype(self.output) != Some(DType::F32) {
            return Err("its input and its output are not known to be f32".to_owned());
        }
        let scale = self.scale as f32;
        let is_scale = scale > 0.0 && scale.is_finite() && scale.recip().is_finite();
        if !is_scale {
            return Err(format!("its scale is {:e}, which int8 tensors cannot have", self.scale));
        }
        let zero_point = self.zero_point;
        if !(least..=most).contains(&zero_point) {
            return Err(format!("its zero point is {zero_point}, which must be from {least} to {most}"));
        }
        let [id, _] = self.operators;
        let new = NewOperator::new(FAKE_QUANTIZE, graph.operator(id).name()).input(self.input, Some("input"));
        let new = new.param("scale", self.scale).param("zero_point", zero_point);
        let new = new.param("quant_min", least).param("quant_max", most);
        Ok(if self.divides { new.param("divides", true) } else { new })
    }
}

/// Returns true if an operand does not depend on the inputs of the model.
fn is_constant(graph: &Graph, operand: OperandId) -> bool {
    let (mut open, mut seen) = (vec![operand], HashSet::new());
    while let Some(operand) = open.pop() {
        let Some((id, operator)) = producer(graph, operand) else { return false };
        if operator.op_type() == "pnnx.Input" {
            return false;
        }
        if seen.insert(id) {
            open.extend(operator.inputs());
        }
    }
    true
}

/// The scale and the zero point of an operator of PyTorch, if they are constants.
fn of_pytorch(graph: &Graph, facts: &Facts, operator: &Operator) -> Option<(f64, i64)> {
    let name = operator.name();
    if let Some(quantize) = facts.layer::<QuantizePerTensor>(name) {
        return known(graph, facts, name, (&quantize.scale, &quantize.zero_point));
    }
    let dequantize = facts.layer::<DeQuantize>(name).filter(|dequantize| dequantize.axis.is_none())?;
    known(graph, facts, name, (&dequantize.scale, &dequantize.zero_point))
}

/// A scale and a zero point that are parameters or constant inputs.
fn known(
    graph: &Graph,
    facts: &Facts,
    name: &str,
    (scale, zero_point): (&ParamOrInput<f64>, &ParamOrInput<i64>),
) -> Option<(f64, i64)> {
    let stored = |at: usize| {
        let input = *facts.operator(name)?.inputs().get(at)?;
        number(graph, graph.operand_named(facts.operand(input)?.0)?)
    };
    let scale = match scale {
        ParamOrInput::Value(scale) => *scale,
        ParamOrInput::Input(at) => stored(*at)?,
    };
    let zero_point = match zero_point {
        ParamOrInput::Value(zero_point) => *zero_point,
        ParamOrInput::Input(at) => whole(stored(*at)?)?,
    };
    Some((scale, zero_point))
}

/// The scale and the zero point of an operator of ONNX, if these are stored. Without a zero point, it is 0.
fn of_onnx(graph: &Graph, operator: &Operator) -> Option<(f64, i64)> {
    let are_named = operator.input_names().iter().any(Option::is_some);
    let [_, scale, zero_point @ ..] = operator.inputs() else { return None };
    let zero_point = match zero_point {
        [] => 0,
        [zero_point] => whole(number(graph, *zero_point)?)?,
        _ => return None,
    };
    Some((number(graph, *scale)?, zero_point)).filter(|_| !are_named)
}

/// Fake quantisation with a scale and a zero point that are stored tensors, as models of quantisation-aware training have
/// them: they become parameters. `None` if there is nothing to do.
fn with_constants(graph: &Graph, facts: &Facts, id: OperatorId) -> Option<NewOperator> {
    let operator = graph.get_operator(id)?;
    let fake = facts.layer::<FakeQuantize>(operator.name())?;
    let (scale, zero_point) = known(graph, facts, operator.name(), (&fake.scale, &fake.zero_point))?;
    let is_stored =
        matches!(fake.scale, ParamOrInput::Input(_)) || matches!(fake.zero_point, ParamOrInput::Input(_));
    // Others are errors only as parameters.
    let is_inside = (fake.quant_min..=fake.quant_max).contains(&zero_point);
    let input = *facts.operator(operator.name())?.inputs().first()?;
    let input = graph.operand_named(facts.operand(input)?.0)?;
    let new = NewOperator::new(FAKE_QUANTIZE, operator.name()).input(input, Some("input"));
    let new = new.param("scale", scale).param("zero_point", zero_point);
    let new = new.param("quant_min", fake.quant_min).param("quant_max", fake.quant_max);
    (is_stored && is_inside && scale.is_finite() && !fake.divides).then_some(new)
}

/// The output and the input of fake quantisation whose input has been rounded to the same numbers before: it returns its input.
fn is_rounded_again(graph: &Graph, context: &PassContext, id: OperatorId) -> Option<(OperandId, OperandId)> {
    let operator = graph.get_operator(id)?;
    let fake = context.facts(graph).layer::<FakeQuantize>(operator.name())?;
    let (&input, &output) = (operator.inputs().first()?, operator.outputs().first()?);
    let before = rounding(graph, context, input)?;
    (has_same_steps(fake, before) && fake.int8_step().is_some()).then_some((output, input))
}

/// A number as an integer, if it is one.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0).then_some(number as i64)
}

/// The number that an operand is, in the text or as the only element of a stored tensor.
fn number(graph: &Graph, operand: OperandId) -> Option<f64> {
    let (_, source) = producer(graph, operand)?;
    if source.op_type() == "pnnx.Expression" && source.inputs().is_empty() {
        return source.get("expr").ok();
    }
    let stored = constant(graph, operand)?;
    if stored.elem_count() != 1 || stored.dtype().is_complex() {
        return None;
    }
    let tensor = Tensor::from_le_bytes(stored.dtype(), stored.shape(), &stored.bytes().ok()?).ok()?;
    tensor.cast(DType::F64).ok()?.to_vec::<f64>().ok()?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fires, refuses};
    use super::*;
    use crate::pnnx::Attribute;

    const PAIR: &str = "pnnx.Input in 0 1 x #x=(2,3)f32\n\
        torch.quantize_per_tensor q 1 1 x a dtype=torch.qint8 scale=0.02 zero_point=0 $input=x #a=(2,3)i8\n\
        torch.dequantize d 1 1 a y scale=0.02 zero_point=0 $input=a\n\
        F.sigmoid s 1 1 y z $input=y\n\
        pnnx.Output out 1 0 z";

    #[test]
    fn a_pair_becomes_fake_quantisation() {
        let fake = |least: i64, zero_point: i64| {
            let most = least + 255;
            let range = format!("quant_max={most} quant_min={least}");
            format!("{FAKE_QUANTIZE}(x)->y {range} scale=0.02 zero_point={zero_point}")
        };
        let left = fires(&QUANTIZED_PAIRS, PAIR);
        assert_eq!((left.len(), &left[0]), (2, &fake(-128, 0)));
        let unsigned = PAIR.replace("qint8", "quint8").replace("i8", "u8");
        for zero_point in [128, 0, 7, 255] {
            let unsigned = unsigned.replace("zero_point=0", &format!("zero_point={zero_point}"));
            assert_eq!(fires(&QUANTIZED_PAIRS, &unsigned)[0], fake(0, zero_point));
        }
    }

    #[test]
    fn numbers_that_are_read_as_integers_stay() {
        let read = PAIR.replace("pnnx.Output out 1 0 z", "aten::int_repr r 1 1 a b\npnnx.Output out 2 0 z b");
        let left = fires(&QUANTIZED_PAIRS, &read);
        assert!(left[0].starts_with("torch.quantize_per_tensor(x)->a"), "{left:?}");
        assert!(left[1].starts_with("aten::fake_quantize_per_tensor_affine(x)->y"), "{left:?}");
    }

    #[test]
    fn pairs_of_other_steps_stay() {
        refuses(&QUANTIZED_PAIRS, &PAIR.replace("a y scale=0.02", "a y scale=0.03"));
        let other = PAIR.replace("a y scale=0.02 zero_point=0", "a y scale=0.02 zero_point=3");
        refuses(&QUANTIZED_PAIRS, &other);
        refuses(&QUANTIZED_PAIRS, &PAIR.replace("#x=(2,3)f32", "#x=(2,3)f64"));
        refuses(&QUANTIZED_PAIRS, &PAIR.replace("scale=0.02", "scale=1e-39"));
        refuses(&QUANTIZED_PAIRS, &PAIR.replace("qint8", "qint32").replace("i8", "i32"));
        let stored = PAIR.replace("pnnx.Input in 0 1 x #x=(2,3)f32", "pnnx.Attribute w 0 1 x @data=(2,3)f32");
        refuses(&QUANTIZED_PAIRS, &stored);
    }

    #[test]
    fn what_is_rounded_stays_so_when_it_is_moved() {
        let twice = |scale: &str| {
            let fake = "aten::fake_quantize_per_tensor_affine";
            let range = "quant_max=127 quant_min=0 zero_point=7";
            format!(
                "pnnx.Input in 0 1 x #x=(2,3)f32\n{fake} f 1 1 x a {range} scale=0.5 $input=x\n\
                 Tensor.permute p 1 1 a b dims=(1,0) $input=a\n{fake} g 1 1 b c {range} scale={scale} $input=b\n\
                 F.sigmoid s 1 1 c y $input=c\npnnx.Output out 1 0 y"
            )
        };
        assert_eq!(fires(&QUANTIZED_PAIRS, &twice("0.5")).len(), 3);
        refuses(&QUANTIZED_PAIRS, &twice("0.25"));
    }

    #[test]
    fn joined_tensors_are_rounded_again_unless_all_of_them_were() {
        let joined = |inputs: &str| {
            let fake = "aten::fake_quantize_per_tensor_affine";
            let range = "quant_max=127 quant_min=-128 scale=0.5 zero_point=0";
            format!(
                "pnnx.Input in 0 1 x #x=(2,3)f32\n{fake} f 1 1 x a {range} $input=x\n\
                 F.sigmoid s 1 1 x b $input=x\n{fake} g 1 1 b c {range} $input=b\n\
                 torch.cat j 2 1 {inputs} d dim=0\n{fake} h 1 1 d e {range} $input=d\n\
                 F.sigmoid t 1 1 e y $input=e\npnnx.Output out 1 0 y"
            )
        };
        assert_eq!(fires(&QUANTIZED_PAIRS, &joined("a c")).len(), 5);
        refuses(&QUANTIZED_PAIRS, &joined("a b"));
        refuses(&QUANTIZED_PAIRS, &joined("b a"));
        let larger = "aten::max j 2 1 a b d $input=a $other=b";
        refuses(&QUANTIZED_PAIRS, &joined("a b").replace("torch.cat j 2 1 a b d dim=0", larger));
    }

    const STORED: &str = "pnnx.Input in 0 1 x #x=(2,3)f32\n\
        pnnx.Attribute s 0 1 scale @data=(1)f32\n\
        pnnx.Attribute z 0 1 zero @data=(1)f32\n\
        aten::fake_quantize_per_tensor_affine f 3 1 x scale zero y quant_max=127 quant_min=-128 $input=x $scale=scale $zero_point=zero\n\
        pnnx.Output out 1 0 y";

    /// The operators after the pass, if the zero point has this value.
    fn with_zero_point(zero_point: f32) -> Vec<String> {
        let mut graph = crate::passes::testing::graph(STORED);
        for (name, value) in [("s", 0.25), ("z", zero_point)] {
            let id = graph.operator_named(name).unwrap();
            graph.set_attribute(id, "data", Attribute::from_f32s(vec![1], &[value]).unwrap()).unwrap();
        }
        crate::passes::testing::run(&QUANTIZED_PAIRS, &mut graph);
        crate::passes::testing::lines(&graph)
    }

    #[test]
    fn stored_scales_become_parameters() {
        let left = with_zero_point(-3.0);
        let wanted = "aten::fake_quantize_per_tensor_affine(x)->y quant_max=127 quant_min=-128 scale=0.25 zero_point=-3";
        assert_eq!(left.last().map(String::as_str), Some(wanted));
        for odd in [0.5, 300.0, f32::NAN] {
            assert!(with_zero_point(odd).iter().all(|line| !line.contains("zero_point=")), "{odd}");
        }
    }

    const ONNX: &str = "pnnx.Input in 0 1 x #x=(2,3)f32\n\
        pnnx.Attribute s 0 1 scale @data=(1)f32\n\
        pnnx.Attribute z 0 1 zero @data=(1)i8\n\
        QuantizeLinear q 3 1 x scale zero a\n\
        DequantizeLinear d 3 1 a scale zero y\n\
        pnnx.Output out 1 0 y";

    #[test]
    fn pairs_of_onnx_divide() {
        let after = |text: &str, zero_point: u8| {
            let mut graph = crate::passes::testing::graph(text);
            let scale = Attribute::from_f32s(vec![1], &[0.5]).unwrap();
            let zero_point = Attribute::new(DType::I8, vec![1], vec![zero_point]).unwrap();
            for (name, value) in [("s", scale), ("z", zero_point)] {
                let id = graph.operator_named(name).unwrap();
                graph.set_attribute(id, "data", value).unwrap();
            }
            crate::passes::testing::run(&QUANTIZED_PAIRS, &mut graph);
            crate::passes::testing::lines(&graph).pop()
        };
        let wanted = |zero_point: u8| {
            let range = "divides=True quant_max=127 quant_min=-128 scale=0.5";
            Some(format!("{FAKE_QUANTIZE}(x)->y {range} zero_point={zero_point}"))
        };
        assert_eq!((after(ONNX, 0), after(ONNX, 1)), (wanted(0), wanted(1)));
        let other = ONNX.replace("a scale zero y", "a scale y").replace("d 3 1", "d 2 1");
        assert_eq!(after(&other, 0), wanted(0), "0 is the default");
    }

    #[test]
    fn pairs_that_return_another_type_stay() {
        let half = "pnnx.Attribute h 0 1 half @data=(1)f16\nQuantizeLinear q";
        let text = ONNX.replace("QuantizeLinear q", half).replace("a scale zero y", "a half zero y");
        let mut graph = crate::passes::testing::graph(&text);
        let one = |dtype, bytes: &[u8]| Attribute::new(dtype, vec![1], bytes.to_vec()).unwrap();
        let numbers = [
            ("s", one(DType::F32, &0.5f32.to_le_bytes())),
            ("h", one(DType::F16, &[0, 0x38])),
            ("z", one(DType::I8, &[0])),
        ];
        for (name, value) in numbers {
            let id = graph.operator_named(name).unwrap();
            graph.set_attribute(id, "data", value).unwrap();
        }
        let outcome = crate::passes::testing::run(&QUANTIZED_PAIRS, &mut graph);
        assert_eq!(outcome.fired, 0);
        assert!(outcome.refused[0].to_string().contains("f32"), "{:?}", outcome.refused);
    }

    #[test]
    fn scales_may_be_in_the_text_but_lost_zero_points_are_unknown() {
        let text = "pnnx.Input in 0 1 x #x=(2,3)f32\n\
            pnnx.Expression s 0 1 scale expr=0.5\n\
            QuantizeLinear q 2 1 x scale a output_dtype=3\n\
            DequantizeLinear d 2 1 a scale y\n\
            pnnx.Output out 1 0 y";
        let left = fires(&QUANTIZED_PAIRS, text);
        assert!(left.last().is_some_and(|last| last.contains("scale=0.5 zero_point=0")), "{left:?}");
        let lost = text.replace("expr=0.5\n", "expr=0.5\npnnx.Expression z 0 1 zero expr=None\n");
        let lost = lost.replace("2 1 x scale a", "3 1 x scale zero a");
        let lost = lost.replace("2 1 a scale y", "3 1 a scale zero y");
        refuses(&QUANTIZED_PAIRS, &lost);
    }
}
