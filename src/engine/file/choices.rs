//! The formats and tactics that were selected for a plan, as JSON: the changes to the graph, and the candidates.

use super::error::PlanFileProblem;
use super::layout::Kind;
use crate::engine::device::Accelerator;
use crate::engine::selection::{self, Candidate, Inexact, Selection, SupportedFormats};
use crate::engine::{EngineError, Plan, Scales};
use crate::graph::{
    Change, Inserted, OperandFormat, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperand, Stage, Unfit,
};
use crate::op::{CpuLayer, Device, LayerError, Step, Tactic, TensorFormat, catch_panic};
use crate::ops::inserted::transfer::Transfer;
use crate::tensor::{DType, Format, MAX_RANK};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::path::Path;

/// The section of choices. Floats are stored as text, which keeps every bit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choices {
    changes: Vec<StoredChange>,
    operators: Vec<Operator>,
}

/// A change to the graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum StoredChange {
    Format(StoredFormat),
    /// The operator's position, and the tactic's number.
    Tactic(usize, u32),
    /// The position of an operator that runs on a GPU, and the number of its tactic there.
    Cuda(usize, u32),
    Insert(Vec<Insert>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFormat {
    operand: usize,
    format: String,
    scale: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    zero_point: i8,
}

fn is_zero(zero_point: &i8) -> bool {
    *zero_point == 0
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Insert {
    made: StoredFormat,
    readers: Vec<(usize, usize)>,
    is_output: bool,
}

/// The candidates of an operator, and the one that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operator {
    name: String,
    chosen: Option<usize>,
    candidates: Vec<StoredCandidate>,
    inexact: Vec<StoredInexact>,
    /// The formats that it takes and refuses, by position.
    answers: Vec<(Vec<String>, Vec<String>)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keeps_f32: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rounds_weights: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCandidate {
    formats: Vec<String>,
    tactic: u32,
    price: String,
    is_measured: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredInexact {
    candidate: StoredCandidate,
    rounding: String,
}

impl Choices {
    /// The choices of a plan; `None` if there was nothing to select.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let changes: Vec<StoredChange> = plan.graph.changes().iter().map(StoredChange::of).collect();
        let operators: Vec<Operator> = plan.selections.iter().map(Operator::of).collect();
        let is_any = !changes.is_empty() || !operators.is_empty();
        is_any.then_some(Self { changes, operators })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, PlanFileProblem> {
        serde_json::to_vec(self).map_err(|error| PlanFileProblem::Unwritable(error.to_string()))
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PlanFileProblem> {
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))
    }

    /// Applies the changes of the saved graph to a connected one.
    pub(super) fn apply(
        &self,
        graph: &mut RuntimeGraph,
        (path, accelerator): (&Path, Option<&Accelerator>),
    ) -> Result<Vec<Selection>, EngineError> {
        let of_path = |problem: PlanFileProblem| EngineError::from(problem.of(path));
        let same_names = self.operators.iter().zip(graph.operators()).all(|(a, b)| a.name == b.name());
        if !same_names || self.operators.len() > graph.operators().len() {
            return Err(of_path(wrong("its operators do not match the graph".to_owned())));
        }
        let selections = self.operators.iter().zip(graph.operators());
        let selections: Result<Vec<Selection>, _> = selections
            .map(|(operator, of_graph)| operator.selection(of_graph.layer(), accelerator))
            .collect();
        let selections = selections.map_err(of_path)?;
        let changes: Result<Vec<Change>, _> = self.changes.iter().map(StoredChange::change).collect();
        let between = |made: &OperandFormat, source: &RuntimeOperand| {
            selection::between((source.device(), source.step()), (made.format, made.step))
        };
        graph.repeat(changes.map_err(of_path)?, between).map_err(|unfit| match unfit {
            Unfit::Changes(reason) => of_path(wrong(reason)),
            Unfit::Tactic(operator, source) => {
                EngineError::at(graph, graph.operator(operator), Stage::Configure)(source)
            }
        })?;
        Ok(selections)
    }
}

/// Checks that all layers with tensors that are not plain support these formats, and take their zero points.
pub(super) fn check(
    plan: &Plan,
    (path, accelerator): (&Path, Option<&Accelerator>),
) -> Result<(), EngineError> {
    let is_plain = |operand: &&OperandIndex| {
        let operand = plan.graph.operand(**operand);
        operand.format() == Format::Plain && operand.scale().is_none()
    };
    let mut ports = plan.inputs.iter().chain(&plan.outputs);
    if let Some(port) = ports.find(|port| !is_plain(&&OperandIndex::new(port.operand))) {
        let reason = format!("the input or output `{}` is not plain", port.name);
        return Err(wrong(reason).of(path).into());
    }
    for operator in plan.graph.operators() {
        let operands: Vec<OperandIndex> =
            operator.inputs().iter().chain(operator.outputs()).copied().collect();
        let Some(layer) = operator.layer().filter(|_| !operands.iter().all(|it| is_plain(&it))) else {
            continue;
        };
        let steps: Vec<Step> =
            operands.iter().filter_map(|&operand| plan.graph.operand(operand).step()).collect();
        let fault = EngineError::at(&plan.graph, operator, Stage::Configure);
        if !selection::takes_steps(operator, &steps) {
            let reason = "the plan gives it zero points, which it does not take".to_owned();
            return Err(fault(LayerError::NoFormat(reason)));
        }
        // If shapes are unknown before the run, the layer itself refuses what it does not support.
        let Some(metas) = plan.shapes.get_all(&operands) else { continue };
        let formats: Vec<TensorFormat> = metas.iter().map(|meta| meta.tensor_format()).collect();
        let takes = catch_panic(|| match (operator.op_type(), operator.device(), accelerator) {
            // A transfer copies tensors in any format.
            (Transfer::TYPE, ..) => Ok(true),
            (_, Device::Cuda, Some(accelerator)) => {
                let on_device: Vec<TensorFormat> = formats.iter().map(|it| it.on(Device::Cuda)).collect();
                // Views, which need no kernel, may have any order.
                let may_be_view =
                    |it: &TensorFormat| !it.is_quantized && !matches!(it.format, Format::Blocked { .. });
                Ok(on_device.iter().all(may_be_view) || accelerator.takes(layer, &on_device))
            }
            _ => Ok(selection::takes_all(operator.op_type(), layer, &metas, &formats)),
        });
        if !takes.map_err(&fault)? {
            let list: Vec<String> = formats.iter().map(ToString::to_string).collect();
            return Err(fault(LayerError::NoFormat(format!("the plan gives it {}", list.join(", ")))));
        }
    }
    Ok(())
}

fn wrong(reason: String) -> PlanFileProblem {
    PlanFileProblem::corrupt(Kind::Choices, reason)
}

/// Parses the text that [`TensorFormat`] prints: `f32`, `i8 quantized`, `f32 16c`, `f32 8@2`, `f16 nhwc cuda`.
fn parse_format(text: &str) -> Result<TensorFormat, PlanFileProblem> {
    let parse = || {
        let mut words = text.split(' ');
        let mut format = TensorFormat::plain(DType::from_name(words.next()?)?);
        for word in words {
            let cut = word.strip_suffix('c').map(|block| (block, "1")).or_else(|| word.split_once('@'));
            match (word, cut) {
                ("quantized", _) => format.is_quantized = true,
                ("nhwc", _) => format = format.channels_last(),
                ("cuda", _) => format.device = Device::Cuda,
                (_, Some((block, axis))) => {
                    let (block, axis) = (block.parse::<u8>().ok()?, axis.parse::<u8>().ok()?);
                    let is_possible = (2..=64).contains(&block) && usize::from(axis) < MAX_RANK;
                    format = is_possible.then(|| format.blocked(axis, block))?;
                }
                _ => return None,
            }
        }
        Some(format)
    };
    parse().ok_or_else(|| wrong(format!("`{text}` is not a tensor format")))
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, PlanFileProblem> {
    text.parse().map_err(|_| wrong(format!("`{text}` is not a number")))
}

impl StoredFormat {
    fn of(made: &OperandFormat) -> Self {
        let OperandFormat { operand, format, step } = made;
        Self {
            operand: operand.position(),
            format: format.to_string(),
            scale: step.map(|step| format!("{:?}", step.scale)),
            zero_point: step.map_or(0, |step| step.zero_point),
        }
    }

    fn operand_format(&self) -> Result<OperandFormat, PlanFileProblem> {
        let scale = self.scale.as_deref().map(parse_number::<f32>).transpose()?;
        if let Some(scale) = scale.filter(|&scale| !Scales::is_scale(scale)) {
            return Err(wrong(format!("invalid scale {scale:?}")));
        }
        let format = parse_format(&self.format)?;
        if format.is_quantized != scale.is_some() || (format.is_quantized && format.dtype != DType::I8) {
            let scale = self.scale.as_deref().unwrap_or("none");
            return Err(wrong(format!("the format {format} does not fit the scale {scale}")));
        }
        if scale.is_none() && self.zero_point != 0 {
            return Err(wrong(format!("the zero point {} has no scale", self.zero_point)));
        }
        let step = scale.map(|scale| Step { scale, zero_point: self.zero_point });
        Ok(OperandFormat { operand: OperandIndex::new(self.operand), format, step })
    }
}

impl StoredChange {
    fn of(change: &Change) -> Self {
        let readers = |readers: &[(OperatorIndex, usize)]| {
            readers.iter().map(|(reader, position)| (reader.position(), *position)).collect()
        };
        let insert = |inserted: &Inserted| Insert {
            made: StoredFormat::of(&inserted.made),
            readers: readers(&inserted.readers),
            is_output: inserted.is_output,
        };
        match change {
            Change::Format(made) => Self::Format(StoredFormat::of(made)),
            Change::Tactic(operator, tactic) => Self::Tactic(operator.position(), *tactic),
            Change::Device(operator, _, tactic) => Self::Cuda(operator.position(), *tactic),
            Change::Insert(all) => Self::Insert(all.iter().map(insert).collect()),
        }
    }

    fn change(&self) -> Result<Change, PlanFileProblem> {
        let inserted = |insert: &Insert| {
            let readers =
                insert.readers.iter().map(|&(reader, at)| (OperatorIndex::new(reader), at)).collect();
            Ok(Inserted { made: insert.made.operand_format()?, readers, is_output: insert.is_output })
        };
        Ok(match self {
            Self::Format(made) => Change::Format(made.operand_format()?),
            Self::Tactic(operator, tactic) => Change::Tactic(OperatorIndex::new(*operator), *tactic),
            Self::Cuda(operator, tactic) => {
                Change::Device(OperatorIndex::new(*operator), Device::Cuda, *tactic)
            }
            Self::Insert(all) => {
                Change::Insert(all.iter().map(inserted).collect::<Result<_, PlanFileProblem>>()?)
            }
        })
    }
}

impl Operator {
    fn of(selection: &Selection) -> Self {
        let texts = |formats: &[TensorFormat]| formats.iter().map(ToString::to_string).collect::<Vec<_>>();
        let stored = |candidate: &Candidate| StoredCandidate {
            formats: texts(&candidate.formats),
            tactic: candidate.tactic.id,
            price: format!("{:?}", candidate.price),
            is_measured: candidate.is_measured,
        };
        let inexact = |inexact: &Inexact| StoredInexact {
            candidate: stored(&inexact.candidate),
            rounding: format!("{:?}", inexact.rounding),
        };
        Self {
            name: selection.operator.clone(),
            chosen: selection.chosen,
            candidates: selection.candidates.iter().map(stored).collect(),
            inexact: selection.inexact.iter().map(inexact).collect(),
            answers: selection.answers.iter().map(|it| (texts(&it.taken), texts(&it.refused))).collect(),
            keeps_f32: selection.keeps_f32,
            rounds_weights: selection.rounds_weights,
        }
    }

    fn selection(
        &self,
        layer: Option<&dyn CpuLayer>,
        accelerator: Option<&Accelerator>,
    ) -> Result<Selection, PlanFileProblem> {
        let layer = layer.filter(|_| !self.candidates.is_empty());
        let known = layer.map(|layer| Known::of(layer, accelerator)).transpose()?.unwrap_or_default();
        let formats =
            |texts: &[String]| texts.iter().map(|text| parse_format(text)).collect::<Result<Vec<_>, _>>();
        let candidate = |stored: &StoredCandidate| {
            let (price, is_measured) = (parse_number(&stored.price)?, stored.is_measured);
            let formats: SmallVec<[TensorFormat; 4]> = formats(&stored.formats)?.into();
            Ok(Candidate { tactic: known.tactic(stored.tactic, &formats), formats, price, is_measured })
        };
        let answers = self.answers.iter().map(|(taken, refused)| {
            Ok(SupportedFormats { taken: formats(taken)?, refused: formats(refused)? })
        });
        let candidates =
            self.candidates.iter().map(candidate).collect::<Result<Vec<_>, PlanFileProblem>>()?;
        let inexact = self.inexact.iter().map(|stored| {
            let (candidate, rounding) = (candidate(&stored.candidate)?, parse_number(&stored.rounding)?);
            Ok(Inexact { candidate, rounding })
        });
        let chosen = self.chosen.filter(|&chosen| chosen < candidates.len());
        let selected = chosen.and_then(|chosen| candidates.get(chosen));
        if let Some(Candidate { tactic, .. }) = selected.filter(|it| layer.is_some() && known.lacks(it)) {
            return Err(wrong(format!("`{}` has no tactic {}", self.name, tactic.id)));
        }
        Ok(Selection {
            operator: self.name.clone(),
            candidates,
            chosen,
            inexact: inexact.collect::<Result<_, PlanFileProblem>>()?,
            answers: answers.collect::<Result<_, PlanFileProblem>>()?,
            keeps_f32: self.keeps_f32,
            rounds_weights: self.rounds_weights,
        })
    }
}

/// The tactics of a layer.
#[derive(Debug, Default)]
struct Known {
    on_cpu: Vec<Tactic>,
    /// `None` if there is no device or no kernel, as for views.
    on_device: Option<Vec<Tactic>>,
}

impl Known {
    fn of(layer: &dyn CpuLayer, accelerator: Option<&Accelerator>) -> Result<Self, PlanFileProblem> {
        let on_device = || accelerator.and_then(|accelerator| accelerator.tactics(layer));
        let known = catch_panic(|| Ok(Self { on_cpu: layer.tactics(), on_device: on_device() }));
        known.map_err(|error| wrong(error.to_string()))
    }

    /// The tactics for tensors in these formats.
    fn with(&self, formats: &[TensorFormat]) -> Option<&[Tactic]> {
        match formats.iter().any(|format| format.device == Device::Cuda) {
            true => self.on_device.as_deref(),
            false => Some(&self.on_cpu),
        }
    }

    /// The tactic with this number. One that the layer has only with weights of another type gets a placeholder name.
    fn tactic(&self, id: u32, formats: &[TensorFormat]) -> Tactic {
        let found = self.with(formats).and_then(|tactics| tactics.iter().find(|tactic| tactic.id == id));
        found.copied().unwrap_or(Tactic { id, name: "of another type" })
    }

    /// Returns true if the layer does not have the candidate's tactic.
    fn lacks(&self, Candidate { tactic, formats, .. }: &Candidate) -> bool {
        self.with(formats).is_some_and(|tactics| tactics.iter().all(|known| known.id != tactic.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_they_are_written() {
        let plain = TensorFormat::plain(DType::Bf16);
        let quantized = TensorFormat::quantized();
        for format in [
            plain,
            quantized,
            plain.blocked(1, 16),
            quantized.blocked(2, 8),
            plain.channels_last().on(Device::Cuda),
            quantized.channels_last(),
        ] {
            assert_eq!(parse_format(&format.to_string()).unwrap(), format);
        }
        for wrong in ["", "f31", "f32 0c", "f32 1c", "f32 8@8", "f32 300c", "f32  8c", "f32 c", "f32 8@"] {
            assert!(parse_format(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_keep_every_bit() {
        for number in [0.1f32, f32::MIN_POSITIVE, 1.0 / 3.0] {
            assert_eq!(parse_number::<f32>(&format!("{number:?}")).unwrap().to_bits(), number.to_bits());
        }
    }

    #[test]
    fn invalid_scales_are_refused() {
        let format = |format: &str, scale: Option<&str>, zero_point| {
            let (format, scale) = (format.to_owned(), scale.map(str::to_owned));
            StoredFormat { operand: 0, format, scale, zero_point }.operand_format()
        };
        let is_fine = |text: &str, scale: Option<&str>| format(text, scale, 0).is_ok();
        assert!(is_fine("i8 quantized", Some("0.1")) && is_fine("i8", None));
        for scale in ["NaN", "inf", "0", "-0.1", "1e-40", "", "x"] {
            assert!(!is_fine("i8 quantized", Some(scale)), "{scale}");
        }
        assert!(!is_fine("i8 quantized", None) && !is_fine("f32", Some("0.1")));
        assert!(!is_fine("f32 quantized", Some("0.1")));
        let shifted = format("i8 quantized", Some("0.1"), -128).unwrap();
        assert_eq!(shifted.step, Some(Step { scale: 0.1, zero_point: -128 }));
        assert!(format("i8", None, 3).is_err() && format("f32", None, 3).is_err());
    }

    #[test]
    fn zero_points_that_int8_does_not_have_are_refused() {
        let parse = |zero_point: &str| {
            let format = r#""operand":0,"format":"i8 quantized","scale":"0.1""#;
            let text = format!(r#"{{"changes":[{{"format":{{{format}{zero_point}}}}}],"operators":[]}}"#);
            Choices::parse(text.as_bytes())
        };
        assert!(parse("").is_ok() && parse(r#","zero_point":127"#).is_ok());
        for wrong in ["128", "-129", "0.5", "null", "\"3\""] {
            assert!(parse(&format!(r#","zero_point":{wrong}"#)).is_err(), "{wrong}");
        }
    }
}
