//! Settings and the list of parameters.

use serde_json::json;

use super::example::{Example, GOOD, read_text, read_with, shown};
use crate::document::{
    ParameterKind, SETTING_FILE, Setting, full_path, get_number, nearest_parameter, parameters, schema,
};

#[test]
fn settings_change_values() {
    let document = read_with(&[
        "stages.llm.replicas=7",
        "fallback.l2.vram_above = 0.95",
        "name=black-friday",
        "sources.1.gaps=poisson",
        "stages.llm.service_s={ kind = \"uniform\", low = 1, high = 2 }",
        "stages.\"rerank v2\".max_docs=8",
        "stages.spare={ kind = \"rules\" }",
        "policy.shadow=true",
        "stages.llm.replicas=8",
    ])
    .unwrap();
    let json = document.json();
    assert_eq!(get_number(json, "stages.llm.replicas"), Some(8.0));
    assert_eq!(get_number(json, "policy.fallback.l2.vram_above"), Some(0.95));
    assert_eq!(get_number(json, "stages.llm.service_s.high"), Some(2.0));
    assert_eq!(json["sources"][1]["gaps"], "poisson");
    assert_eq!(json["stages"]["spare"]["kind"], "rules");
    assert_eq!(document.value.name, "black-friday");
    assert!(document.value.policy.shadow);
    let later = document.with(&[Setting::new("name", "later")]).unwrap();
    assert_eq!((later.value.name.as_str(), later.value.stages.len()), ("later", 4));
}

#[test]
fn tables_left_out_start_from_their_default() {
    let text = "name = 'x'\nsources = [{ rate_per_s = 1 }]";
    let document = read_text(text).unwrap();
    let changed = document.with(&[Setting::new("fallback.l2.dwell_s", "1")]).unwrap();
    // The policy's own default, not that of the level.
    assert_eq!(changed.value.policy.fallback.l2.vram_above, 0.85);
    assert_eq!(changed.value.policy.fallback.l2.dwell_s, 1.0);
    let problem = changed.problem("policy.fallback.l2.dwell_s", "1", "more", None);
    assert_eq!((problem.file.as_str(), problem.column), (SETTING_FILE, 21));
}

#[test]
fn wrong_values_name_the_setting() {
    assert_eq!(
        shown(read_with(&["fallback.l2.vram_above=9"])),
        ["--set:1:24: policy.fallback.l2.vram_above: found 9, allowed: a finite number from 0 to 1"]
    );
    assert_eq!(
        shown(read_with(&["stages.llm.replicas=10s"])),
        ["--set:1:21: stages.llm.replicas: found \"10s\", allowed: a whole number from 1 to 100000"]
    );
    assert_eq!(
        shown(read_with(&["stages.llm.service_s={ kind = 'uniform', low = 1, high = nan }"])),
        ["--set:1:58: stages.llm.service_s.high: found nan, allowed: a finite number"]
    );
    assert_eq!(
        shown(read_with(&["stages.llm.replicas="])),
        ["--set:1:21: stages.llm.replicas: found nothing, allowed: a value after `=`"]
    );
    assert_eq!(
        shown(read_with(&["sources=[1, 2"])),
        ["--set:1:14: sources: found a syntax error, unclosed array, allowed: `]`"]
    );
    assert_eq!(
        shown(Setting::parse("stages.llm.replicas")),
        ["--set:1:20: found \"stages.llm.replicas\" without `=`, allowed: path=value"]
    );
}

#[test]
fn unknown_paths_suggest_the_nearest() {
    assert_eq!(
        shown(read_with(&["fallback.l2.vram_abov=0.5"])),
        ["--set:1:13: policy.fallback.l2.vram_abov: found the unknown key vram_abov, \
          allowed: the keys vram_above or dwell_s\n  did you mean `policy.fallback.l2.vram_above`?"]
    );
    assert_eq!(
        shown(read_with(&["stages.lmm.replicas=2"])),
        [
            "--set:1:8: stages.lmm: found the unknown key lmm, allowed: the keys llm, \"rerank v2\" or rules\n  \
          did you mean `stages.llm.replicas`?"
        ]
    );
    let unknown = "found a path that neither the scenario nor its policy has, \
                   allowed: the path of a parameter (`forebay params` lists them)";
    assert_eq!(
        shown(read_with(&["vram_above=0.5", "falback.l2.dwell_s=1", "colour=red"])),
        [
            format!("--set:1:1: vram_above: {unknown}\n  did you mean `policy.fallback.l2.vram_above`?"),
            format!("--set:1:1: falback.l2.dwell_s: {unknown}\n  did you mean `fallback.l2.dwell_s`?"),
            format!("--set:1:1: colour: {unknown}"),
        ]
    );
    assert_eq!(
        shown(read_with(&["sources.2.rate_per_s=1"])),
        ["--set:1:9: sources.2: found the index 2, allowed: an index from 0 to 1\n  \
          did you mean `sources.0.rate_per_s`?"]
    );
    assert_eq!(
        shown(read_with(&["sources.0.rate_per_s.x=1"])),
        ["--set:1:22: sources.0.rate_per_s.x: found the key x below 4, allowed: keys below a table only\n  \
          did you mean `sources.0.rate_per_s`?"]
    );
    assert_eq!(
        shown(read_with(&["stages..x=1"])),
        [
            "--set:1:8: stages..x: found an empty part of a path, allowed: a dotted path, such as stages.llm.replicas"
        ]
    );
}

#[test]
fn parameters_are_those_of_the_scenario() {
    let document = read_text(GOOD).unwrap();
    let list = document.parameters();
    let paths: Vec<&str> = list.iter().map(|parameter| parameter.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "seed",
            "sources.0.rate_per_s",
            "sources.0.gaps",
            "sources.0.profile.0.0",
            "sources.0.profile.0.1",
            "sources.0.profile.1.0",
            "sources.0.profile.1.1",
            "sources.1.rate_per_s",
            "sources.1.gaps",
            "stages.llm.replicas",
            "stages.llm.service_s.parts.0",
            "stages.llm.service_s.parts.1.mean",
            "stages.llm.memory_gb",
            "stages.\"rerank v2\".max_docs",
            "stages.\"rerank v2\".max_wait_ms",
            "policy.fallback.l2.vram_above",
            "policy.fallback.l2.dwell_s",
            "policy.shadow",
            "policy.queue.fifo.most",
            "policy.limit",
        ]
    );
    let get = |path: &str| list.iter().find(|parameter| parameter.path == path).unwrap();
    assert_eq!(
        serde_json::to_value(get("policy.fallback.l2.vram_above")).unwrap(),
        json!({
            "path": "policy.fallback.l2.vram_above", "unit": null, "kind": "number",
            "minimum": 0.0, "minimum_open": false, "maximum": 1.0, "maximum_open": false,
            "default": 0.9, "value": 0.8, "description": "Memory in use above which the level is taken."
        })
    );
    let memory = get("stages.llm.memory_gb");
    assert_eq!(memory.description, "Memory of one engine, of which most is weights.");
    assert_eq!((memory.unit.as_deref(), memory.minimum_open, &memory.value), (Some("GB"), true, &None));
    assert_eq!(get("stages.\"rerank v2\".max_wait_ms").default, Some(json!(10.0)));
    // The mean of a distribution is in the unit of the field that holds it.
    let service = read_with(&["stages.llm.service_s={ kind = 'exponential', mean = 1 }"]).unwrap();
    let mean = service.parameters().into_iter().find(|p| p.path == "stages.llm.service_s.mean").unwrap();
    assert_eq!(mean.unit.as_deref(), Some("s"));
    let gaps = ParameterKind::Choice(vec!["poisson".to_owned(), "even".to_owned()]);
    assert_eq!(get("sources.0.gaps").kind, gaps);
    assert_eq!(get("sources.0.gaps").description, "Gaps between arrivals.");
    assert_eq!(get("policy.limit").kind, ParameterKind::Whole);
    assert_eq!(nearest_parameter("vram_above", &list), Some("policy.fallback.l2.vram_above"));
    assert_eq!(full_path(document.json(), "fallback.l2"), Some("policy.fallback.l2".to_owned()));
}

#[test]
fn every_number_listed_can_be_set() {
    let document = read_text(GOOD).unwrap();
    for parameter in document.parameters() {
        if let Some(value) = &parameter.value {
            let changed = document.with(&[Setting::new(&parameter.path, value.to_string())]).unwrap();
            assert_eq!(changed.value, document.value, "{}", parameter.path);
        }
    }
}

#[test]
fn parameters_without_a_complete_value_show_defaults() {
    let list = parameters(&schema::<Example>(), &json!({}));
    let vram = list.iter().find(|parameter| parameter.path == "policy.fallback.l2.vram_above").unwrap();
    assert_eq!((vram.value.clone(), vram.default.clone()), (Some(json!(0.85)), Some(json!(0.9))));
}
