//! Call graphs: an endpoint's path at a level, with the endpoints it calls put in place.

use super::check::nearest;
use super::{Endpoint, Scenario};
use crate::ids::StageId;
use forebay_policies::Level;

/// Why a path cannot be followed.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) found: String,
    pub(crate) allowed: String,
    pub(crate) hint: Option<String>,
}

impl Endpoint {
    /// The paths that the scenario writes, with the name of their level.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&'static str, &Vec<String>)> {
        [("l1", Some(&self.l1)), ("l2", self.l2.as_ref()), ("l3", self.l3.as_ref()), ("l4", self.l4.as_ref())]
            .into_iter()
            .filter_map(|(level, path)| path.map(|path| (level, path)))
    }

    /// The path at a level: its own, or that of the next better level that has one.
    pub(crate) fn path(&self, level: &str) -> &Vec<String> {
        let (l2, l3, l4) = (self.l2.as_ref(), self.l3.as_ref(), self.l4.as_ref());
        match level {
            "l4" => l4.or(l3).or(l2),
            "l3" => l3.or(l2),
            "l2" => l2,
            _ => None,
        }
        .unwrap_or(&self.l1)
    }
}

impl Scenario {
    /// Indices of the stages that an attempt at an endpoint passes at a level, in order; none for a name
    /// that the scenario does not have. A scenario that was read has no path that cannot be followed.
    pub fn stages_at(&self, endpoint: &str, level: Level) -> Vec<usize> {
        let Some(found) = self.endpoints.get(endpoint) else { return Vec::new() };
        let level = level.name();
        let stages = self.expand(endpoint, level, found.path(level)).unwrap_or_default();
        stages.into_iter().map(StageId::index).collect()
    }

    /// The stages of a path. A name is a stage's, or an endpoint's, whose path at the same level takes
    /// its place.
    pub(crate) fn expand(&self, endpoint: &str, level: &str, path: &[String]) -> Result<Vec<StageId>, Wrong> {
        let mut stages = Vec::new();
        self.follow(level, path, &mut vec![endpoint.to_owned()], &mut stages)?;
        Ok(stages)
    }

    fn follow(
        &self,
        level: &str,
        path: &[String],
        callers: &mut Vec<String>,
        stages: &mut Vec<StageId>,
    ) -> Result<(), Wrong> {
        for name in path {
            if let Some(index) = self.stages.get_index_of(name) {
                stages.push(StageId(index as u16));
            } else if callers.contains(name) {
                callers.push(name.clone());
                return Err(Wrong {
                    found: format!("a call graph with a cycle: {}", callers.join(" -> ")),
                    allowed: "a call graph that ends".to_owned(),
                    hint: None,
                });
            } else if let Some(called) = self.endpoints.get(name) {
                callers.push(name.clone());
                self.follow(level, called.path(level), callers, stages)?;
                callers.pop();
            } else {
                let known = || self.stages.keys().chain(self.endpoints.keys());
                let names: Vec<_> = known().map(|k| format!("`{k}`")).collect();
                return Err(Wrong {
                    found: format!("\"{name}\""),
                    allowed: format!("a stage or an endpoint of the scenario: {}", names.join(", ")),
                    hint: nearest(name, known().map(String::as_str)),
                });
            }
            if stages.len() > 1000 {
                break;
            }
        }
        Ok(())
    }
}
