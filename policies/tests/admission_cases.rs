//! The cases of the admission modules that one governor decides alone, through the public interface only:
//! T1, T2, G3, H1 to H3, N01, N03, N22, N24.

use forebay_policies::{
    Arrival, Call, CallView, End, Governor, Level, Moment, Outcome, Policy, Reason, RequestView, Signals,
    Site, Ticket,
};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
const MINUTE: u64 = 60 * S;

fn governor(file: &str) -> Governor {
    let policy: Policy = toml::from_str(file).expect("the test's own file");
    Governor::new(&policy).expect("the test's own values")
}

/// A request of so many tokens, as they are estimated.
fn request(slot: u32, tokens: u32) -> RequestView {
    RequestView { tokens_in: tokens, ..RequestView::new(Ticket::of(slot, 0)) }
}

/// Whether it comes in, and if not why.
fn arrive(governor: &mut Governor, now: u64, request: &RequestView) -> Result<(), Reason> {
    match governor.arrived(Moment(now), request, &Signals::default()) {
        Arrival::Admit => Ok(()),
        Arrival::Reject { why, .. } => Err(why),
        answer => panic!("{answer:?}"),
    }
}

fn answered(governor: &mut Governor, now: u64, slot: u32, tokens: u32) {
    governor.left(Moment(now), Ticket::of(slot, 0), &End::answered(S, Some(tokens)));
}

#[test]
fn t1_the_window_slides_by_its_sub_windows() {
    let mut governor = governor("[admission.app]\nkind = 'token_window'\nquota = 1000\n");
    // 100 tokens in each of six sub-windows of 10 s, and 400 left.
    for n in 0..6 {
        assert_eq!(arrive(&mut governor, u64::from(n) * 10 * S + 5 * S, &request(n, 100)), Ok(()));
    }
    let spent = Err(Reason::TokenWindowSpent);
    assert_eq!(arrive(&mut governor, 59 * S, &request(10, 401)), spent);
    assert_eq!(arrive(&mut governor, 59 * S, &request(10, 400)), Ok(()));
    assert_eq!(arrive(&mut governor, 59 * S, &request(11, 1)), spent);
    let words = governor.explain(Reason::TokenWindowSpent).expect("it was decided so").to_string();
    assert!(words.contains("admission.app") && words.contains("estimate: 1001; quota: 1000"), "{words}");
    // At 60 s the first sub-window has left.
    assert_eq!(arrive(&mut governor, 60 * S, &request(11, 101)), spent);
    assert_eq!(arrive(&mut governor, 60 * S, &request(11, 100)), Ok(()));
    assert_eq!(arrive(&mut governor, 60 * S, &request(12, 1001)), Err(Reason::TokenWindowTooLarge));
}

#[test]
fn t2_two_layers_are_counted_and_triggered_apart() {
    let file = "[admission.app]\nkind = 'token_window'\nquota = 1000\n\
                [admission.user]\nkind = 'token_window'\nkey = 'user'\nquota = 300\n";
    let mut governor = governor(file);
    let mut ask = |slot, user, tokens| {
        let answer = arrive(&mut governor, S, &RequestView { user, ..request(slot, tokens) });
        answer.map_err(|why| governor.explain(why).expect("it was decided so").module)
    };
    let refused_by = |module: &str| Err(format!("admission.{module}"));
    assert_eq!(ask(0, 1, 300), Ok(()));
    // The user's layer turns it away, however often: the application's gets its reservation back.
    for _ in 0..10 {
        assert_eq!(ask(1, 1, 200), refused_by("user"));
    }
    assert_eq!([ask(1, 2, 300), ask(2, 3, 300)], [Ok(()), Ok(())]);
    // 900 of the application's tokens are used, none of the fourth user's.
    assert_eq!(ask(3, 4, 101), refused_by("app"));
    assert_eq!(ask(3, 4, 100), Ok(()));
    assert_eq!(ask(4, 5, 1), refused_by("app"));
}

#[test]
fn g3_a_users_frequency() {
    let mut governor = governor("[admission.user]\nkind = 'user_frequency'\nlimit = 10\n");
    let mut ask = |now, user| arrive(&mut governor, now, &RequestView { user, ..request(0, 0) });
    let spent = Err(Reason::UserFrequencySpent);
    let answers: Vec<_> = (0..15).map(|n| ask(n * S, 1)).collect();
    assert_eq!(answers, [vec![Ok(()); 10], vec![spent; 5]].concat());
    assert_eq!(ask(15 * S, 2), Ok(()));
    assert_eq!([ask(MINUTE - 1, 1), ask(MINUTE, 1), ask(MINUTE, 1)], [spent, Ok(()), spent]);
}

/// How many of a class come in during the second from `from`, after the burst was taken out.
fn per_s(governor: &mut Governor, from: u64, class: u8) -> u32 {
    let view = RequestView { class, ..request(0, 0) };
    while arrive(governor, from, &view).is_ok() {}
    (1..=10_000).map(|n| u32::from(arrive(governor, from + n * MS / 10, &view).is_ok())).sum()
}

#[test]
fn h1_to_h3_priority_buckets() {
    let file = "[admission.classes]\nkind = 'priority_buckets'\n";
    // H2: alone, each class has a fifth less than (H1) its share of 500 per s.
    for (class, share) in [(0, 750), (1, 600), (2, 500), (3, 400), (4, 250)] {
        assert_eq!(per_s(&mut governor(file), 0, class), share * 4 / 5);
        assert_eq!(per_s(&mut governor(&format!("{file}decay = 0\n")), 0, class), share);
    }
    // H3: +300 % is asked for, +200 % comes, and the rest after the cooldown.
    let mut governor = governor(&format!("{file}decay = 0\n"));
    governor.set(Moment(S), "admission.classes.rate_per_s", 2000.0).expect("within its range");
    assert_eq!(per_s(&mut governor, S, 2), 1500);
    assert_eq!(per_s(&mut governor, 29 * S, 2), 1500);
    assert_eq!(per_s(&mut governor, 31 * S, 2), 2000);
}

#[test]
fn n01_and_n24_reservation_on_entry() {
    let file = "[admission.quota]\nkind = 'token_window'\nquota = 100\n";
    let come_in = |file: &str, tokens: &[u32]| {
        let mut governor = governor(file);
        let mut passed = Vec::new();
        for (slot, &tokens) in (0..).zip(tokens) {
            if arrive(&mut governor, 0, &request(slot, tokens)).is_ok() {
                passed.push((slot, tokens));
            }
        }
        for &(slot, tokens) in &passed {
            answered(&mut governor, S, slot, tokens);
        }
        (passed.len(), passed.iter().map(|&(_, tokens)| tokens).sum::<u32>())
    };
    let wrong = format!("{file}charge = 'on_end'\n");
    let crowd = [58, 80, 175, 175, 175];
    assert_eq!((come_in(&wrong, &crowd), come_in(file, &crowd)), ((5, 663), (1, 58)));
    assert_eq!((come_in(&wrong, &[200; 100]), come_in(file, &[200; 100])), ((100, 20_000), (0, 0)));
}

#[test]
fn n03_a_shared_window_flag_carries_tokens_over() {
    let file = "[admission.key]\nkind = 'token_window'\nkey = 'tenant'\nquota = 500000\nrequests = 500\n";
    // One request of 1000 tokens every 300 ms is 200 000 tokens a minute, far within both limits.
    let first_refused_s = |file: &str| {
        let mut governor = governor(file);
        (0..3000_u64).find_map(|n| {
            let now = n * 300 * MS;
            let refused = arrive(&mut governor, now, &request(0, 1000)).is_err();
            answered(&mut governor, now, 0, 1000);
            refused.then_some(now / S)
        })
    };
    assert_eq!(first_refused_s(&format!("{file}shared_window = true\n")), Some(150));
    assert_eq!(first_refused_s(file), None);
}

#[test]
fn n22_pacing_holds_calls_until_their_turn() {
    let starts = |resolution: &str| {
        let mut governor = governor(&format!(
            "[admission.pace]\nkind = 'paced'\nplace = 'llm_call'\nrate_per_s = 1600\n\
             wait_at_most_s = 60\nresolution = '{resolution}'\n\
             [admission.gate]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 1601\n"
        ));
        let signals = Signals::default();
        let mut starts = Vec::new();
        for slot in 0..1601 {
            arrive(&mut governor, 0, &request(slot, 0)).expect("nothing stands at the front");
            let ticket = Ticket::of(slot, 0);
            let site = Site::LlmCall;
            let call = CallView { ticket, site, endpoint: 0, class: 2, tenant: 0, level: Level::L1, size: 1 };
            starts.push(match governor.call(Moment(0), &call, &signals) {
                Call::Proceed => 0,
                Call::Wait { at_most_ns } => {
                    let early = governor.waited(Moment(at_most_ns - 1), ticket, site);
                    assert_eq!(early, Call::Wait { at_most_ns: 1 });
                    assert_eq!(governor.waited(Moment(at_most_ns), ticket, site), Call::Proceed);
                    at_most_ns
                }
                answer => panic!("{answer:?}"),
            });
        }
        assert_eq!(governor.permits_out("gate", 0), Some(1601));
        starts
    };
    // 1600 intervals take 1 s, exactly; rounded to whole milliseconds, 1.6 s.
    let exact = starts("nanosecond");
    assert_eq!((exact[0], exact[1], exact[1600]), (0, 625_000, S));
    assert_eq!(starts("millisecond")[1600], 1600 * MS);
}

#[test]
fn a_call_that_leaves_before_its_turn_leaves_nothing_behind() {
    let mut governor = governor(
        "[admission.pace]\nkind = 'paced'\nplace = 'llm_call'\nrate_per_s = 10\nwait_at_most_s = 1\n\
         [admission.gate]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 1\nwait_at_most_s = 1\n",
    );
    let signals = Signals::default();
    let site = Site::LlmCall;
    let call = |slot| CallView {
        ticket: Ticket::of(slot, 0),
        site,
        endpoint: 0,
        class: 2,
        tenant: 0,
        level: Level::L1,
        size: 1,
    };
    for slot in 0..3 {
        arrive(&mut governor, 0, &request(slot, 0)).expect("nothing stands at the front");
    }
    assert_eq!(governor.call(Moment(0), &call(0), &signals), Call::Proceed);
    assert_eq!(governor.call(Moment(0), &call(1), &signals), Call::Wait { at_most_ns: 100 * MS });
    assert_eq!(governor.call(Moment(0), &call(2), &signals), Call::Wait { at_most_ns: 200 * MS });
    governor.left(Moment(50 * MS), Ticket::of(1, 0), &End { outcome: Outcome::Gone, ..End::GONE });
    // Its turn has come, but the gate is full: it waits there, and has the permit when it comes back.
    let at_the_gate = governor.waited(Moment(200 * MS), Ticket::of(2, 0), site);
    assert_eq!(at_the_gate, Call::Wait { at_most_ns: S });
    governor.left(Moment(300 * MS), Ticket::of(0, 0), &End::GONE);
    assert_eq!(governor.woken(), Some((Ticket::of(2, 0), site)));
    governor.left(Moment(400 * MS), Ticket::of(2, 0), &End::GONE);
    assert_eq!((governor.permits_out("gate", 0), governor.woken()), (Some(0), None));
}

#[test]
fn the_token_balance_is_that_of_the_emptiest_bucket_at_the_front() {
    let signals = Signals::default();
    assert_eq!(governor("").token_balance(Moment(0), &signals), None);
    let mut governor = governor(
        "[admission.bucket]\nkind = 'token_bucket'\nrate_per_s = 1\nburst = 10\n\
         [admission.weight]\nkind = 'weighted_bucket'\nbase_rate_per_s = 1\n\
         [admission.calls]\nkind = 'token_bucket'\nplace = 'llm_call'\nrate_per_s = 0\nburst = 1\n",
    );
    assert_eq!(governor.token_balance(Moment(0), &signals), Some(1.0));
    // Half a token of one in the second bucket, one of ten in the first.
    assert_eq!(arrive(&mut governor, 0, &request(0, 0)), Ok(()));
    assert_eq!(governor.token_balance(Moment(0), &signals), Some(0.5));
    let before = serde_json::to_string(&governor).expect("a governor is plain data");
    assert_eq!(governor.token_balance(Moment(S / 4), &signals), Some(0.75));
    assert_eq!(governor.token_balance(Moment(S / 2), &signals), Some(0.95));
    assert_eq!(serde_json::to_string(&governor).expect("a governor is plain data"), before);
    // The second takes the other half.
    assert_eq!(arrive(&mut governor, 0, &request(1, 0)), Ok(()));
    assert_eq!(governor.token_balance(Moment(0), &signals), Some(0.0));
}
