//! From which classes a source draws, and how much of each.

use forebay_model::scenario::Workload;

/// The weights of the classes, in their order, for a source that names no class itself: those of its own mix,
/// where it has one, else those of the classes.
pub(crate) fn weights(workload: &Workload, source: &str) -> Vec<f64> {
    let classes = workload.classes.iter();
    match workload.mix.get(source) {
        Some(own) => classes.map(|(name, _)| own.get(name).copied().unwrap_or(0.0)).collect(),
        // The only class gets all, whatever weight it has.
        None if workload.classes.len() == 1 => vec![1.0],
        None => classes.map(|(_, class)| class.weight).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::open_text;
    use crate::run::tests::MM1;

    #[test]
    fn a_mix_of_its_own_takes_the_place_of_the_weights() {
        let of = |more: &str| {
            let opened = open_text("mm1", &format!("{MM1}{more}"), &[]).unwrap();
            weights(&opened.loaded.scenario.workload, "all")
        };
        assert_eq!(of(""), [1.0]);
        let two = "[workload.classes.other]\nweight = 3\n";
        assert_eq!(of(two), [1.0, 3.0]);
        assert_eq!(of(&format!("{two}[workload.mix.all]\nother = 2\n")), [0.0, 2.0]);
    }
}
