//! The resolved document says all and reads back equal.

use indexmap::IndexMap;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::example::{GOOD, read_text, shown};
use crate::document::{Source, read};

#[test]
fn defaults_are_written_out() {
    let document = read_text(GOOD).unwrap();
    let text = document.resolved_toml();
    assert_eq!(
        text,
        r#"name = "shop"
seed = 18446744073709551615
sources = [
  { rate_per_s = 4.0, gaps = "poisson", profile = [[0.0, 1.0], [3600.0, 2.5]] },
  { rate_per_s = 0.5, gaps = "even", profile = [] },
]

[stages.llm]
kind = "llm"
replicas = 3
service_s = { kind = "mixture", parts = [0.2, { kind = "exponential", mean = 1.0 }] }

[stages."rerank v2"]
kind = "reranker"
max_docs = 64
max_wait_ms = 10.0

[stages.rules]
kind = "rules"

[policy]
shadow = false

[policy.fallback]
l2 = { vram_above = 0.8, dwell_s = 5.0 }

[policy.queue]
fifo = { most = 100 }

[labels]
team = "support, \"night\"\n"
"#
    );
    let again = read_text(&text).unwrap();
    assert_eq!(again.value, document.value);
    assert_eq!(again.resolved_toml(), text);
}

/// Maps whose short and long entries alternate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Nest {
    #[serde(default)]
    inner: IndexMap<String, Leaf>,
    #[serde(default)]
    list: Vec<IndexMap<String, Leaf>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Leaf {
    Switch(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    Many(Vec<Leaf>),
    Table(IndexMap<String, Leaf>),
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let scalar = prop_oneof![
        any::<bool>().prop_map(Leaf::Switch),
        any::<i64>().prop_map(Leaf::Whole),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Leaf::Number),
        any::<String>().prop_map(Leaf::Text),
        "[a-z]{0,120}".prop_map(Leaf::Text),
    ];
    scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Leaf::Many),
            entries(inner).prop_map(Leaf::Table),
        ]
    })
}

fn entries(leaf: impl Strategy<Value = Leaf>) -> impl Strategy<Value = IndexMap<String, Leaf>> {
    let key = prop_oneof!["[a-z]{1,4}", any::<String>()];
    prop::collection::vec((key, leaf), 0..5).prop_map(|pairs| pairs.into_iter().collect())
}

/// Keys in order at every depth, which equality of maps does not look at.
fn order(entries: &IndexMap<String, Leaf>) -> String {
    format!("{entries:?}")
}

proptest! {
    #[test]
    fn any_document_reads_back_equal_and_in_order(
        inner in entries(leaf()),
        list in prop::collection::vec(entries(leaf()), 0..4),
    ) {
        let nest = Nest { inner, list };
        let json = serde_json::to_value(&nest).unwrap();
        let schema = crate::document::schema::<Nest>();
        let tree = crate::document::tree::Node::from_json(&json, crate::document::Place::START).unwrap();
        let text = crate::document::resolved::write(&crate::document::Shape::root(&schema), &tree);
        let again = read::<Nest>(&Source::new("nest.toml", text.as_str()), &[]);
        prop_assert!(again.is_ok(), "{text}\n{:?}", shown(again));
        let again = again.unwrap();
        prop_assert_eq!(&again.value, &nest);
        prop_assert_eq!(order(&again.value.inner), order(&nest.inner));
        let orders = |list: &[IndexMap<String, Leaf>]| list.iter().map(order).collect::<Vec<_>>();
        prop_assert_eq!(orders(&again.value.list), orders(&nest.list));
        prop_assert_eq!(again.resolved_toml(), text);
    }
}
