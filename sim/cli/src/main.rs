//! The `forebay` command: arguments in, text or JSON out. What is computed is computed in the workbench.
//!
//! Results go to standard output, progress and warnings to standard error. Exit codes: 0, done; 1, what was
//! asked was found against you, or the program failed; 2, the input is wrong and nothing was written.

mod arguments;
mod commands;
mod failure;
mod table;
mod terminal;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Command::Run(run) => commands::run::run(run),
        Command::Tune(tune) => commands::tune::tune(tune),
        Command::Capacity(capacity) => commands::capacity::capacity(capacity),
        Command::Check(check) => commands::check::check(check),
        Command::Params(params) => commands::params::params(params),
        Command::Trace(trace) => commands::trace::trace(trace),
        Command::Calibrate(calibrate) => commands::calibrate::calibrate(calibrate),
        Command::Explain(explain) => commands::explain::explain(explain),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal::complain(&failure.text());
            ExitCode::from(failure.code())
        }
    }
}
