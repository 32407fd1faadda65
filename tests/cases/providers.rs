//! Providers and what they cost: P1, P2.

use super::decide::{governor, request, vram};
use super::simulated::{close, ledger, metric, percent, run, values};
use forebay_policies::{Arrival, Moment, Next, Reason, Ticket};
use forebay_tests::case_table::{Shown, show};

/// A main provider that is out, and a next one that is right in four of five cases.
const OUT: &str = "
name = 'out'
run = { duration_s = 1000, drain_s = 100 }
[workload.sources.crowd]
kind = 'poisson'
rate_per_s = 5
[workload.classes.question]
tokens_out = 101
[endpoints.ask]
l1 = ['llm']
[stages.llm]
kind = 'providers'
[stages.llm.providers.main]
first_token_s = 0.5
error_rate = 1
[stages.llm.providers.next]
first_token_s = 0.5
quality = 0.8
[policy.fallback.providers]
allowed_failures = 0
";

#[test]
fn p1_the_next_provider_but_not_across_a_red_line() {
    let over = run(OUT, &[], 8);
    let ends = ledger(&over);
    assert_eq!(ends.answered.l1, ends.offered, "{ends:?}");
    let right = metric(&over, "right_share");
    assert!(right.contains(0.8), "{right:?}");
    // A red line: this class is for the main provider alone.
    let strict = ledger(&run(OUT, &["policy.fallback.class.s2.main_provider_only=true"], 1));
    let unavailable = Reason::ClassMainProviderOnly.code();
    assert_eq!(strict.rejected.get(unavailable), Some(&strict.offered), "{strict:?}");
    // So is one on levels: nothing rather than a poor answer.
    let file = "[queue]\nkind = 'fifo'\n[fallback]\nl2.vram_above = 0.85\nl3.vram_above = 0.92\n\
                class.s2 = { min_level = 'l1', red_line = true }\n";
    let mut governor = governor(file);
    assert_eq!(governor.arrived(Moment::ZERO, &request(0), &vram(0.9)), Arrival::Queue { class: 0 });
    let why = Reason::ClassUnavailable;
    assert_eq!(governor.next(Moment(1), &vram(0.9)), Next::Drop { ticket: Ticket::of(0, 0), why });
    let unavailable = Arrival::Reject { why, retry_after_ns: None };
    assert_eq!(governor.arrived(Moment(2), &request(1), &vram(0.95)), unavailable);
    let text = format!(
        "all answered by the next provider of quality 0.8, {} right; behind a red line all {} answered \
         'unavailable'",
        percent(&right),
        strict.offered
    );
    show("P1", &Shown::met(text));
}

#[test]
fn p2_the_bill_follows_from_the_tokens() {
    // A hundredth of a day's conversations, of which the tokens are counted and paid.
    let text = "
name = 'bill'
run = { duration_s = 10, drain_s = 100 }
[workload.sources.day]
kind = 'microburst'
at_s = 1
count = 5000
within_s = 5
[workload.classes.conversation]
tokens_in = 600
tokens_out = 200
[endpoints.ask]
l1 = ['llm']
[stages.llm]
kind = 'llm_slots'
replicas = 1
slots = 5000
first_token_s = 1
[economics.tokens]
llm = { in_per_1k = 0.0005, out_per_1k = 0.0015 }
";
    let replications = run(text, &[], 1);
    let month = |name: &str| values(&replications, name)[0] * 100.0 * 30.0;
    let tokens = month("tokens_in") + month("tokens_out");
    close(tokens, 12e9, 12e9 * 1e-9);
    let bill = month("cost");
    let by_hand = 15e6 * (0.6 * 0.0005 + 0.2 * 0.0015);
    close(bill, by_hand, by_hand * 1e-9);
    let text = format!(
        "{} billion tokens in 30 days; at 0.0005 per 1000 in (600 of 800) and 0.0015 out, a bill of {}",
        tokens / 1e9,
        bill.round()
    );
    show("P2", &Shown::met(text));
}
