//! What can be wrong with the parameters of a distribution.

use std::borrow::Cow;

use thiserror::Error;

/// What a message calls a distribution's field: `parts[2].dist.mean`.
pub(super) type Path = Cow<'static, str>;

/// Why a [`Dist`](super::Dist) cannot be drawn from. The message names the field by its path inside
/// the distribution, what was found there and what is allowed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum DistError {
    /// A number is out of its range, or not a finite number at all.
    #[error("`{field}` is {found}, allowed is {allowed}")]
    OutOfRange {
        /// Path of the field.
        field: Path,
        /// The number found.
        found: f64,
        /// What is allowed, in words.
        allowed: Path,
    },
    /// A list has too few entries.
    #[error("`{field}` has {found} entries, at least {least} are needed")]
    TooFew {
        /// Path of the list.
        field: Path,
        /// Entries found.
        found: usize,
        /// Entries needed.
        least: usize,
    },
    /// Weights do not add up to 1.
    #[error("the weights in `{field}` add up to {found}, allowed is 1 (within 1e-9)")]
    Weights {
        /// Path of the list.
        field: Path,
        /// Their sum.
        found: f64,
    },
    /// Of several ways to give the parameters, none or more than one was used.
    #[error("{kind} has {found}, allowed is exactly one of: {allowed}")]
    Choice {
        /// The distribution's kind, with its path when it is nested.
        kind: Path,
        /// The fields found, in words.
        found: Path,
        /// The sets of fields that are allowed, in words.
        allowed: &'static str,
    },
    /// A truncation keeps nothing of the distribution that it cuts.
    #[error("`{field}` keeps {found} of the distribution's probability, allowed is at least 1e-9")]
    NothingLeft {
        /// Path of the bound or bounds.
        field: Path,
        /// The probability that is left.
        found: f64,
    },
}

impl DistError {
    /// The same error seen from outside: `field` is the one that holds the distribution.
    pub(super) fn within(self, outer: &str) -> Self {
        let join = |inner: Path| Path::from(format!("{outer}.{inner}"));
        match self {
            Self::OutOfRange { field, found, allowed } => {
                Self::OutOfRange { field: join(field), found, allowed }
            }
            Self::TooFew { field, found, least } => Self::TooFew { field: join(field), found, least },
            Self::Weights { field, found } => Self::Weights { field: join(field), found },
            Self::Choice { kind, found, allowed } => {
                Self::Choice { kind: Path::from(format!("`{outer}`: {kind}")), found, allowed }
            }
            Self::NothingLeft { field, found } => Self::NothingLeft { field: join(field), found },
        }
    }
}
