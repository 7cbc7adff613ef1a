//! Progress on stderr for work that takes longer than a second; none if stderr is not a terminal. A program that runs the command
//! is told of each step instead.

use super::caller::{self, Listener, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// A spinner with a message, shown until it is dropped.
pub(crate) struct Spinner {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    pub(crate) fn start(message: impl Into<String>) -> Self {
        if caller::listener().is_some() || !std::io::stderr().is_terminal() {
            return Self { stop: None, thread: None };
        }
        let message = message.into();
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if stopped.recv_timeout(PATIENCE) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            let spinner = ProgressBar::new_spinner().with_message(message);
            spinner.enable_steady_tick(TICK);
            // Returns an error as soon as the sender is dropped.
            let _ = stopped.recv();
            spinner.finish_and_clear();
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the spinner's thread must not end the command.
            let _ = thread.join();
        }
    }
}

/// A progress bar that advances with each completed step.
pub(crate) struct Bar {
    bar: ProgressBar,
    start: Instant,
    listener: Option<Listener>,
}

impl Bar {
    pub(crate) fn start(steps: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len}  {eta} left") {
            bar.set_style(style);
        }
        let listener = caller::listener();
        if let Some(listener) = &listener {
            listener(Progress::Begin(steps));
        }
        Self { bar, start: Instant::now(), listener }
    }

    /// Advances by one step.
    pub(crate) fn step(&self) {
        if let Some(listener) = &self.listener {
            return listener(Progress::Step);
        }
        if self.bar.is_hidden() && self.start.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(1);
    }

    /// Hides the bar while something else is written.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
