//! The score of a question and the queue that it leads to (published cases Q1 and Q2). Pure functions of
//! what the gateway sees: the same question has the same score, whoever else is waiting.

use super::{FirstQueue, Form, Semantic};
use crate::{Channel, RequestView};

/// Index of the queue of questions that come first.
pub(super) const HIGH: u8 = 0;
/// Index of the queue in between.
pub(super) const STANDARD: u8 = 1;
/// Index of the queue of questions that are answered at a lower level.
pub(super) const DEGRADED: u8 = 2;

/// A number between `least` and `most`, scaled to 0 to 1; 0 when there is nothing between them.
fn scaled(number: f64, least: f64, most: f64) -> f64 {
    if most > least { ((number - least) / (most - least)).clamp(0.0, 1.0) } else { 0.0 }
}

impl Semantic {
    /// How urgent the question is by its keywords.
    fn urgency(&self, request: &RequestView) -> f64 {
        match request {
            RequestView { urgent: true, .. } => self.parts.urgent,
            RequestView { service_keyword: true, .. } => self.parts.service_keyword,
            RequestView { .. } => 0.0,
        }
    }

    /// The score of a request, 0 to 1.
    pub fn score(&self, request: &RequestView) -> f64 {
        let parts = &self.parts;
        let urgency = self.urgency(request);
        let tier = if request.tier < parts.top_tiers { parts.top_tier } else { 1.0 };
        let follow_up = if request.follow_up { parts.follow_up } else { 0.0 };
        let channel = match request.channel {
            Channel::App => parts.app,
            Channel::MiniProgram => parts.mini_program,
            Channel::H5 => parts.h5,
        };
        match self.form {
            Form::Additive => ((urgency * tier + follow_up) * channel).min(1.0),
            Form::Weighted => {
                let weights = &self.part_weights;
                let factors = [parts.app, parts.mini_program, parts.h5];
                let least = factors.into_iter().fold(f64::INFINITY, f64::min);
                let most = factors.into_iter().fold(0.0, f64::max);
                let sum = weights.urgency * scaled(urgency, 0.0, parts.urgent.max(parts.service_keyword))
                    + weights.tier * scaled(tier, 1.0, parts.top_tier)
                    + weights.follow_up * scaled(follow_up, 0.0, parts.follow_up)
                    + weights.channel * scaled(channel, least, most);
                sum.min(1.0)
            }
        }
    }

    /// Index of the queue of a request with this score: 0, the first, to 2, the one that is answered at a
    /// lower level.
    pub fn queue(&self, request: &RequestView, score: f64) -> u8 {
        let high = match self.first_queue {
            FirstQueue::Score => score >= self.high_at_least,
            FirstQueue::Urgency => self.urgency(request) >= self.high_urgency_at_least,
        };
        if high || self.is_expedited(request) {
            HIGH
        } else if score >= self.standard_at_least {
            STANDARD
        } else {
            DEGRADED
        }
    }

    /// Whether the request goes first whatever its score.
    pub(super) fn is_expedited(&self, request: &RequestView) -> bool {
        self.expedite && request.expedite
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;

    /// A question with this keyword, by a user of the top tier or of another.
    fn view(keyword: Keyword, tier: u8, follow_up: bool, channel: Channel) -> RequestView {
        let (urgent, service_keyword) = (keyword == Keyword::Urgent, keyword == Keyword::Service);
        RequestView { tier, channel, urgent, service_keyword, follow_up, ..RequestView::new(Ticket(0)) }
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Keyword {
        None,
        Service,
        Urgent,
    }

    /// Published case Q1, all 36 kinds of question, each part looked up in a table of its own.
    #[test]
    fn the_published_score_of_every_kind_of_question() {
        let additive = Semantic::default();
        let weighted = Semantic { form: Form::Weighted, ..Semantic::default() };
        let urgencies =
            [(Keyword::None, 0.0, 0.0), (Keyword::Service, 0.2, 0.5), (Keyword::Urgent, 0.4, 1.0)];
        let channels = [(Channel::App, 1.2, 1.0), (Channel::MiniProgram, 1.0, 0.5), (Channel::H5, 0.8, 0.0)];
        for (keyword, u, big_u) in urgencies {
            for (tier, v, big_v) in [(0, 1.5, 1.0), (1, 1.0, 0.0)] {
                for (follow_up, s, big_s) in [(true, 0.3, 1.0), (false, 0.0, 0.0)] {
                    for (channel, c, big_c) in channels {
                        let view = view(keyword, tier, follow_up, channel);
                        let expected = f64::min(1.0, (u * v + s) * c);
                        assert!((additive.score(&view) - expected).abs() < 1e-12);
                        let expected = 0.4 * big_u + 0.3 * big_v + 0.2 * big_s + 0.1 * big_c;
                        assert!((weighted.score(&view) - expected).abs() < 1e-12);
                    }
                }
            }
        }
    }

    /// Published case Q2.
    #[test]
    fn the_published_thresholds_route() {
        let semantic = Semantic::default();
        let view = view(Keyword::None, 1, false, Channel::App);
        let queues = [0.5, 0.499, 0.2, 0.199, 0.0].map(|score| semantic.queue(&view, score));
        assert_eq!(queues, [HIGH, STANDARD, STANDARD, DEGRADED, DEGRADED]);
    }

    #[test]
    fn the_second_published_rule_reads_the_urgency_alone() {
        let semantic = Semantic { first_queue: FirstQueue::Urgency, ..Semantic::default() };
        let urgent = view(Keyword::Urgent, 1, false, Channel::H5);
        assert!(semantic.score(&urgent) < 0.5);
        assert_eq!(semantic.queue(&urgent, semantic.score(&urgent)), HIGH);
        let service = view(Keyword::Service, 0, true, Channel::App);
        assert!(semantic.score(&service) > 0.5);
        assert_eq!(semantic.queue(&service, semantic.score(&service)), STANDARD);
    }

    #[test]
    fn an_expedited_question_goes_first_where_that_is_on() {
        let view = RequestView { expedite: true, ..view(Keyword::None, 1, false, Channel::H5) };
        assert_eq!(Semantic::default().queue(&view, 0.0), DEGRADED);
        assert_eq!(Semantic { expedite: true, ..Semantic::default() }.queue(&view, 0.0), HIGH);
    }
}
