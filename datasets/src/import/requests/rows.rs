//! From columns to requests: clocks joined, rows that cannot be dropped, all in order of arrival.

use crate::import::error::{Fault, fault};
use crate::import::report::{At, Notes};
use crate::request_log::{Logged, RequestLog};

/// The columns of a log. Times are nanoseconds.
pub(super) struct Columns {
    pub(super) arrival: Vec<Option<i64>>,
    /// The arrivals are dates, whatever their size.
    pub(super) dated: bool,
    pub(super) tokens_in: Vec<Option<u32>>,
    pub(super) tokens_out: Vec<Option<u32>>,
    pub(super) queued: Option<Vec<Option<i64>>>,
    pub(super) first: Option<Vec<Option<i64>>>,
    pub(super) first_after_arrival: bool,
    pub(super) last: Option<Vec<Option<i64>>>,
    pub(super) last_after_arrival: bool,
    /// The arrivals by the wall clock, where the log has another one beside.
    pub(super) wall: Option<Vec<Option<i64>>>,
    pub(super) status: Option<Vec<Option<String>>>,
}

/// Statuses of requests that were served, in small letters; a status that is not told is one of them.
const SERVED: [&str; 17] = [
    "",
    "ok",
    "answered",
    "success",
    "succeeded",
    "successful",
    "complete",
    "completed",
    "finished",
    "done",
    "stop",
    "length",
    "eos",
    "true",
    "200",
    "1",
    "served",
];

/// Seconds since 1970 from September 2001 on, as nanoseconds: a smaller time is none of a log's wall clock.
const FIRST_WALL_NS: i64 = 1_000_000_000_000_000_000;

pub(super) fn assemble(
    columns: &Columns,
    ok: &[String],
    place: &impl Fn(usize) -> At,
    notes: &mut Notes,
) -> Result<RequestLog, Fault> {
    let mut log = RequestLog::served(Vec::new());
    let mut places = Places { place, dropped: Vec::new() };
    let offset_ns = columns.clock_offset()?;
    let mut requests: Vec<Stamped> = Vec::with_capacity(columns.arrival.len());
    let mut origin_ns = i64::MAX;
    let mut disorder = None;
    for row in 0..columns.arrival.len() {
        let Some(arrival_ns) = columns.arrival[row] else {
            places.dropped("a request without a time of arrival", row);
            continue;
        };
        let status = columns.status.as_ref().and_then(|texts| texts[row].as_deref()).unwrap_or("");
        let served = if ok.is_empty() {
            SERVED.contains(&status.to_ascii_lowercase().as_str())
        } else {
            ok.iter().any(|known| known == status)
        };
        let number = if served { 0 } else { log.number(status).map_err(fault)? };
        let (tokens_in, tokens_out) =
            (columns.tokens_in[row].unwrap_or(0), columns.tokens_out[row].unwrap_or(0));
        if served && (tokens_in == 0 || tokens_out == 0) {
            places.dropped("a served request without tokens of its prompt or answer", row);
            continue;
        }
        let stamp = |stamps: &Option<Vec<Option<i64>>>, after: bool| {
            let ns = stamps.as_ref()?[row]?;
            Some(if after { arrival_ns.saturating_add(ns) } else { ns.saturating_sub(offset_ns) })
        };
        let first = stamp(&columns.first, columns.first_after_arrival);
        let last = stamp(&columns.last, columns.last_after_arrival);
        if let Some(why) = contradiction(arrival_ns, first, last) {
            places.dropped(why, row);
            continue;
        }
        if served && columns.last.is_some() && last.is_none() {
            places.dropped("a served request whose last token has no time", row);
            continue;
        }
        if requests.last().is_some_and(|before| before.arrival_ns > arrival_ns) {
            disorder.get_or_insert(row);
        }
        origin_ns = origin_ns.min(arrival_ns);
        let own = (columns.dated || arrival_ns >= FIRST_WALL_NS).then_some(arrival_ns);
        let wall = own.or_else(|| columns.wall.as_ref().and_then(|walls| walls[row]));
        let wall_ns = wall.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        let logged = Logged { wall_ns, tokens_in, tokens_out, status: number, ..Logged::default() };
        requests.push(Stamped { arrival_ns, first, last, logged });
    }
    places.tell(notes);
    if requests.is_empty() {
        let why = notes.first_dropped().map(|note| format!(": {}, {}", note.first, note.what));
        return Err(fault(format!("none of the requests can be used{}", why.unwrap_or_default())));
    }
    if let Some(row) = disorder {
        notes.remark("the requests were sorted by arrival", place(row));
        requests.sort_by_key(|request| request.arrival_ns);
    }
    // Divided, and not multiplied by a fraction: 0.5 s and a half then are the same number.
    let since = |ns: i64| ns.saturating_sub(origin_ns) as f64 / 1e9;
    log.requests = requests
        .into_iter()
        .map(|request| Logged {
            arrival_s: since(request.arrival_ns),
            first_token_s: request.first.map(since),
            last_token_s: request.last.map(since),
            ..request.logged
        })
        .collect();
    Ok(log)
}

/// A request whose times still count from the log's own start, nanoseconds.
struct Stamped {
    arrival_ns: i64,
    first: Option<i64>,
    last: Option<i64>,
    /// Everything else.
    logged: Logged,
}

/// Why the times of a request cannot be; none if they can.
fn contradiction(arrival: i64, first: Option<i64>, last: Option<i64>) -> Option<&'static str> {
    if first.is_some_and(|first| first < arrival) {
        return Some("a request whose first token came before it was sent");
    }
    if last.is_some_and(|last| last < arrival) {
        return Some("a request whose last token came before it was sent");
    }
    first
        .zip(last)
        .is_some_and(|(first, last)| last < first)
        .then_some("a request whose last token came before its first")
}

impl Columns {
    /// By how much the clock of the tokens is ahead of that of the arrivals: the smallest difference between
    /// queueing and arrival, for at least one request finds the way to the engine clear. 0 where the log has
    /// one clock.
    fn clock_offset(&self) -> Result<i64, Fault> {
        let Some(queued) = &self.queued else { return Ok(0) };
        let both = self
            .arrival
            .iter()
            .zip(queued)
            .filter_map(|(arrival, queued)| Some((*queued)?.saturating_sub((*arrival)?)));
        both.min().ok_or_else(|| {
            fault("no request has both an arrival and a moment of queueing, so that the two clocks cannot be joined")
        })
    }
}

/// Counts what is dropped; where it stands is looked up once for each reason, because that may be slow.
struct Places<'a, P> {
    place: &'a P,
    dropped: Vec<(&'static str, u64, usize)>,
}

impl<P: Fn(usize) -> At> Places<'_, P> {
    fn dropped(&mut self, why: &'static str, row: usize) {
        match self.dropped.iter_mut().find(|(known, ..)| *known == why) {
            Some((_, count, _)) => *count += 1,
            None => self.dropped.push((why, 1, row)),
        }
    }

    fn tell(self, notes: &mut Notes) {
        for (why, count, row) in self.dropped {
            notes.dropped_times(why, count, (self.place)(row));
        }
    }
}
