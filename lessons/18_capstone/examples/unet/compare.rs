//! Compares the subject's convolution with Ixion's own, in f32 and in int8, on scenes of three sizes.

use super::scenes::{self, Scene};
use super::subject::{plan_for, registry, run_all};
use indicatif::{ProgressBar, ProgressStyle};
use ixion::engine::{Builder, Calibration, Method, Plan, Scales};
use ixion::op::Registry;
use ixion::tensor::Tensor;
use ixion::vision::Confusion;
use ndarray::Ix4;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Height and width of the scenes; the model was trained on 128.
const SIZES: [usize; 3] = [96, 128, 192];
/// The range of the plans: the smallest, the most likely and the largest input.
const RANGE: [&[usize]; 3] = [&[1, 3, 96, 96], &[1, 3, 128, 128], &[1, 3, 192, 192]];
/// Seeds of the scenes for measuring and for calibration; the model was trained on neither.
const SEED: u64 = 2026;
const CALIBRATION_SEED: u64 = 77;
const CALIBRATED: u64 = 16;
const CLASSES: usize = 5;
const THREADS: usize = 2;
/// The duration of a timing; the shortest of its runs counts.
const TIMED: Duration = Duration::from_secs(1);

/// The measurements of one plan at one size.
struct Measured {
    iou: f64,
    time: Duration,
}

/// Prints accuracy and time of all plans on `count` scenes of each size.
pub(super) fn compare(count: u64) -> Result<()> {
    let bar = ProgressBar::new(2 * CALIBRATED + SIZES.len() as u64 * 4);
    bar.set_style(ProgressStyle::with_template("{bar:32} {pos:>2}/{len} {msg}")?);
    let (mut tables, mut found) = (Vec::new(), Vec::new());
    for (whose, registry) in [("yours", registry()?), ("Ixion's", Registry::default())] {
        bar.set_message(format!("{whose}: calibration"));
        let scales = calibrated(&registry, &bar)?;
        for (kind, scales) in [("f32", None), ("int8", Some(&scales))] {
            let plan = plan_for(unet(&registry), "pnnx_input_0", RANGE, scales)?;
            found.push(convolutions(&plan, whose, kind));
            let mut measured = Vec::new();
            for size in SIZES {
                bar.set_message(format!("{whose}: {kind}, {size}×{size}"));
                measured.push(measure(&plan, size, count)?);
                bar.inc(1);
            }
            tables.push((whose, kind, measured));
        }
    }
    bar.finish_and_clear();
    println!("{}\n", found.join("\n"));
    println!("size     type  mean IoU: yours  Ixion's   ms: yours  Ixion's  ratio");
    for (position, size) in SIZES.into_iter().enumerate() {
        for kind in ["f32", "int8"] {
            let of = |whose: &str| {
                let mut tables = tables.iter();
                let table = tables.find(|table| (table.0, table.1) == (whose, kind));
                table.and_then(|table| table.2.get(position)).ok_or("a table is missing")
            };
            let (own, other) = (of("yours")?, of("Ixion's")?);
            let [ms, other_ms] = [own, other].map(|measured| measured.time.as_secs_f64() * 1e3);
            println!(
                "{size:3}×{size:<3}  {kind:4}           {:.4}   {:.4}    {ms:9.2}  {other_ms:7.2}  {:5.1}",
                own.iou,
                other.iou,
                ms / other_ms
            );
        }
    }
    Ok(())
}

fn model() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut files = folders.map(|folder| folder.join("model_file/shapes_unet/shapes_unet.pnnx.param"));
    files.find(|file| file.is_file()).unwrap_or_default()
}

fn unet(registry: &Registry) -> Builder {
    Builder::new(model()).with_registry(registry.clone())
}

/// Describes which layers run the convolutions, and in which types.
fn convolutions(plan: &Plan, whose: &str, kind: &str) -> String {
    let graph = plan.graph();
    let convolutions = graph.operators().iter().filter(|it| it.op_type().contains("Conv2d"));
    let is_int8 = |operand| graph.operand(operand).scale().is_some();
    let (mut own, mut others, mut in_int8) = (0, 0, 0);
    for operator in convolutions {
        let is_own = operator.op_type() == "course/Conv2d/1";
        (own, others) = (own + usize::from(is_own), others + usize::from(!is_own));
        in_int8 += usize::from(operator.inputs().first().is_some_and(|&input| is_int8(input)));
    }
    format!("{whose}, {kind}: {own} convolutions are course/Conv2d/1, {others} built in; {in_int8} read int8")
}

/// A scene's pixels in 0..1.
fn input(scene: &Scene, size: usize) -> Result<Vec<Tensor>> {
    let value = |at: usize| f32::from(scene.pixels[at % (size * size) * 3 + at / (size * size)]) / 255.0;
    Ok(vec![Tensor::from_vec((0..3 * size * size).map(value).collect(), &[1, 3, size, size])?])
}

fn calibrated(registry: &Registry, bar: &ProgressBar) -> Result<Scales> {
    let mut calibration = Calibration::new(unet(registry))?;
    for index in 0..CALIBRATED {
        let size = SIZES[index as usize % SIZES.len()];
        calibration.see_range(input(&scenes::render(CALIBRATION_SEED, index, size, size), size)?)?;
        bar.inc(1);
    }
    Ok(calibration.scales(Method::MinMax))
}

/// Mean intersection over union on two threads, and the time of one run on one.
fn measure(plan: &Plan, size: usize, count: u64) -> Result<Measured> {
    let scenes: Vec<Scene> = (0..count).map(|index| scenes::render(SEED, index, size, size)).collect();
    let inputs: Vec<Vec<Tensor>> = scenes.iter().map(|scene| input(scene, size)).collect::<Result<_>>()?;
    let mut confusion = Confusion::new(CLASSES);
    for (outputs, scene) in run_all(plan, &inputs, THREADS)?.iter().zip(&scenes) {
        confusion.add(&scene.mask, &classes(outputs.first().ok_or("there is no output")?)?)?;
    }
    let (mut context, mut time) = (plan.context()?, Duration::MAX);
    let first = inputs.first().ok_or("there are no scenes")?;
    let views: Vec<_> = first.iter().map(Tensor::view).collect();
    let timed = Instant::now();
    while time == Duration::MAX || timed.elapsed() < TIMED {
        let start = Instant::now();
        context.run_reusing(&views)?;
        time = time.min(start.elapsed());
    }
    Ok(Measured { iou: confusion.mean_iou().ok_or("no class was seen")?, time })
}

/// The class with the highest score for each pixel.
fn classes(scores: &Tensor) -> Result<Vec<u8>> {
    let scores = scores.array::<f32>()?.into_dimensionality::<Ix4>()?;
    let (_, classes, height, width) = scores.dim();
    let best = |pixel: usize| {
        let score = |class: &usize| scores[[0, *class, pixel / width, pixel % width]];
        (0..classes).max_by(|a, b| score(a).total_cmp(&score(b))).unwrap_or(0) as u8
    };
    Ok((0..height * width).map(best).collect())
}
