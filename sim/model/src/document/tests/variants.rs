//! Variants: chosen, applied, checked all, and gone from what is resolved.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::example::shown;
use crate::document::{Document, ParameterKind, Problem, Setting, Source, read};

/// A scenario with variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Shop {
    #[serde(default)]
    title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    variant: String,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    variants: IndexMap<String, Changes>,
    run: Run,
    #[serde(default)]
    policy: Policy,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Changes {
    #[serde(default)]
    title: String,
    #[serde(default)]
    without: Vec<String>,
    #[serde(default)]
    set: IndexMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    #[schemars(range(min = 1, max = 1000))]
    duration_s: u32,
    #[serde(default)]
    seed: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Policy {
    admission: IndexMap<String, Gate>,
    dwell_s: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Gate {
    Fixed {
        #[schemars(range(min = 1, max = 100))]
        limit: u32,
    },
    Shed {
        share: f64,
    },
}

const TEXT: &str = r#"title = "A shop"

[run]
duration_s = 10
seed = 3

[policy.admission.entry]
kind = "fixed"
limit = 5

[variants.wrong]
title = "twice as many"
set = { "policy.admission.entry.limit" = 10, run.seed = 4 }

[variants.open]
without = ["policy.admission.entry"]

[variants.shed.set]
dwell_s = 7
policy.admission.entry = { kind = "shed", share = 0.5 }

[variants.right]
title = "as it should be"
"#;

fn read_text(text: &str, settings: &[&str]) -> Result<Document<Shop>, Vec<Problem>> {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::parse(text).unwrap()).collect();
    read(&Source::new("shop.toml", text), &settings)
}

fn shop(settings: &[&str]) -> Shop {
    let document = read_text(TEXT, settings).unwrap();
    let again = read_text(&document.resolved_toml(), &[]).unwrap();
    assert_eq!(again.value, document.value);
    assert_eq!(again.resolved_toml(), document.resolved_toml());
    document.value
}

fn limit(shop: &Shop) -> Option<u32> {
    match shop.policy.admission.get("entry")? {
        Gate::Fixed { limit } => Some(*limit),
        Gate::Shed { .. } => None,
    }
}

#[test]
fn a_variant_changes_what_it_says_and_nothing_else() {
    let right = shop(&[]);
    assert_eq!((limit(&right), right.run.seed, right.title.as_str()), (Some(5), 3, "A shop"));
    assert_eq!((right.variant.as_str(), right.variants.len()), ("", 0));
    for name in ["variant=right", "variant="] {
        let same = if name.ends_with('=') { shop(&["variant=''"]) } else { shop(&[name]) };
        assert_eq!(same, right, "{name}");
    }
    let wrong = shop(&["variant=wrong"]);
    assert_eq!((limit(&wrong), wrong.run.seed, wrong.run.duration_s), (Some(10), 4, 10));
    assert_eq!(wrong.title, "A shop; variant wrong: twice as many");
    let open = shop(&["variant=open"]);
    assert_eq!((open.policy.admission.len(), open.title.as_str()), (0, "A shop; variant open"));
    let shed = shop(&["variant=shed"]);
    assert_eq!(shed.policy.admission["entry"], Gate::Shed { share: 0.5 });
    assert_eq!((shed.policy.dwell_s, shed.run.seed), (7, 3));
}

#[test]
fn the_file_chooses_and_the_user_chooses_over_it() {
    let text = format!("variant = \"wrong\"\n{TEXT}");
    let chosen = |settings: &[&str]| read_text(&text, settings).unwrap().variants().chosen.clone();
    assert_eq!(chosen(&[]).as_deref(), Some("wrong"));
    assert_eq!(chosen(&["variant=open"]).as_deref(), Some("open"));
    assert_eq!(chosen(&["variant=right"]), None);
}

#[test]
fn settings_of_the_user_win_over_those_of_the_variant() {
    for order in [["variant=wrong", "run.seed=9"], ["run.seed=9", "variant=wrong"]] {
        let shop = shop(&order);
        assert_eq!((limit(&shop), shop.run.seed), (Some(10), 9));
    }
    // A setting may change the variant itself, and one that is added later still wins.
    let document = read_text(TEXT, &["variants.wrong.set={ 'run.seed' = 6 }", "variant=wrong"]).unwrap();
    assert_eq!((limit(&document.value), document.value.run.seed), (Some(5), 6));
    let later = document.with(&[Setting::new("variant", "open"), Setting::new("run.seed", "8")]).unwrap();
    assert_eq!((later.value.policy.admission.len(), later.value.run.seed), (0, 8));
}

#[test]
fn an_unknown_variant_is_refused_with_those_there_are() {
    assert_eq!(
        shown(read_text(TEXT, &["variant=wrogn"])),
        ["--set:1:9: variant: found \"wrogn\", allowed: the name of a variant of this scenario: \
          \"right\", \"wrong\", \"open\" or \"shed\"\n  did you mean `wrong`?"]
    );
    let none = "[run]\nduration_s = 1\n";
    assert_eq!(
        shown(read_text(&format!("variant = \"right\"\n{none}"), &[])),
        ["shop.toml:1:11: variant: found \"right\", allowed: no choice: this scenario has no variants",]
    );
    assert_eq!(shown(read_text(none, &["variant=''"])), Vec::<String>::new());
}

/// The problems of the text with one part replaced, whatever variant is chosen but the one that is broken.
fn after(old: &str, new: &str) -> Vec<String> {
    assert!(TEXT.contains(old), "{old}");
    let text = TEXT.replacen(old, new, 1);
    let found = shown(read_text(&text, &[]));
    assert_eq!(shown(read_text(&text, &["dwell_s=1", "variant=right"])), found);
    found
}

#[test]
fn a_broken_variant_is_found_though_nobody_chose_it() {
    assert_eq!(
        after("entry.limit\" = 10", "entry.limit\" = 1000"),
        [
            "shop.toml:13:42: policy.admission.entry.limit: found 1000, allowed: a whole number from 1 to 100\n  \
          this is so in the variant wrong"
        ]
    );
    assert_eq!(
        after("\"policy.admission.entry.limit\" = 10", "\"policy.admission.entry.limti\" = 10"),
        ["shop.toml:13:9: policy.admission.entry.limti: found the unknown key limti, \
          allowed: the keys kind or limit\n  did you mean `policy.admission.entry.limit`?\n  \
          this is so in the variant wrong"]
    );
    assert_eq!(
        after("run.seed = 4", "rnu.seed = 4"),
        ["shop.toml:13:46: rnu.seed: found a path that neither the scenario nor its policy has, \
          allowed: the path of a parameter (`forebay params` lists them)\n  did you mean `run.seed`?\n  \
          this is so in the variant wrong"]
    );
    assert_eq!(
        after("[\"policy.admission.entry\"]", "[\"policy.admission.entyr\"]"),
        ["shop.toml:16:30: policy.admission.entyr: found nothing that could be taken out, \
          allowed: an entry that is written there: the key entry\n  did you mean `policy.admission.entry`?\n  \
          this is so in the variant open"]
    );
    assert_eq!(
        after("share = 0.5", "shares = 0.5"),
        [
            "shop.toml:20:26: policy.admission.entry.share: found nothing, \
             allowed: a finite number (this key is required)\n  this is so in the variant shed",
            "shop.toml:20:43: policy.admission.entry.shares: found the unknown key shares, \
             allowed: the keys kind or share\n  did you mean `share`?\n  this is so in the variant shed",
        ]
    );
}

#[test]
fn what_a_variant_may_not_say() {
    assert_eq!(
        after("run.seed = 4", "\"variants.open.title\" = \"x\""),
        ["shop.toml:13:46: variants.open.title: found a variant that changes variants, \
             allowed: any other path of the scenario\n  this is so in the variant wrong"]
    );
    assert_eq!(
        after("title = \"as it should be\"", "set = { run.seed = 1 }"),
        ["shop.toml:23:1: variants.right.set: found changes to the scenario as it is written, \
             allowed: a title only: this is the name of the scenario as it is written"]
    );
    assert_eq!(
        after("[variants.open]", "[variants.\"\"]"),
        ["shop.toml:15:11: variants: found \"\", \
             allowed: a name of 1 to 200 bytes without control characters"]
    );
    assert_eq!(
        after("without = [", "witout = ["),
        ["shop.toml:16:1: variants.open.witout: found the unknown key witout, \
             allowed: the keys title, without or set\n  did you mean `without`?"]
    );
}

#[test]
fn a_text_that_is_right_only_with_the_users_settings_is_read() {
    let text = TEXT.replace("duration_s = 10", "duration_s = 0");
    assert!(read_text(&text, &[]).is_err());
    let document = read_text(&text, &["run.duration_s=5", "variant=wrong"]).unwrap();
    assert!(document.others().is_empty());
    // What the user sets of one variant need not be there in the others.
    assert!(read_text(TEXT, &["policy.admission.entry.limit=9"]).is_ok());
    assert!(read_text(TEXT, &["policy.admission.entry.limit=9", "variant=open"]).is_err());
}

#[test]
fn quotes_around_the_choice_change_nothing() {
    let plain = read_text(TEXT, &["variant=wrong"]).unwrap();
    for quoted in ["\"variant\"=wrong", "'variant'=wrong", " variant =wrong"] {
        let document = read_text(TEXT, &[quoted]).unwrap();
        assert_eq!((document.variants(), &document.value), (plain.variants(), &plain.value), "{quoted}");
    }
    assert!(read_text(TEXT, &["\"variants\".open.title=another"]).is_ok());
}

#[test]
fn the_choice_is_a_parameter() {
    let document = read_text(TEXT, &["variant=wrong"]).unwrap();
    let names: Vec<Option<String>> =
        document.others().iter().map(|other| other.variants().chosen.clone()).collect();
    assert_eq!(names, [None, Some("open".to_owned()), Some("shed".to_owned())]);
    let parameter = document.parameters().remove(0);
    assert_eq!((parameter.path.as_str(), parameter.value), ("variant", Some(Value::from("wrong"))));
    let names = ["right", "wrong", "open", "shed"].map(str::to_owned).to_vec();
    assert_eq!(parameter.kind, ParameterKind::Choice(names));
    assert_eq!(
        parameter.description,
        "Which variant of the scenario is in force. \
         right: as it should be; wrong: twice as many; open; shed."
    );
    let none = read_text("[run]\nduration_s = 1\n", &[]).unwrap();
    assert_eq!(none.parameters()[0].path, "run.duration_s");
}

#[test]
fn an_entry_is_taken_out_by_a_setting() {
    let without = |path: &str| read::<Shop>(&Source::new("shop.toml", TEXT), &[Setting::without(path)]);
    assert_eq!(without("admission.entry").unwrap().value.policy.admission.len(), 0);
    assert_eq!(without("policy").unwrap().value.policy, Policy::default());
    assert_eq!(
        shown(without("run.duration_s")),
        ["shop.toml:3:1: run.duration_s: found nothing, \
             allowed: a whole number from 1 to 1000 (this key is required)"]
    );
    assert_eq!(
        shown(without("policy.dwell_s")),
        ["--set:1:8: policy.dwell_s: found nothing that could be taken out, \
             allowed: an entry that is written there: the key admission"]
    );
}
