//! The ceiling of external providers: the least of what their places, their calls per minute and their
//! tokens per minute carry. Where the policy fails over, the ceilings of all add up; else only the main one
//! is asked.

use super::StageCapacity;
use super::engine::Prompt;
use forebay_engine::DistError;
use forebay_model::scenario::{Provider, Providers};

/// Capacity of the stage in calls of the mean length; nothing is known without calls.
pub(super) fn capacity(
    name: &str,
    stage: &Providers,
    fails_over: bool,
    prompt: Option<Prompt>,
) -> Result<StageCapacity, DistError> {
    let asked = if fails_over { stage.providers.len() } else { 1 };
    let mut servers = Some(0.0);
    let mut service_s = None;
    let mut ceiling = Some(0.0);
    let mut bounds = Vec::new();
    for (provider_name, provider) in stage.providers.iter().take(asked) {
        servers = servers.zip(provider.max_at_once).map(|(sum, own)| sum + f64::from(own));
        let Some(prompt) = prompt else { continue };
        let takes_s = call_s(provider, &prompt)?;
        // The main one serves as long as it can.
        service_s.get_or_insert(takes_s);
        let least = least(provider, &prompt, takes_s);
        ceiling = ceiling.zip(least).map(|(sum, (own, _))| sum + own);
        bounds.push(match least {
            Some((own, bound)) => format!("{provider_name}: {own:.2}/s by {bound}"),
            None => format!("{provider_name}: no bound"),
        });
    }
    let note = if prompt.is_none() { "not on any path at L1".to_owned() } else { bounds.join("; ") };
    Ok(StageCapacity {
        name: name.to_owned(),
        kind: "providers".to_owned(),
        servers,
        service_s,
        visited_share: 0.0,
        ceiling_per_s: ceiling.filter(|_| prompt.is_some()),
        load: None,
        peak_load: None,
        waiting: None,
        note: Some(note),
    })
}

/// Time of the mean call.
fn call_s(provider: &Provider, prompt: &Prompt) -> Result<f64, DistError> {
    let first_s = provider.first_token_s.sampler()?.mean() + provider.per_prompt_token_s * prompt.tokens;
    Ok(first_s + provider.per_token_s.sampler()?.mean() * (prompt.out - 1.0).max(0.0))
}

/// Calls per second that a provider carries at most, and by what; `None`: it has no bound.
fn least(provider: &Provider, prompt: &Prompt, takes_s: f64) -> Option<(f64, &'static str)> {
    let places = provider.max_at_once.filter(|_| takes_s > 0.0).map(|n| f64::from(n) / takes_s);
    let calls = provider.requests_per_min.map(|n| n / 60.0);
    let tokens = provider.tokens_per_min.map(|n| n / 60.0 / (prompt.tokens + prompt.out));
    let bounds = [(places, "calls at once"), (calls, "calls per minute"), (tokens, "tokens per minute")];
    bounds
        .into_iter()
        .filter_map(|(bound, by)| Some((bound?, by)))
        .reduce(|least, other| if other.0 < least.0 { other } else { least })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: Prompt = Prompt { tokens: 800.0, square: 640_000.0, out: 201.0, out_square: 40_401.0 };

    fn stage() -> Providers {
        toml::from_str(
            "[providers.main]\nfirst_token_s = 1\nper_token_s = 0.01\nmax_at_once = 6\nrequests_per_min = 240\n\
             [providers.second]\nfirst_token_s = 1\ntokens_per_min = 60060\n",
        )
        .expect("the test's own stage")
    }

    #[test]
    fn the_least_bound_of_each_provider_counts() {
        let alone = capacity("llm", &stage(), false, Some(PROMPT)).expect("its laws");
        // 6 places for 3 s each; 4 calls a second would be let in.
        assert_eq!((alone.ceiling_per_s, alone.service_s, alone.servers), (Some(2.0), Some(3.0), Some(6.0)));
        let both = capacity("llm", &stage(), true, Some(PROMPT)).expect("its laws");
        // The second takes any number of calls at once.
        assert_eq!((both.ceiling_per_s, both.servers), (Some(3.0), None));
        assert_eq!(
            both.note.as_deref(),
            Some("main: 2.00/s by calls at once; second: 1.00/s by tokens per minute")
        );
        let mut open = stage();
        open.providers["second"].tokens_per_min = None;
        assert_eq!(capacity("llm", &open, true, Some(PROMPT)).expect("its laws").ceiling_per_s, None);
        assert_eq!(capacity("llm", &open, true, None).expect("its laws").ceiling_per_s, None);
    }
}
