//! A progress line on the terminal. It appears after a second and is erased at the end.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// Shows a line until it is dropped.
#[derive(Debug)]
pub struct Progress {
    details: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the clock: `what` appears after a second.
    pub fn start(what: &str) -> Self {
        let (details, inbox) = mpsc::channel::<String>();
        let mut line = Line::new(what);
        let thread = std::thread::spawn(move || {
            loop {
                match inbox.recv_timeout(TICK) {
                    Ok(detail) => line.detail = detail,
                    Err(RecvTimeoutError::Timeout) => line.draw(),
                    Err(RecvTimeoutError::Disconnected) => return line.clear(),
                }
            }
        });
        Self { details: Some(details), thread: Some(thread) }
    }

    /// Sets the description of the current step.
    pub fn detail(&self, detail: impl Into<String>) {
        if let Some(details) = &self.details {
            let _ = details.send(detail.into());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.details = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Line {
    what: String,
    detail: String,
    since: Instant,
    terminal: bool,
    frame: usize,
}

impl Line {
    fn new(what: &str) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { what: what.to_owned(), detail: String::new(), since: Instant::now(), terminal, frame: 0 }
    }

    fn draw(&mut self) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        self.frame += 1;
        if !self.terminal {
            if self.frame == 1 {
                eprintln!("{} …", self.what);
            }
            return;
        }
        let (frame, seconds) = (FRAMES[self.frame % FRAMES.len()], self.since.elapsed().as_secs());
        let line = format!("{frame} {} {seconds} s  {}", self.what, self.detail);
        let line: String = line.chars().take(78).collect();
        eprint!("\r{line:<78}");
        let _ = std::io::stderr().flush();
    }

    fn clear(&self) {
        if self.terminal && self.frame > 0 {
            eprint!("\r{:<78}\r", "");
            let _ = std::io::stderr().flush();
        }
    }
}
