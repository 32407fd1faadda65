//! Why a command ends with something else than 0.

use forebay_datasets::record::RecorderError;
use forebay_model::document::Problem;
use forebay_workbench::ablate::AblateError;
use forebay_workbench::inputs::OpenError;
use forebay_workbench::output::OutputError;
use forebay_workbench::run::RunFailure;
use forebay_workbench::spans::SpansError;
use forebay_workbench::tune::{RecordError, TuneError};

/// Why a command ends with something else than 0.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is wrong: exit 2. The text may have several lines.
    Input(String),
    /// What was asked was found against the user: exit 1. The result has been printed.
    Against(String),
    /// The program or the machine failed: exit 1.
    Other(anyhow::Error),
}

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Against(_) | Self::Other(_) => 1,
        }
    }

    /// What to print.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Input(text) | Self::Against(text) => text.clone(),
            Self::Other(error) => format!("{error:#}"),
        }
    }
}

impl Failure {
    /// Results that could not be written after they had been computed and printed: the machine's failure,
    /// whatever the reason.
    pub(crate) fn unwritten(error: impl Into<Self>) -> Self {
        match error.into() {
            Self::Input(text) => Self::Other(anyhow::anyhow!("{text}")),
            other => other,
        }
    }
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Self {
        OpenError::Problems(problems).into()
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<RunFailure> for Failure {
    fn from(failure: RunFailure) -> Self {
        if failure.is_internal() { Self::Other(failure.into()) } else { Self::Input(failure.to_string()) }
    }
}

impl From<AblateError> for Failure {
    fn from(error: AblateError) -> Self {
        if error.is_internal() { Self::Other(error.into()) } else { Self::Input(error.to_string()) }
    }
}

impl From<TuneError> for Failure {
    fn from(error: TuneError) -> Self {
        if error.is_internal() {
            Self::Other(anyhow::anyhow!("{error}"))
        } else {
            Self::Input(error.to_string())
        }
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        if error.is_input() {
            Self::Input(error.to_string())
        } else {
            Self::Other(anyhow::anyhow!("{error}"))
        }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Output(error) => error.into(),
            RecordError::Tune(error) => error.into(),
            other => Self::Other(other.into()),
        }
    }
}

impl From<RecorderError> for Failure {
    fn from(error: RecorderError) -> Self {
        if error.is_input() { Self::Input(error.to_string()) } else { Self::Other(error.into()) }
    }
}

impl From<SpansError> for Failure {
    fn from(error: SpansError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}
