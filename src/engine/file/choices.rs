//! The formats and tactics that a plan settled on, as JSON: what was done to the graph, and what there was to choose from.

use super::error::PlanFileProblem;
use super::header::Kind;
use crate::engine::device::Accelerator;
use crate::engine::formats::{self, Answers, Candidate, Settled};
use crate::engine::{EngineError, Plan};
use crate::graph::{
    Change, Inserted, OperandIndex, OperatorIndex, RuntimeGraph, RuntimeOperand, SettledFormat, Stage, Unfit,
};
use crate::op::{CpuLayer, Device, LayerError, Tactic, TensorFormat, catch_panic};
use crate::ops::inserted::transfer::Transfer;
use crate::tensor::{DType, Format, MAX_RANK};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::path::Path;

/// The section of choices. Numbers that are not whole are texts, which keep every bit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Choices {
    changes: Vec<Done>,
    operators: Vec<Operator>,
}

/// Something that was done to the graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Done {
    Format(Made),
    /// Position of the operator, and the tactic's number.
    Tactic(usize, u32),
    /// Position of the operator that runs on a GPU, and the number of its tactic there.
    Cuda(usize, u32),
    Insert(Vec<Insert>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    operand: usize,
    format: String,
    scale: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Insert {
    made: Made,
    readers: Vec<(usize, usize)>,
    is_output: bool,
}

/// What an operator had to choose from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operator {
    name: String,
    chosen: Option<usize>,
    candidates: Vec<Way>,
    /// What it takes and refuses, position by position.
    answers: Vec<(Vec<String>, Vec<String>)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Way {
    formats: Vec<String>,
    tactic: u32,
    price: String,
    is_measured: bool,
}

impl Choices {
    /// What a plan settled on; none where it had nothing to settle.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let changes: Vec<Done> = plan.graph.changes().iter().map(Done::of).collect();
        let operators: Vec<Operator> = plan.settled.iter().map(Operator::of).collect();
        let is_any = !changes.is_empty() || !operators.is_empty();
        is_any.then_some(Self { changes, operators })
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, PlanFileProblem> {
        serde_json::to_vec(self).map_err(|error| PlanFileProblem::Unwritable(error.to_string()))
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PlanFileProblem> {
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))
    }

    /// Does to a graph that is connected what was done to the one that was saved.
    pub(super) fn apply(
        &self,
        graph: &mut RuntimeGraph,
        (path, accelerator): (&Path, Option<&Accelerator>),
    ) -> Result<Vec<Settled>, EngineError> {
        let of_path = |problem: PlanFileProblem| EngineError::from(problem.of(path));
        let names = self.operators.iter().zip(graph.operators()).all(|(a, b)| a.name == b.name());
        if !names || self.operators.len() > graph.operators().len() {
            return Err(of_path(wrong("its operators are not those of the graph".to_owned())));
        }
        let settled = self.operators.iter().zip(graph.operators());
        let settled: Result<Vec<Settled>, _> =
            settled.map(|(operator, of_graph)| operator.settled(of_graph.layer(), accelerator)).collect();
        let settled = settled.map_err(of_path)?;
        let changes: Result<Vec<Change>, _> = self.changes.iter().map(Done::change).collect();
        let between = |made: &SettledFormat, source: &RuntimeOperand| {
            formats::between((source.device(), source.scale()), (made.format, made.scale))
        };
        graph.repeat(changes.map_err(of_path)?, between).map_err(|unfit| match unfit {
            Unfit::Changes(reason) => of_path(wrong(reason)),
            Unfit::Tactic(operator, source) => {
                let operator = graph.operator(operator);
                EngineError::of_operator(operator, graph.path(), Stage::Configure, source)
            }
        })?;
        Ok(settled)
    }
}

/// Asks all layers whose tensors are not plain whether they take them so.
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
        let reason = format!("`{}`, which callers see, is not plain", port.name);
        return Err(wrong(reason).of(path).into());
    }
    for operator in plan.graph.operators() {
        let operands: Vec<OperandIndex> =
            operator.inputs().iter().chain(operator.outputs()).copied().collect();
        let Some(layer) = operator.layer().filter(|_| !operands.iter().all(|it| is_plain(&it))) else {
            continue;
        };
        // What is not described before the run is refused by the layer itself, if it is.
        let Some(metas) = plan.shapes.get_all(&operands) else { continue };
        let formats: Vec<TensorFormat> = metas.iter().map(|meta| meta.tensor_format()).collect();
        let takes = catch_panic(|| match (operator.op_type(), operator.device(), accelerator) {
            // It copies what there is.
            (Transfer::TYPE, ..) => Ok(true),
            (_, Device::Cuda, Some(accelerator)) => {
                let there: Vec<TensorFormat> = formats.iter().map(|it| it.on(Device::Cuda)).collect();
                // Views, which need no kernel, are of any order.
                let may_be_view =
                    |it: &TensorFormat| !it.is_quantized && !matches!(it.format, Format::Blocked { .. });
                Ok(there.iter().all(may_be_view) || accelerator.takes(layer, &there))
            }
            _ => Ok(formats::takes_all(layer, &metas, &formats)),
        });
        let fault = |source| EngineError::of_operator(operator, plan.graph.path(), Stage::Configure, source);
        if !takes.map_err(fault)? {
            let list: Vec<String> = formats.iter().map(ToString::to_string).collect();
            return Err(fault(LayerError::NoFormat(format!("the plan gives it {}", list.join(", ")))));
        }
    }
    Ok(())
}

fn wrong(reason: String) -> PlanFileProblem {
    PlanFileProblem::corrupt(Kind::Choices, reason)
}

/// Reads what [`TensorFormat`] prints: `f32`, `i8 quantized`, `f32 16c`, `f32 8@2`, `f16 nhwc cuda`.
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
    parse().ok_or_else(|| wrong(format!("`{text}` is no format")))
}

fn parse_number<T: std::str::FromStr>(text: &str) -> Result<T, PlanFileProblem> {
    text.parse().map_err(|_| wrong(format!("`{text}` is no number")))
}

impl Made {
    fn of(made: &SettledFormat) -> Self {
        let SettledFormat { operand, format, scale } = made;
        Self {
            operand: operand.position(),
            format: format.to_string(),
            scale: scale.map(|scale| format!("{scale:?}")),
        }
    }

    fn settled(&self) -> Result<SettledFormat, PlanFileProblem> {
        let scale = self.scale.as_deref().map(parse_number::<f32>).transpose()?;
        if scale.is_some_and(|scale| !(scale.is_finite() && scale > 0.0)) {
            return Err(wrong(format!("a scale of {scale:?}")));
        }
        let format = parse_format(&self.format)?;
        if format.is_quantized != scale.is_some() {
            return Err(wrong(format!("a scale of {scale:?} for {format}")));
        }
        Ok(SettledFormat { operand: OperandIndex::new(self.operand), format, scale })
    }
}

impl Done {
    fn of(change: &Change) -> Self {
        let readers = |readers: &[(OperatorIndex, usize)]| {
            readers.iter().map(|(reader, position)| (reader.position(), *position)).collect()
        };
        let insert = |inserted: &Inserted| Insert {
            made: Made::of(&inserted.made),
            readers: readers(&inserted.readers),
            is_output: inserted.is_output,
        };
        match change {
            Change::Format(made) => Self::Format(Made::of(made)),
            Change::Tactic(operator, tactic) => Self::Tactic(operator.position(), *tactic),
            Change::Device(operator, _, tactic) => Self::Cuda(operator.position(), *tactic),
            Change::Insert(all) => Self::Insert(all.iter().map(insert).collect()),
        }
    }

    fn change(&self) -> Result<Change, PlanFileProblem> {
        let inserted = |insert: &Insert| {
            let readers =
                insert.readers.iter().map(|&(reader, at)| (OperatorIndex::new(reader), at)).collect();
            Ok(Inserted { made: insert.made.settled()?, readers, is_output: insert.is_output })
        };
        Ok(match self {
            Self::Format(made) => Change::Format(made.settled()?),
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
    fn of(settled: &Settled) -> Self {
        let texts = |formats: &[TensorFormat]| formats.iter().map(ToString::to_string).collect::<Vec<_>>();
        let way = |candidate: &Candidate| Way {
            formats: texts(&candidate.formats),
            tactic: candidate.tactic.id,
            price: format!("{:?}", candidate.price),
            is_measured: candidate.is_measured,
        };
        Self {
            name: settled.operator.clone(),
            chosen: settled.chosen,
            candidates: settled.candidates.iter().map(way).collect(),
            answers: settled.answers.iter().map(|it| (texts(&it.taken), texts(&it.refused))).collect(),
        }
    }

    fn settled(
        &self,
        layer: Option<&dyn CpuLayer>,
        accelerator: Option<&Accelerator>,
    ) -> Result<Settled, PlanFileProblem> {
        let layer = layer.filter(|_| !self.candidates.is_empty());
        let known = layer.map(|layer| Known::of(layer, accelerator)).transpose()?.unwrap_or_default();
        let formats =
            |texts: &[String]| texts.iter().map(|text| parse_format(text)).collect::<Result<Vec<_>, _>>();
        let candidate = |way: &Way| {
            let (price, is_measured) = (parse_number(&way.price)?, way.is_measured);
            let formats: SmallVec<[TensorFormat; 4]> = formats(&way.formats)?.into();
            Ok(Candidate { tactic: known.tactic(way.tactic, &formats), formats, price, is_measured })
        };
        let answers = self
            .answers
            .iter()
            .map(|(taken, refused)| Ok(Answers { taken: formats(taken)?, refused: formats(refused)? }));
        let candidates =
            self.candidates.iter().map(candidate).collect::<Result<Vec<_>, PlanFileProblem>>()?;
        let chosen = self.chosen.filter(|&chosen| chosen < candidates.len());
        let settled = chosen.and_then(|chosen| candidates.get(chosen));
        if let Some(Candidate { tactic, .. }) = settled.filter(|it| layer.is_some() && known.lacks(it)) {
            return Err(wrong(format!("`{}` has no tactic {}", self.name, tactic.id)));
        }
        Ok(Settled {
            operator: self.name.clone(),
            candidates,
            chosen,
            answers: answers.collect::<Result<_, PlanFileProblem>>()?,
        })
    }
}

/// The tactics of a layer.
#[derive(Debug, Default)]
struct Known {
    on_cpu: Vec<Tactic>,
    /// None where there is no device, or no kernel: views have none.
    on_device: Option<Vec<Tactic>>,
}

impl Known {
    fn of(layer: &dyn CpuLayer, accelerator: Option<&Accelerator>) -> Result<Self, PlanFileProblem> {
        let on_device = || accelerator.and_then(|accelerator| accelerator.tactics(layer));
        let known = catch_panic(|| Ok(Self { on_cpu: layer.tactics(), on_device: on_device() }));
        known.map_err(|error| wrong(error.to_string()))
    }

    /// Those that there are with tensors in these formats.
    fn with(&self, formats: &[TensorFormat]) -> Option<&[Tactic]> {
        match formats.iter().any(|format| format.device == Device::Cuda) {
            true => self.on_device.as_deref(),
            false => Some(&self.on_cpu),
        }
    }

    /// The tactic of this number. One that the layer would have with weights of another type has no name here.
    fn tactic(&self, id: u32, formats: &[TensorFormat]) -> Tactic {
        let found = self.with(formats).and_then(|tactics| tactics.iter().find(|tactic| tactic.id == id));
        found.copied().unwrap_or(Tactic { id, name: "of another type" })
    }

    /// Whether the layer cannot compute so.
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
        let whole = TensorFormat::quantized();
        for format in [
            plain,
            whole,
            plain.blocked(1, 16),
            whole.blocked(2, 8),
            plain.channels_last().on(Device::Cuda),
            whole.channels_last(),
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
        let made = Made { operand: 0, format: "i8 quantized".to_owned(), scale: Some("NaN".to_owned()) };
        assert!(made.settled().is_err());
    }
}
