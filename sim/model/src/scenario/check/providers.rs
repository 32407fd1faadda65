//! What must hold of a stage of external providers beyond its schema.

use super::{Found, dist};
use crate::document::Document;
use crate::scenario::{Providers, Scenario};
use forebay_policies::fallback::providers::MOST_PROVIDERS;

/// What must hold of the list at `path`.
pub(super) fn holds(document: &Document<Scenario>, path: &str, stage: &Providers, found: &mut Found) {
    let count = stage.providers.len();
    if count == 0 || count > usize::from(MOST_PROVIDERS) {
        let allowed = format!("1 to {MOST_PROVIDERS}, the main one first");
        found.push(document.problem(path, format!("{count} providers"), allowed, None));
    }
    for (name, provider) in &stage.providers {
        let at = format!("{path}.{name}");
        dist(document, &format!("{at}.first_token_s"), &provider.first_token_s, found);
        dist(document, &format!("{at}.per_token_s"), &provider.per_token_s, found);
        if provider.retry_jitter > 0.0
            && provider.max_at_once.is_none()
            && provider.requests_per_min.is_none()
            && provider.tokens_per_min.is_none()
        {
            found.push(document.problem(
                &format!("{at}.retry_jitter"),
                format!("{}, and no limit", provider.retry_jitter),
                "a limit beside it: without one nothing is answered 429",
                Some("set `requests_per_min`, `tokens_per_min` or `max_at_once`".to_owned()),
            ));
        }
    }
}
