//! Providers and what they cost: P1, P2.

use super::decide::{governor, request, vram};
use super::simulated::{close, run, values};
use forebay_policies::{Arrival, Moment, Next, Reason, Ticket};
use forebay_tests::case_table::{Shown, show};

#[test]
fn p1_a_red_line_is_unavailable_rather_than_poor() {
    let file = "[queue]\nkind = 'fifo'\n[fallback]\nl2.vram_above = 0.85\nl3.vram_above = 0.92\n\
                class.s2 = { min_level = 'l1', red_line = true }\n";
    let mut governor = governor(file);
    assert_eq!(governor.arrived(Moment::ZERO, &request(0), &vram(0.9)), Arrival::Queue { class: 0 });
    let why = Reason::ClassUnavailable;
    assert_eq!(governor.next(Moment(1), &vram(0.9)), Next::Drop { ticket: Ticket::of(0, 0), why });
    let unavailable = Arrival::Reject { why, retry_after_ns: None };
    assert_eq!(governor.arrived(Moment(2), &request(1), &vram(0.95)), unavailable);
    let text = "a red line at a worse level than it allows: 'unavailable'";
    show("P1", &Shown::unmet(text, "fail-over to a next provider is not simulated"));
}

#[test]
fn p2_the_bill_follows_from_the_tokens() {
    // A hundredth of a day's conversations, of which the tokens are counted.
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
";
    let replications = run(text, &[], 1);
    let counted = values(&replications, "tokens_in")[0] + values(&replications, "tokens_out")[0];
    let month = counted * 100.0 * 30.0;
    close(month, 12e9, 12.0);
    let price_per_million = 0.5;
    let bill = month / 1e6 * price_per_million;
    close(bill, 6000.0, 6000.0 * 1e-9);
    let text = format!(
        "{} billion tokens in 30 days; at a price of {price_per_million} per million, a bill of {bill}",
        month / 1e9
    );
    show("P2", &Shown::met(text));
}
