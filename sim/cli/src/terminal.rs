//! Standard output and standard error, without the panics of the print macros: a reader that has gone
//! (`forebay … | head`) ends the output and nothing else.

use crate::failure::Failure;
use anyhow::Context;
use forebay_workbench::clock::Stopwatch;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

/// Seconds between two updates of the counter.
const EVERY_S: f64 = 0.1;

/// Writes a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.context("standard output cannot be written")?),
    }
}

/// Writes a line to standard error; if that is closed there is nobody to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

/// Counts work on standard error, if that is a terminal.
pub(crate) struct Counter {
    what: &'static str,
    shown: bool,
    watch: Stopwatch,
    next_s: Mutex<f64>,
}

impl Counter {
    pub(crate) fn new(what: &'static str, quiet: bool) -> Self {
        let shown = !quiet && stderr().is_terminal();
        Self { what, shown, watch: Stopwatch::start(), next_s: Mutex::new(0.0) }
    }

    /// So many of so many are done.
    pub(crate) fn count(&self, done: usize, all: usize) {
        if !self.shown {
            return;
        }
        let now_s = self.watch.elapsed_s();
        let mut next_s = self.next_s.lock().unwrap_or_else(PoisonError::into_inner);
        if now_s < *next_s {
            return;
        }
        *next_s = now_s + EVERY_S;
        let left_s = now_s / done.max(1) as f64 * all.saturating_sub(done) as f64;
        let _ = write!(stderr().lock(), "\r\x1b[K{} {done} of {all}, about {left_s:.0} s left", self.what);
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }
}

/// A line on standard error that is written over and over, if that is a terminal.
pub(crate) struct Bar {
    shown: bool,
}

impl Bar {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { shown: !quiet && stderr().is_terminal() }
    }

    /// Shows a line instead of the last one.
    pub(crate) fn show(&mut self, line: &str) {
        if self.shown {
            let _ = write!(stderr().lock(), "\r\x1b[K{line}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr().lock(), "\r\x1b[K");
        }
    }
}
