//! The knowledge base behind the rules: which questions they match, and which they do not.

use crate::attempts::Question;
use crate::scenario::{KnowledgeBase, OnNoMatch};
use forebay_engine::Time;

/// A knowledge base in use, and what it did not match after the warm-up.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge {
    rules: KnowledgeBase,
    pub(crate) asked: u64,
    /// Unmatched questions, by class.
    pub(crate) unmatched: Vec<u64>,
}

impl Knowledge {
    pub(crate) fn new(rules: &KnowledgeBase, classes: usize) -> Self {
        Self { rules: rules.clone(), asked: 0, unmatched: vec![0; classes] }
    }

    /// Unmatched questions are handed over.
    pub(crate) fn hands_over(&self) -> bool {
        self.rules.on_no_match == OnNoMatch::HandOver
    }

    /// Share of such questions that are matched now. `stale`: it is not brought up to date.
    pub(crate) fn match_share(&self, now: Time, question: Question, stale: bool) -> f64 {
        let now_s = now.as_secs_f64();
        let rules = &self.rules;
        let age_s = match rules.updated_every_s.filter(|_| !stale) {
            Some(period_s) if now_s >= period_s => now_s % period_s,
            _ => now_s + rules.age_at_start_s,
        };
        let entered = rules.new_entered_at_s.is_some_and(|at_s| now_s >= at_s) && !stale;
        let fresh = match question {
            Question::Faq => rules.faq_match_share,
            Question::Generative => rules.generative_match_share,
            Question::New if entered => rules.faq_match_share,
            Question::New => rules.new_match_share,
        };
        fresh * (1.0 - rules.loses_per_day * age_s / 86_400.0).max(0.0)
    }

    /// A question was not matched.
    pub(crate) fn note_unmatched(&mut self, class: u16) {
        if let Some(n) = self.unmatched.get_mut(usize::from(class)) {
            *n += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Span;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    #[test]
    fn matches_are_lost_with_age_until_it_is_brought_up_to_date() {
        let rules = KnowledgeBase {
            faq_match_share: 0.9,
            loses_per_day: 0.1,
            age_at_start_s: 86_400.0,
            updated_every_s: Some(7200.0),
            new_entered_at_s: Some(3600.0),
            ..KnowledgeBase::default()
        };
        let base = Knowledge::new(&rules, 1);
        let share = |s, question| base.match_share(at(s), question, false);
        assert!((share(0.0, Question::Faq) - 0.81).abs() < 1e-12);
        assert!((share(7200.0, Question::Faq) - 0.9).abs() < 1e-12);
        assert_eq!(share(0.0, Question::Generative), 0.0);
        assert_eq!(share(3599.0, Question::New), 0.0);
        assert_eq!(share(7200.0, Question::New), share(7200.0, Question::Faq));
        assert!((base.match_share(at(86_400.0), Question::Faq, true) - 0.72).abs() < 1e-12);
        assert_eq!(base.match_share(at(86_400.0), Question::New, true), 0.0);
    }
}
