//! `ixion build`: compiling a model into a plan file.

use super::device::DeviceArgs;
use super::formats::FormatArgs;
use super::model::{ModelArgs, OnnxArgs};
use super::plugins::PluginArgs;
use super::{Exit, Failure, LimitArgs, Spinner, Terminal, files, numbers, warnings};
use clap::Args;
use ixion::Limits;
use ixion::engine::Builder;
use ixion::graph::read_model;
use ixion::shape::{InputRange, InputShape};
use std::io::Write;
use std::path::PathBuf;

const HELP: &str = "\
A plan is a single file with the graph after all passes, its weights, the given shapes, and the model.toml next to the model. \
run, bench, profile, inspect, plan, verify and convert accept it in place of PARAM. Loading a plan repeats no optimisation. A \
plan depends on the version of Ixion's layers; loading it with other versions is an error.

Exit codes:
  0  the plan was written
  1  a weight is damaged, or the plan could not be written
  2  the model cannot be read or built, or a usage error

Examples:
  ixion build model.pnnx.param -o model.plan
  ixion build model.pnnx.param -o model.plan --input-shape x=n,3,224,224
  ixion build model.pnnx.param -o model.plan --profile x=1,3,224,224:8,3,224,224:32,3,224,224
  ixion run model.plan --input picture.png";

/// Compile a model into a single file, a plan, which loads in milliseconds
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct BuildArgs {
    /// The model: a text such as model.pnnx.param, or an ONNX file
    #[arg(value_name = "PARAM")]
    param: PathBuf,
    /// The archive of weights [default: the .bin file next to PARAM]
    #[arg(long, value_name = "FILE")]
    bin: Option<PathBuf>,
    #[command(flatten)]
    onnx: OnnxArgs,
    /// Write the plan to FILE
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The shape of an input, such as x=n,3,?,224: numbers are fixed sizes, equal names equal sizes, ? any size; may be
    /// repeated
    #[arg(short = 's', long, value_name = "NAME=DIMS", value_parser = parse_shape)]
    input_shape: Vec<(String, InputShape)>,
    /// The minimum, optimum and maximum shape of an input; if one input has a profile, all need one
    #[arg(long, value_name = "NAME=MIN:OPT:MAX", value_parser = Range::parse)]
    profile: Vec<Range>,
    /// Let an output reuse the memory of an input that the caller donates; may be repeated
    #[arg(long, value_name = "INPUT=OUTPUT", value_parser = parse_donation)]
    donate: Vec<(String, String)>,
    #[command(flatten)]
    formats: FormatArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// Disable passes by name; `all` disables all of them
    #[arg(long, alias = "no-pass", value_name = "PASS", num_args = 1..)]
    without: Vec<String>,
    /// Use random weights from this seed instead of an archive
    #[arg(long, value_name = "SEED", conflicts_with = "bin")]
    random_weights: Option<u64>,
    #[command(flatten)]
    plugins: PluginArgs,
}

/// A profile, `NAME=MIN:OPT:MAX`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    input: String,
    shapes: [Vec<usize>; 3],
}

fn parse_shape(text: &str) -> Result<(String, InputShape), String> {
    let (name, shape) = InputShape::parse_named(text).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), shape))
}

fn parse_donation(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(input, output)| !input.is_empty() && !output.is_empty());
    let (input, output) =
        parts.ok_or_else(|| "expected an input and an output, such as cache=next_cache".to_owned())?;
    Ok((input.to_owned(), output.to_owned()))
}

impl Range {
    fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "expected three shapes, such as x=1,3,64,64:1,3,224,224:8,3,512,512".to_owned();
        let (input, shapes) =
            text.rsplit_once('=').filter(|(input, _)| !input.is_empty()).ok_or_else(wanted)?;
        let len = |len: &str| len.trim().parse::<u32>().map(|len| len as usize).map_err(|_| wanted());
        let shape = |shape: &str| match shape.trim() {
            "" => Ok(Vec::new()),
            shape => shape.split(',').map(len).collect::<Result<Vec<_>, _>>(),
        };
        let shapes = shapes.split(':').map(shape).collect::<Result<Vec<_>, _>>()?;
        let shapes = <[Vec<usize>; 3]>::try_from(shapes).map_err(|_| wanted())?;
        Ok(Self { input: input.to_owned(), shapes })
    }
}

impl BuildArgs {
    pub(crate) fn run(&self, limits: &LimitArgs, terminal: &mut Terminal) -> Result<Exit, Failure> {
        let limits = limits.start();
        let model = ModelArgs::new(&self.param, self.bin.as_deref(), &self.onnx, &self.plugins);
        if model.is_plan() {
            return Err(Failure::unusable(format!("{} is already a plan", self.param.display()))
                .advise("build from the .param file that it was built from"));
        }
        self.formats.check()?;
        files::check_kept(&self.output, model.files())?;
        files::check_new_file(&self.output)?;
        let spinner = Spinner::start(format!("building {}", self.param.display()));
        let ranges = self.ranges(&model, &limits)?;
        let mut builder = model.builder(&self.without, limits)?;
        builder = self.formats.apply(builder).map_err(Failure::unusable)?;
        builder = self.device.apply(builder).map_err(Failure::unusable)?;
        if let Some(seed) = self.random_weights {
            builder = builder.with_random_weights(seed);
        }
        // Report an invalid card now rather than when the plan runs.
        model.card(&Limits::default())?;
        builder =
            self.input_shape.iter().fold(builder, |it, (name, shape)| it.with_shape(name, shape.clone()));
        builder = ranges.into_iter().fold(builder, Builder::with_range);
        builder = self.donate.iter().fold(builder, |it, (input, output)| it.with_donation(input, output));
        let plan = builder.build().map_err(|error| model.unbuilt(error))?;
        drop(spinner);
        warnings::print(plan.warnings());
        let spinner = Spinner::start(format!("writing {}", self.output.display()));
        plan.save(&self.output).map_err(Failure::failed)?;
        drop(spinner);
        let bytes = std::fs::metadata(&self.output).map(|metadata| metadata.len()).unwrap_or(0);
        let operators = numbers::plural(plan.graph().operators().len(), "operator");
        writeln!(terminal, "{}: {operators}, {}", self.output.display(), numbers::bytes(bytes))?;
        Ok(Exit::Fine)
    }

    /// The ranges, with the element types from the model's text.
    fn ranges(&self, model: &ModelArgs, limits: &Limits) -> Result<Vec<InputRange>, Failure> {
        if self.profile.is_empty() {
            return Ok(Vec::new());
        }
        let text = read_model(&self.param, &self.onnx.options(None, limits))
            .map_err(|error| model.unusable(error))?;
        let range = |Range { input, shapes: [min, optimum, max] }: &Range| {
            let operand =
                text.operator_named(input).and_then(|id| text.operator(id).outputs().first().copied());
            let dtype = operand.and_then(|operand| text.operand(operand).dtype());
            let dtype = dtype.ok_or_else(|| {
                Failure::unusable(format!(
                    "the model does not specify the element type of an input `{input}`"
                ))
                .advise("`ixion inspect` lists the inputs")
            })?;
            InputRange::new(input, dtype, min.clone(), optimum.clone(), max.clone())
                .map_err(Failure::unusable)
        };
        self.profile.iter().map(range).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_three_shapes() {
        let range = Range::parse("x=1,3:2,3:4,3").unwrap();
        assert_eq!(range, Range { input: "x".to_owned(), shapes: [vec![1, 3], vec![2, 3], vec![4, 3]] });
        assert_eq!(Range::parse("a=b=::").unwrap().input, "a=b");
        for wrong in ["1,3:2,3:4,3", "x=1:2", "x=1:2:3:4", "x=a:b:c", "=1:1:1", "x=-1:1:1"] {
            assert!(Range::parse(wrong).unwrap_err().contains("expected three shapes"), "{wrong}");
        }
        assert!(
            parse_donation("a=b").is_ok() && parse_donation("a").is_err() && parse_donation("=b").is_err()
        );
    }
}
