//! Checks that the families share, each naming the field, what was found and what is allowed.

use crate::distribution::error::{DistError, Path};

/// Weights must add up to 1 within this.
const WEIGHT_TOLERANCE: f64 = 1e-9;

/// `found`, if it is finite and `accept` takes it.
pub(super) fn finite(
    field: impl Into<Path>,
    found: f64,
    allowed: impl Into<Path>,
    accept: impl Fn(f64) -> bool,
) -> Result<f64, DistError> {
    if found.is_finite() && accept(found) {
        return Ok(found);
    }
    Err(DistError::OutOfRange { field: field.into(), found, allowed: allowed.into() })
}

/// A finite number above 0.
pub(super) fn positive(field: impl Into<Path>, found: f64) -> Result<f64, DistError> {
    finite(field, found, "a finite number above 0", |found| found > 0.0)
}

/// A finite number, 0 or more.
pub(super) fn non_negative(field: impl Into<Path>, found: f64) -> Result<f64, DistError> {
    finite(field, found, "a finite number, 0 or more", |found| found >= 0.0)
}

/// A coefficient of variation: 0, or within the range in which the family is computed precisely.
pub(super) fn coefficient(field: &'static str, found: f64, low: f64, high: f64) -> Result<f64, DistError> {
    finite(field, found, format!("0, or {low} to {high}"), |cv| cv == 0.0 || (low..=high).contains(&cv))
}

/// Weights that are at least 0 each and 1 together.
pub(super) fn weights(list: &'static str, weights: impl Iterator<Item = f64>) -> Result<(), DistError> {
    let (mut sum, mut count) = (0.0, 0);
    for weight in weights {
        sum += non_negative(format!("{list}[{count}].weight"), weight)?;
        count += 1;
    }
    if count == 0 {
        return Err(DistError::TooFew { field: list.into(), found: 0, least: 1 });
    }
    if (sum - 1.0).abs() > WEIGHT_TOLERANCE {
        return Err(DistError::Weights { field: list.into(), found: sum });
    }
    Ok(())
}

/// The error for parameters that match none of the allowed sets of fields.
pub(super) fn choice<const N: usize>(
    kind: &'static str,
    names: [&'static str; N],
    found: [Option<f64>; N],
    allowed: &'static str,
) -> DistError {
    let given: Vec<&str> =
        names.into_iter().zip(found).filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
    let found = if given.is_empty() { "no parameters".to_owned() } else { given.join(", ") };
    DistError::Choice { kind: kind.into(), found: found.into(), allowed }
}
