//! Running any number of images for a model's only input, in batches.

use super::files::Source;
use super::picture::{Preparer, Shot};
use super::port::Port;
use super::report::Report;
use super::round::execute;
use crate::cli::runner::Runner;
use crate::cli::{Bar, Failure, Spinner, Terminal};
use ixion::Limits;
use ixion::pnnx::Dim;
use ixion::tensor::Tensor;
use std::io::Write;

/// The batch size if the file does not fix it.
const BATCH: usize = 8;

/// Runs the model on all images. If there are several, those that cannot be read are reported and skipped.
pub(super) fn run(
    port: &Port,
    sources: &[Source],
    runner: &mut Runner,
    limits: &Limits,
    report: &mut Report<'_>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let Some(first) = sources.first() else { return Ok(()) };
    let preparer = Preparer::new(&first.path, port, report.card, limits)?;
    report.check_places(sources)?;
    let size = if preparer.is_single() { BatchSize::of(1) } else { BatchSize::new(port, report.args.batch) };
    let bar = Bar::start(sources.len());
    let mut batch = Batch { port, runner, waiting: Vec::new() };
    for source in sources {
        match preparer.load(&source.path) {
            Ok((tensor, shot)) => {
                if batch.waiting.len() >= size.max || !batch.takes(&tensor) {
                    batch.run(&size, sources.len(), report, &bar, terminal)?;
                }
                batch.waiting.push((tensor, shot));
            }
            // Without its only image, the whole run fails.
            Err(failure) if sources.len() == 1 => return Err(failure),
            Err(failure) => {
                bar.aside(|| report.skip(&source.path, &failure));
                bar.step();
            }
        }
    }
    batch.run(&size, sources.len(), report, &bar, terminal)
}

/// The number of images that run together.
struct BatchSize {
    max: usize,
    /// Whether smaller batches are padded, because the file fixes the size.
    is_fixed: bool,
}

impl BatchSize {
    fn of(max: usize) -> Self {
        Self { max, is_fixed: false }
    }

    /// The requested batch size, or else that of the file, or else [`BATCH`].
    fn new(port: &Port, asked: Option<usize>) -> Self {
        let fixed = match port.shape.as_deref().and_then(<[Dim]>::first) {
            Some(Dim::Fixed(size)) => usize::try_from(*size).ok().filter(|size| *size > 0),
            _ => None,
        };
        match (asked, fixed) {
            (Some(asked), _) => Self::of(asked),
            (None, Some(fixed)) => Self { max: fixed, is_fixed: true },
            (None, None) => Self::of(BATCH),
        }
    }

    /// The number of images that must be added to `count`.
    fn missing(&self, count: usize) -> usize {
        if self.is_fixed { self.max.saturating_sub(count) } else { 0 }
    }
}

/// Images waiting for their batch to be complete.
struct Batch<'a> {
    port: &'a Port,
    runner: &'a mut Runner,
    waiting: Vec<(Tensor, Shot)>,
}

impl Batch<'_> {
    /// Returns true if the tensor has the same shape as the waiting ones.
    fn takes(&self, tensor: &Tensor) -> bool {
        self.waiting.first().is_none_or(|(first, _)| first.shape() == tensor.shape())
    }

    /// Runs the waiting images, if any, and reports the results.
    fn run(
        &mut self,
        size: &BatchSize,
        all: usize,
        report: &mut Report<'_>,
        bar: &Bar,
        terminal: &mut Terminal,
    ) -> Result<(), Failure> {
        let (tensors, shots): (Vec<Tensor>, Vec<Shot>) = self.waiting.drain(..).unzip();
        let Some(last) = tensors.last() else { return Ok(()) };
        let missing = size.missing(tensors.len());
        let filled: Vec<Tensor> = tensors.iter().chain(std::iter::repeat_n(last, missing)).cloned().collect();
        let input = match filled.as_slice() {
            [only] => only.clone(),
            several => Tensor::concat(several, 0).map_err(Failure::failed)?,
        };
        let spinner = (all == 1).then(|| Spinner::start("running"));
        let inputs = vec![(self.port.name.clone(), input)];
        let round = execute(self.runner, inputs, report.args.trace)?.without(missing)?;
        drop(spinner);
        bar.aside(|| -> Result<(), Failure> {
            report.add(round, &shots, terminal)?;
            Ok(terminal.flush()?)
        })?;
        shots.iter().for_each(|_| bar.step());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_size_comes_from_the_user_or_the_file() {
        let port = |first| Port::new("x", None, Some(vec![first, Dim::Fixed(3)]));
        let size = |first, asked| BatchSize::new(&port(first), asked);
        let open = size(Dim::Unknown, None);
        assert_eq!((open.max, open.missing(3)), (BATCH, 0));
        let fixed = size(Dim::Fixed(4), None);
        assert_eq!((fixed.max, fixed.missing(3)), (4, 1));
        let asked = size(Dim::Fixed(4), Some(2));
        assert_eq!((asked.max, asked.missing(1)), (2, 0));
    }
}
