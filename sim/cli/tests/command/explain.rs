//! `forebay explain`: requests that were traced, listed and told.

use crate::workplace::Workplace;

#[test]
fn traced_requests_are_listed_and_told() {
    let place = Workplace::new();
    let crowded = ["run", "small.toml", "--set", "workload.sources.all.rate_per_s=12"];
    let limited = [&crowded[..], &["--set", "stages.desk.max_queue=3", "--format", "json"]].concat();
    let plain = place.forebay(&limited).with(0).json();
    let traced = [&limited[..], &["--trace-requests", "20", "--out", "peak"]].concat();
    // What is traced changes nothing else.
    assert_eq!(place.forebay(&traced).with(0).json()["digest"], plain["digest"]);
    assert!(place.names("peak").contains(&"spans.json".to_owned()));
    let list = place.forebay(&["explain", "peak"]).with(0).out;
    assert!(list.contains("20 of ") && list.contains("answered at L1"), "{list}");
    assert!(list.contains("rejected (stage.desk.full)"), "{list}");
    let listed = place.forebay(&["explain", "peak", "--format", "json"]).with(0).json();
    let requests = listed["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 20);
    for listed in requests {
        let id = listed["request"].to_string();
        let one = ["explain", "peak", "--request", &id];
        let told = place.forebay(&one).with(0).out;
        for expected in [&format!("request {id}, asked at")[..], "attempt 1", "on arrival: served at L1"] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        assert!(told.contains(listed["outcome"].as_str().unwrap()), "{told}");
        let json = place.forebay(&[&one[..], &["--format", "json"]].concat()).with(0).json();
        assert_eq!(json["request"]["request"], listed["request"]);
        assert_eq!(json["story"][0], told.lines().nth(1).unwrap());
    }
    let none = place.forebay(&["explain", "peak", "--request", "1"]).with(2);
    assert!(none.err.contains("not among the 20 that were traced") && none.out.is_empty(), "{none:?}");
    assert!(none.err.contains("nearest are 0, "), "{none:?}");
    place.write("peak/spans.json", "no spans");
    assert!(place.forebay(&["explain", "peak"]).with(2).err.contains("cannot be read"));
    // A folder with spans is one of ours, and can be replaced.
    place.forebay(&[&crowded[..], &["--out", "peak", "--force"]].concat()).with(0);
    assert!(!place.names("peak").contains(&"spans.json".to_owned()));
    assert!(place.forebay(&["explain", "peak"]).with(2).err.contains("holds no spans.json"));
}
