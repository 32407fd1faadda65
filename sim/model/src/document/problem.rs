//! What is wrong with an input, where it stands, and what would be right.
//!
//! A problem is data, not a sentence: the command prints it, the dashboard marks the line. Positions
//! are kept as byte offsets while the document is walked ([`Finding`]) and become lines and columns
//! only for the few that are shown.

use std::fmt;

use serde::Serialize;

/// At most this many problems are shown of one input: past that, the first ones explain the rest.
pub(super) const SHOWN: usize = 20;

/// The walk stops here: enough to sort and show the first [`SHOWN`] by position.
const COLLECTED: usize = 200;

/// The `file` of problems that stand in a `--set path=value` and not in a file.
pub const SETTING_FILE: &str = "--set";

/// One thing wrong with an input.
///
/// Shown as `shop.toml:12:5: stages.llm.replicas: found -3, allowed: a whole number from 1 to 100000`,
/// with the hint, if there is one, on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// File name or name of the bundled scenario; [`SETTING_FILE`] for a `--set`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1. In a setting, of the text `path=value`.
    pub column: usize,
    /// Dotted path of the key, for example `stages.llm.replicas`. Empty where the text could not be read.
    pub path: String,
    /// What stands there.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
    /// A way out, for example ``did you mean `vram_above`?``.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "found {}, allowed: {}", self.found, self.allowed)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

/// Which text an offset counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The scenario's text.
    File,
    /// The setting of this index.
    Setting(usize),
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) origin: Origin,
    /// Bytes from the start of that text.
    pub(super) offset: usize,
}

impl Place {
    /// The start of the file: where the root table stands.
    pub(super) const START: Self = Self { origin: Origin::File, offset: 0 };
}

/// A problem whose position is still an offset.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) found: String,
    pub(super) allowed: String,
    pub(super) hint: Option<String>,
}

/// The problems met so far.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn push(&mut self, finding: Finding) {
        if !self.is_full() {
            self.0.push(finding);
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        for finding in other.0 {
            self.push(finding);
        }
    }

    /// Whether walking on is pointless.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= COLLECTED
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first [`SHOWN`] by position, each made a problem by `locate`.
    pub(super) fn into_problems(mut self, locate: impl Fn(Finding) -> Problem) -> Vec<Problem> {
        // Stable: findings at one place keep the order of the walk.
        self.0.sort_by_key(|finding| finding.place);
        let more = self.0.len() > SHOWN;
        self.0.truncate(SHOWN);
        let mut problems: Vec<Problem> = self.0.into_iter().map(locate).collect();
        if let Some(last) = problems.last_mut().filter(|_| more) {
            let note = format!("more problems follow; these are the first {SHOWN}");
            last.hint = Some(match last.hint.take() {
                Some(hint) => format!("{hint}\n  {note}"),
                None => note,
            });
        }
        problems
    }
}
