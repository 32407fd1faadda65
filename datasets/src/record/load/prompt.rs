//! Prompts of a length.

/// Short common words, most of them one token in the vocabularies of today's models. How many tokens a prompt
/// really had is recorded where the endpoint tells.
const WORDS: [&str; 32] = [
    "time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school",
    "state", "family", "student", "group", "country", "problem", "hand", "part", "place", "case", "week",
    "company", "system", "program", "question", "work", "number", "night", "point", "home",
];

/// Words of about so many tokens in all. Prompts of different requests differ from their first words on, so
/// that no cache of prefixes answers for the engine.
pub(super) fn prompt(request: u64, tokens: u32) -> String {
    let mut state = request;
    let mut text = String::with_capacity(tokens as usize * 7);
    for place in 0..tokens {
        if place > 0 {
            text.push(' ');
        }
        // The finaliser of SplitMix64: neighbouring numbers give unrelated words.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        text.push_str(WORDS[(mixed >> 59) as usize]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_have_their_length_and_differ_from_the_start() {
        let texts: std::collections::BTreeSet<String> = (0..1000).map(|request| prompt(request, 8)).collect();
        assert_eq!(texts.len(), 1000);
        assert!(texts.iter().all(|text| text.split(' ').count() == 8));
        assert_eq!(prompt(7, 64), prompt(7, 64));
        assert_eq!(prompt(7, 0), "");
    }
}
