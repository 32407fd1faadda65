//! The request log of a run: one entry for each request that had its end, as a real server would have logged
//! it. A run that is asked for none pays one branch for each end.

use crate::attempts::Request;
use crate::measure::Ended;
use crate::spans::{Names, Outcome};
use forebay_engine::Time;
use forebay_policies::RequestView;

/// A request that had its end. Times are nanoseconds of the run's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRequest {
    /// How many requests were born before it in its run: its name.
    pub request: u64,
    /// When it was asked.
    pub born_ns: u64,
    /// When the first token of its answer came; none without an answer.
    pub first_token_ns: Option<u64>,
    /// When it had its end for the person who asked: of an answer, when the last token came.
    pub end_ns: u64,
    /// Tokens of the question.
    pub tokens_in: u32,
    /// Tokens of a full answer.
    pub tokens_out: u32,
    /// Its class: an index into the scenario's classes.
    pub class: u16,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a service holds: a log, if it was asked for one.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLog(Option<Box<Open>>);

#[derive(Clone, Debug)]
struct Open {
    names: Names,
    requests: Vec<LoggedRequest>,
}

impl RequestLog {
    /// Begins to log.
    pub(crate) fn begin(&mut self, names: Names) {
        self.0 = Some(Box::new(Open { names, requests: Vec::new() }));
    }

    /// A request has its end; nothing but one branch where there is no log.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        now: Time,
        request: &Request,
        view: &RequestView,
        ended: &Ended,
        first_token: Option<Time>,
    ) {
        if let Some(open) = &mut self.0 {
            open.requests.push(LoggedRequest {
                request: request.index,
                born_ns: request.born.as_nanos(),
                first_token_ns: first_token.map(Time::as_nanos),
                end_ns: now.as_nanos(),
                tokens_in: view.tokens_in,
                tokens_out: request.tokens_out,
                class: request.class,
                outcome: open.names.outcome(ended.end, ended.level),
            });
        }
    }

    /// What was logged, in order of birth.
    pub(crate) fn take(&mut self) -> Vec<LoggedRequest> {
        let mut requests = self.0.take().map(|open| open.requests).unwrap_or_default();
        requests.sort_unstable_by_key(|logged| logged.request);
        requests
    }
}
