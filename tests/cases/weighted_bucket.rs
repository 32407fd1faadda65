//! Weighted bucket: W1 to W6.

use super::decide::{MS, S, governor, request};
use super::simulated::{close, deviation};
use forebay_policies::admission::weighted_bucket::{Refill, WeightedBucket, base_rate_per_s};
use forebay_policies::{Arrival, Moment, Signals};
use forebay_tests::case_table::{Shown, show};

#[test]
fn w1_weight() {
    let bucket = WeightedBucket::published(1.0);
    let requests = [(9_u32, 1_u16, 0.3), (99, 0, 1.0), (199, 3, 0.0), (5000, 2, 0.75)];
    let off = requests.map(|(n, h, c)| {
        let formula: f64 = 0.3 * libm::log10(f64::from(n) + 1.0) + 0.5 * f64::from(h) + 0.2 * c;
        close(bucket.weight(n, h, c), formula.clamp(0.5, 5.0), 1e-12)
    });
    let ends = (bucket.weight(0, 0, 0.0), bucket.weight(9999, 9, 1.0));
    assert_eq!(ends, (0.5, 5.0));
    let off = deviation(off.into_iter().fold(0.0, f64::max));
    let text =
        format!("the formula {off}, of {} requests; ends at {} and {}", requests.len(), ends.0, ends.1);
    show("W1", &Shown::met(text));
}

#[test]
fn w2_capacity() {
    let bucket = WeightedBucket::published(1.0);
    let free = [0.0, 0.1, 0.37, 0.5, 1.0];
    let off = free.map(|f| close(bucket.capacity(Some(1.0 - f)), 1.0 + 0.3 * f, 1e-12));
    let off = deviation(off.into_iter().fold(0.0, f64::max));
    show("W2", &Shown::met(format!("the formula {off}, at {} shares of free memory", free.len())));
}

#[test]
fn w3_refill_by_errors() {
    let bucket = WeightedBucket::published(1000.0);
    let rates = [0.0, 0.1, 0.37, 1.0];
    let off = rates.map(|e| close(bucket.refill_per_s(None, Some(e)), 1000.0 * (1.0 - 0.4 * e), 1e-12));
    let off = deviation(off.into_iter().fold(0.0, f64::max));
    show("W3", &Shown::met(format!("the formula {off}, at {} error rates", rates.len())));
}

#[test]
fn w4_refill_by_memory() {
    let bucket = WeightedBucket { refill: Refill::Vram, ..WeightedBucket::published(1.0) };
    let at = |used: f64| bucket.refill_per_s(Some(used), None);
    for (used, factor) in [(0.9, 0.6), (0.6, 1.2), (0.75, 0.9), (0.97, 0.6), (0.1, 1.2), (0.7, 1.0)] {
        close(at(used), factor, 1e-9);
    }
    let text = format!(
        "{:.1}\u{b7}B; {:.1}\u{b7}B; {:.1}\u{b7}B halfway, {:.1}\u{b7}B at 97 % used, {:.1}\u{b7}B at 90 % free",
        at(0.9),
        at(0.6),
        at(0.75),
        at(0.97),
        at(0.1)
    );
    show("W4", &Shown::met(text));
}

#[test]
fn w5_base_rate() {
    let rate = base_rate_per_s(4.0, 0.1);
    close(rate, 3.6, 1e-12);
    show("W5", &Shown::met(format!("{rate:.1} per second")));
}

#[test]
fn w6_microburst() {
    // 500 light requests (weight 0.5) within 100 ms on a bucket of 100: its capacity and a fifth more,
    // and what comes back in the 100 ms, at half the rate once the balance has gone below zero.
    let mut governor = governor("[admission.entry]\nkind = 'weighted_bucket'\nbase_rate_per_s = 100\n");
    let signals = Signals::default();
    let mut served = 0;
    for n in 0..500 {
        let now = Moment(u64::from(n) * MS / 5);
        if governor.arrived(now, &request(n), &signals) == Arrival::Admit {
            served += 1;
        }
    }
    // The balance is zero after n requests: 100 + 100 * t = n / 2 at t = n / 5000 s, so n = 208.3. Then
    // 20 of overdraft at half the refill: (n - 208.3) * (1 / 2 - 50 / 5000) = 20, so 40.8 more; the other
    // 250.9 share the 2.5 tokens that come back until the end.
    let expected = 208.3 + 40.8 + 250.9 * 50.0 / 5000.0 / 0.5;
    close(f64::from(served), expected, 1.0);
    // While the crowd goes on the refill is halved for 3 s from the moment the balance crossed zero,
    // 0.042 s, then whole: 100 requests per second, 106 in the second that holds the change, then 200.
    let mut in_a_second = |from: u64| {
        let at = |n: u32| Moment(from + u64::from(n) * MS);
        (0..1000).filter(|&n| governor.arrived(at(n), &request(n), &signals) == Arrival::Admit).count()
    };
    let seconds = [0, 1, 2, 3].map(|second| in_a_second(S / 10 + second * S));
    for (served, rate) in seconds.into_iter().zip([100, 100, 106, 200]) {
        assert!(served.abs_diff(rate) <= 1, "{seconds:?} per second");
    }
    let [first, second, third, fourth] = seconds;
    let text = format!(
        "{served} of 500 served, {expected:.1} by the formula; in the 4 seconds after it {first}, {second}, \
         {third} (the refill is whole again after 3 s) and {fourth} per second"
    );
    show("W6", &Shown::met(text));
}
