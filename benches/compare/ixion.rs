//! Ixion with the protocol of `benches/compare.py`.
//!
//! ```sh
//! cargo build --profile dist --example compare
//! target/dist/examples/compare --threads 2 --precision bf16
//! ```
//!
//! A model is a `.param` file or a plan. Runs reuse the output buffers, as in a program that runs a model repeatedly.

use ixion::Limits;
use ixion::engine::{Builder, Context, Formats, Plan, PlanFile, Precision, Scales, TimingCache};
use ixion::tensor::{Tensor, TensorView};
use protocol::{Peer, text};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

mod protocol;

const USAGE: &str = "usage: compare [--threads N] [--precision f16,bf16,int8] [--scales FILE] [--plain] [--narrowest] \
[--tune FILE] [--device cuda]";

/// The settings for building a plan.
#[derive(Default)]
struct Settings {
    threads: usize,
    precisions: Vec<Precision>,
    scales: Option<PathBuf>,
    plain: bool,
    narrowest: bool,
    timings: Option<PathBuf>,
    device: Option<String>,
}

impl Settings {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut settings = Self { threads: 1, ..Self::default() };
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value; {USAGE}"));
            match flag.as_str() {
                "--threads" => settings.threads = value()?.parse().map_err(text)?,
                "--precision" => {
                    settings.precisions = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--scales" => settings.scales = Some(value()?.into()),
                "--plain" => settings.plain = true,
                "--narrowest" => settings.narrowest = true,
                "--device" => settings.device = Some(value()?),
                "--tune" => settings.timings = Some(value()?.into()),
                _ => return Err(format!("unknown option {flag}; {USAGE}")),
            }
        }
        Ok(settings)
    }

    /// Builds the plan of a model, and moves the inputs to where its device copies them fastest.
    fn plan(&self, model: &Path, inputs: &mut [Tensor]) -> Result<Plan, String> {
        if PlanFile::is_plan(model) {
            let file = PlanFile::open(model, &Limits::default()).map_err(text)?;
            return file.with_threads(self.threads).load().map_err(text);
        }
        let formats = match (self.plain, self.narrowest) {
            (true, _) => Formats::Plain,
            (_, true) => Formats::Narrowest,
            _ => Formats::Cheapest,
        };
        let mut builder = Builder::new(model).with_threads(self.threads).with_formats(formats);
        builder = builder.with_precisions(self.precisions.iter().copied());
        if let Some(path) = &self.scales {
            builder = builder.with_scales(Scales::load(path).map_err(text)?);
        }
        if let Some(path) = &self.timings {
            builder = builder.with_tuning(TimingCache::open(path));
        }
        if let Some(id) = &self.device {
            builder = on_device(builder, id, inputs)?;
        }
        builder.build().map_err(text)
    }
}

/// Runs on a device, with TF32 for f32 on tensor cores and inputs in page-locked memory, as those of PyTorch.
#[cfg(feature = "gpu")]
fn on_device(builder: Builder, id: &str, inputs: &mut [Tensor]) -> Result<Builder, String> {
    use ixion::cuda::{CudaLayers, Tf32, device::KernelCache, open};

    let cache = KernelCache::in_folder(std::env::temp_dir().join("ixion-compare-kernels"));
    let device = open(id, cache, false).map_err(text)?;
    for input in inputs {
        let mut pinned = device.pinned(input.dtype(), input.shape()).map_err(text)?;
        pinned.view_mut().and_then(|mut view| view.copy_from(&input.view())).map_err(text)?;
        *input = pinned;
    }
    Ok(builder.with_device(device, CudaLayers::default().with_tf32(Tf32::ALL)))
}

#[cfg(not(feature = "gpu"))]
fn on_device(_: Builder, id: &str, _: &mut [Tensor]) -> Result<Builder, String> {
    Err(format!("{id} requires the feature cuda"))
}

struct Ixion {
    settings: Settings,
    loaded: Option<(Context<'static>, Vec<Tensor>)>,
}

impl Ixion {
    fn loaded(&mut self) -> Result<&mut (Context<'static>, Vec<Tensor>), String> {
        self.loaded.as_mut().ok_or_else(|| "no model is loaded".to_owned())
    }
}

impl Peer for Ixion {
    fn load(&mut self, model: &Path, inputs: &[PathBuf]) -> Result<(), String> {
        let inputs = inputs.iter().map(|path| Tensor::load_npy(path, &Limits::default()).map_err(text));
        let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let plan = self.settings.plan(model, &mut inputs)?;
        let context = Context::shared(Arc::new(plan)).map_err(text)?;
        self.loaded = Some((context, inputs));
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        let (context, inputs) = self.loaded()?;
        let views: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
        context.run_reusing(&views).map_err(text)?;
        Ok(())
    }

    fn save_output(&mut self, path: &Path) -> Result<(), String> {
        let (context, _) = self.loaded()?;
        let output = context.outputs().iter().flatten().next().ok_or("nothing was run")?;
        output.save_npy(path).map_err(text)
    }
}

fn main() -> ExitCode {
    let outcome = Settings::parse(std::env::args().skip(1)).and_then(|settings| {
        let mut peer = Ixion { settings, loaded: None };
        protocol::serve(&mut peer).map_err(text)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}
