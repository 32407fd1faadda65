//! What a mistyped word was most likely meant to be.
//!
//! Two measures, because people err in two ways: Damerau-Levenshtein counts slips of the finger
//! (`replcias`), Jaro-Winkler sees words that go on differently (`vram_over` for `vram_above`).

/// Longer words are not slips of the finger, and comparing them costs the product of the lengths.
const LONGEST: usize = 120;

/// The candidate most like `word`, if one is like it at all; the first of equals.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = plain(word);
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let likeness = likeness(&word, &plain(candidate));
        if likeness > best.map_or(0.0, |(most, _)| most) {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The path most like `path`: its own last part counts too, because people remember a parameter's name
/// sooner than where it stands.
pub(super) fn nearest_path<'a>(path: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let tail = |candidate: &str| candidate.strip_suffix(path).is_some_and(|head| head.ends_with('.'));
    let by_tail = candidates.iter().copied().find(|candidate| tail(candidate));
    let by_whole = || nearest(path, candidates.iter().copied());
    by_tail.or_else(by_whole).or_else(|| {
        let last = |path: &'a str| path.rsplit('.').next().unwrap_or(path);
        let word = path.rsplit('.').next().unwrap_or(path);
        let name = nearest(word, candidates.iter().map(|candidate| last(candidate)))?;
        candidates.iter().copied().find(|candidate| last(candidate) == name)
    })
}

/// ``did you mean `word`?``
pub(super) fn question(word: &str) -> String {
    format!("did you mean `{word}`?")
}

/// Case and the choice of dash are no difference.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
}

/// 0 when not alike; otherwise the likeness, above 0 and at most 1.
fn likeness(word: &str, candidate: &str) -> f64 {
    if candidate.len() > LONGEST {
        return 0.0;
    }
    let longer = word.chars().count().max(candidate.chars().count());
    let slips = strsim::damerau_levenshtein(word, candidate);
    let winkler = strsim::jaro_winkler(word, candidate);
    // One slip in every three characters is the most that still looks like one; `l3` for `l2` does too.
    let alike = slips * 3 <= longer || (slips == 1 && longer >= 2) || winkler >= 0.88;
    if alike { winkler.max(strsim::normalized_damerau_levenshtein(word, candidate)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_seen_and_strangers_are_not() {
        let keys = ["replicas", "vram_above", "vram_below", "max_docs"];
        assert_eq!(nearest("replcias", keys), Some("replicas"));
        assert_eq!(nearest("vram_abov", keys), Some("vram_above"));
        assert_eq!(nearest("Max-Docs", keys), Some("max_docs"));
        assert_eq!(nearest("temperature", keys), None);
        assert_eq!(nearest(&"x".repeat(10_000), keys), None);
        assert_eq!(nearest("", keys), None);
    }

    #[test]
    fn a_path_is_known_by_its_end() {
        let paths = ["stages.llm.replicas", "policy.fallback.l2.vram_above"];
        assert_eq!(nearest_path("l2.vram_above", &paths), Some(paths[1]));
        assert_eq!(nearest_path("stages.lmm.replicas", &paths), Some(paths[0]));
        assert_eq!(nearest_path("gateway.vram_abov", &paths), Some(paths[1]));
        assert_eq!(nearest_path("colour", &paths), None);
    }
}
