//! What ran on a device, out of a log; and the samples of one device out of a recording.
//!
//! Two layouts of a table are known, by their columns:
//! - `start_s, end_s` and some of `tokens_start, tokens_end, documents, calls`: what each call or batch held;
//! - the step log of the recording script: `phase, batch, tokens, context, start_ns, end_ns, start_wall_ns`.
//!   Documents are the batches of the phase `rerank`, tokens those of all other phases.
//!
//! Besides, any request log that can be imported: a request counts from its arrival on, which is right while
//! nothing queues.

use super::load::Work;
use crate::columns::{Columns, ColumnsError, Kind};
use crate::recording::Sample;
use crate::request_log::{Logged, RequestLog};

const S_PER_NS: f64 = 1e-9;
/// Seconds since 1970 are larger than this; seconds since a start are not.
const EPOCH_FROM_S: f64 = 1e8;

/// The columns that [`works_of`] knows.
pub const LOG_COLUMNS: [(&str, Kind); 13] = [
    ("start_s", Kind::Number),
    ("end_s", Kind::Number),
    ("tokens_start", Kind::Number),
    ("tokens_end", Kind::Number),
    ("documents", Kind::Number),
    ("calls", Kind::Number),
    ("phase", Kind::Text),
    ("batch", Kind::Number),
    ("tokens", Kind::Number),
    ("context", Kind::Number),
    ("start_ns", Kind::Number),
    ("end_ns", Kind::Number),
    ("start_wall_ns", Kind::Number),
];

/// What ran, by rising start; `None`: the columns are of neither layout, so that it may be a request log.
///
/// # Errors
/// A column of the layout is missing or holds no numbers.
pub fn works_of(log: &Columns) -> Result<Option<Vec<Work>>, ColumnsError> {
    let works = if log.has("start_s") {
        of_holdings(log)?
    } else if log.has("phase") {
        of_steps(log)?
    } else {
        return Ok(None);
    };
    Ok(Some(in_order(works)))
}

/// The same of a request log: seconds since 1970 where it tells those. Requests without a last token are left
/// out.
pub fn works_of_requests(log: &RequestLog) -> Vec<Work> {
    // The wall clock of the first arrival moves all times to it.
    let first = log.requests.first().filter(|first| first.wall_ns > 0);
    let shift_s = first.map_or(0.0, |first| first.wall_ns as f64 * S_PER_NS - first.arrival_s);
    let work = |request: &Logged| {
        let tokens_in = f64::from(request.tokens_in);
        Some(Work {
            from_s: request.arrival_s + shift_s,
            to_s: request.last_token_s? + shift_s,
            tokens_from: tokens_in,
            tokens_to: tokens_in + f64::from(request.tokens_out),
            documents: 0.0,
            calls: 1.0,
        })
    };
    in_order(log.requests.iter().filter_map(work).collect())
}

fn in_order(mut works: Vec<Work>) -> Vec<Work> {
    works.retain(|work| work.to_s > work.from_s);
    works.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    works
}

fn of_holdings(log: &Columns) -> Result<Vec<Work>, ColumnsError> {
    let (from, to) = (log.numbers("start_s")?, log.numbers("end_s")?);
    let or_zero = |name: &str| if log.has(name) { log.numbers(name) } else { Ok(vec![0.0; log.rows()]) };
    let tokens_from = or_zero("tokens_start")?;
    let tokens_to = if log.has("tokens_end") { log.numbers("tokens_end")? } else { tokens_from.clone() };
    let (documents, calls) = (or_zero("documents")?, or_zero("calls")?);
    let work = |row: usize| Work {
        from_s: from[row],
        to_s: to[row],
        tokens_from: tokens_from[row],
        tokens_to: tokens_to[row],
        documents: documents[row],
        calls: calls[row],
    };
    Ok((0..log.rows()).map(work).collect())
}

fn of_steps(log: &Columns) -> Result<Vec<Work>, ColumnsError> {
    let phases = log.texts("phase")?;
    let names = ["batch", "tokens", "context", "start_ns", "end_ns", "start_wall_ns"];
    let [batch, tokens, context, start, end, wall] = names.map(|name| log.numbers(name));
    let (batch, tokens, context) = (batch?, tokens?, context?);
    let (start, end, wall) = (start?, end?, wall?);
    let work = |row: usize| {
        let from_s = wall[row] * S_PER_NS;
        let is_rerank = phases[row] == "rerank";
        let held = batch[row] * (context[row] + tokens[row]);
        let tokens = if is_rerank { 0.0 } else { held };
        Work {
            from_s,
            to_s: from_s + (end[row] - start[row]) * S_PER_NS,
            tokens_from: tokens,
            tokens_to: tokens,
            documents: if is_rerank { batch[row] } else { 0.0 },
            calls: 0.0,
        }
    };
    Ok((0..log.rows()).map(work).collect())
}

/// The used memory of one device (s, bytes), on the clock of the log: seconds since 1970 where the log has
/// those, else seconds since the start of the recording. Only from the log's first start to its last end.
pub fn samples_of(recording: &[Sample], device: u32, works: &[Work]) -> Vec<(f64, f64)> {
    let first_s = works.iter().map(|work| work.from_s).fold(f64::INFINITY, f64::min);
    let last_s = works.iter().map(|work| work.to_s).fold(f64::NEG_INFINITY, f64::max);
    let by_wall = first_s > EPOCH_FROM_S;
    let time_s = |sample: &Sample| (if by_wall { sample.wall_ns } else { sample.t_ns }) as f64 * S_PER_NS;
    let of_device = recording.iter().filter(|sample| sample.device == device);
    let samples = of_device.filter_map(|sample| Some((time_s(sample), sample.memory_used?)));
    samples.filter(|(t_s, _)| (first_s..=last_s).contains(t_s)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works(text: &str) -> Result<Option<Vec<Work>>, ColumnsError> {
        works_of(&Columns::of_csv(text, &LOG_COLUMNS).unwrap())
    }

    #[test]
    fn tables_and_request_logs_are_read() {
        let own = works("start_s,end_s,tokens_start,documents\n2,3,0,5\n1,2,10,0\n").unwrap().unwrap();
        assert_eq!((own[0].from_s, own[0].tokens_to, own[1].documents), (1.0, 10.0, 5.0));
        let served = Logged {
            wall_ns: 1_790_000_000_000_000_000,
            tokens_in: 10,
            tokens_out: 5,
            last_token_s: Some(2.0),
            ..Logged::default()
        };
        let failed = Logged { arrival_s: 1.0, last_token_s: None, ..served };
        let requests = works_of_requests(&RequestLog::served(vec![served, failed]));
        assert_eq!((requests.len(), requests[0].tokens_to, requests[0].calls), (1, 15.0, 1.0));
        assert_eq!((requests[0].from_s, requests[0].to_s), (1.79e9, 1.79e9 + 2.0));
        let steps = "step,phase,batch,tokens,context,start_ns,end_ns,start_wall_ns\n\
                     0,decode,4,1,99,0,500000000,1790000000000000000\n\
                     1,rerank,32,128,0,0,500000000,1790000001000000000\n";
        let steps = works(steps).unwrap().unwrap();
        assert_eq!((steps[0].tokens_from, steps[0].documents, steps[1].documents), (400.0, 0.0, 32.0));
        assert!((steps[0].to_s - steps[0].from_s - 0.5).abs() < 1e-6);
        assert_eq!(works("a,b\n1,2\n").unwrap(), None);
        assert!(works("start_s\n1\n").is_err());
    }

    #[test]
    fn samples_are_those_of_one_device_on_the_clock_of_the_log() {
        let sample = |t_ns: u64, device: u32, used: Option<f64>| Sample {
            t_ns,
            wall_ns: 1_790_000_000_000_000_000 + t_ns,
            device,
            memory_used: used,
            ..Sample::default()
        };
        let second = 1_000_000_000;
        let recording = [
            sample(0, 0, Some(1.0)),
            sample(second, 0, Some(2.0)),
            sample(second, 1, Some(3.0)),
            sample(2 * second, 0, None),
        ];
        let work = |from_s: f64| Work { from_s, to_s: from_s + 1.5, ..Work::default() };
        assert_eq!(samples_of(&recording, 0, &[work(0.5)]), [(1.0, 2.0)]);
        assert_eq!(samples_of(&recording, 1, &[work(1.79e9)]), [(1.79e9 + 1.0, 3.0)]);
    }
}
