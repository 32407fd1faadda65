//! Which column of a request log means what.

use crate::import::options::{LogColumns, LogUnit};
use crate::trace::layout::{listed, present};
use crate::trace::problem::{Fault, Problem};
use crate::trace::rows::Selection;

/// When a token came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// The column has the moment.
    Moment(String),
    /// The column has the time since the arrival.
    After(String),
}

impl Stamp {
    fn name(&self) -> &str {
        match self {
            Self::Moment(name) | Self::After(name) => name,
        }
    }
}

/// The columns to read; all of them are in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) arrival: String,
    pub(super) arrival_unit: LogUnit,
    pub(super) tokens_in: String,
    pub(super) tokens_out: String,
    pub(super) first: Option<Stamp>,
    pub(super) last: Option<Stamp>,
    pub(super) queued: Option<String>,
    pub(super) token_unit: LogUnit,
    pub(super) duration_unit: LogUnit,
    pub(super) status: Option<String>,
    /// The arrival by the wall clock, nanoseconds since 1970.
    pub(super) wall: Option<String>,
    /// Columns that are not read.
    pub(super) left: Vec<String>,
}

/// A header that is recognised by its first three names.
struct Layout {
    name: &'static str,
    required: [&'static str; 3],
    first_token: &'static str,
    last_token: &'static str,
    queued: Option<&'static str>,
    status: Option<&'static str>,
    unit: LogUnit,
    wall: Option<&'static str>,
}

const LAYOUTS: [Layout; 3] = [
    Layout {
        name: "request log",
        required: ["arrival_s", "tokens_in", "tokens_out"],
        first_token: "first_token_s",
        last_token: "last_token_s",
        queued: None,
        status: Some("status"),
        unit: LogUnit::S,
        wall: Some("wall_ns"),
    },
    Layout {
        name: "load recorder",
        required: ["sent_ns", "tokens_in", "tokens_out"],
        first_token: "first_token_ns",
        last_token: "last_token_ns",
        queued: None,
        status: Some("status"),
        unit: LogUnit::Ns,
        wall: Some("sent_wall_ns"),
    },
    Layout {
        name: "vLLM run",
        required: ["arrival_time", "input_toks", "output_toks"],
        first_token: "first_token_ts",
        last_token: "last_token_ts",
        queued: Some("queued_ts"),
        status: None,
        unit: LogUnit::S,
        wall: None,
    },
];

impl Selection for Plan {
    fn names(&self) -> Vec<&str> {
        let stamps = [&self.first, &self.last].into_iter().flatten().map(Stamp::name);
        let others = [&self.queued, &self.status, &self.wall].into_iter().flatten().map(String::as_str);
        let mut names: Vec<&str> =
            [&self.arrival, &self.tokens_in, &self.tokens_out].into_iter().map(String::as_str).collect();
        // One column may well be named for two things: the arrival is the queueing where there is no gateway.
        for name in stamps.chain(others) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

impl Plan {
    pub(super) fn of(header: &[String], columns: &LogColumns) -> Result<Self, Fault> {
        let has = |name: &str| header.iter().any(|known| known == name);
        let layout = LAYOUTS.iter().find(|layout| layout.required.iter().all(|name| has(name)));
        let required = |given: &Option<String>, place: usize, option: &str, role: &'static str| {
            let known = || layout.map(|layout| layout.required[place].to_owned());
            let name = given.clone().or_else(known).ok_or_else(|| unrecognised(header, option, role))?;
            present(header, &name, role)
        };
        let optional = |given: &Option<String>, known: Option<&'static str>, role| match (given, known) {
            (Some(name), _) => present(header, name, role).map(Some),
            (None, Some(name)) if has(name) => Ok(Some(name.to_owned())),
            _ => Ok(None),
        };
        let arrival = required(&columns.arrival, 0, "--arrival", "the time of arrival")?;
        let known_unit = layout.filter(|layout| layout.required[0] == arrival).map(|layout| layout.unit);
        let arrival_unit =
            columns.arrival_unit.or(known_unit).ok_or_else(|| no_unit(&arrival, "--arrival-unit"))?;
        let first = optional(&columns.ttft, None, "the time to the first token")?.map(Stamp::After);
        let last = optional(&columns.latency, None, "the time to the last token")?.map(Stamp::After);
        for (relative, absolute, options) in [
            (&first, &columns.first_token, "--ttft and --first-token"),
            (&last, &columns.last_token, "--latency and --last-token"),
        ] {
            if relative.is_some() && absolute.is_some() {
                return Err(
                    Problem::Header(format!("{options} say the same in two ways: name one of them")).into()
                );
            }
        }
        let relative = [&first, &last].into_iter().flatten().map(Stamp::name).next().map(str::to_owned);
        let duration_unit = match (relative, columns.duration_unit) {
            (Some(_), Some(LogUnit::Datetime)) => {
                let what = "--duration-unit takes s, ms, us or ns: a duration has no date";
                return Err(Problem::Header(what.to_owned()).into());
            }
            (Some(name), None) => return Err(no_unit(&name, "--duration-unit")),
            (_, unit) => unit.unwrap_or(LogUnit::S),
        };
        let moment = |stamp: Option<Stamp>, given, known: fn(&Layout) -> &'static str, role| match stamp {
            Some(stamp) => Ok(Some(stamp)),
            None => optional(given, layout.map(known), role).map(|name| name.map(Stamp::Moment)),
        };
        let first = moment(first, &columns.first_token, |layout| layout.first_token, "the first token")?;
        let last = moment(last, &columns.last_token, |layout| layout.last_token, "the last token")?;
        let known = layout.and_then(|layout| layout.queued);
        let mut plan = Self {
            arrival,
            arrival_unit,
            tokens_in: required(&columns.tokens_in, 1, "--tokens-in", "the prompt's tokens")?,
            tokens_out: required(&columns.tokens_out, 2, "--tokens-out", "the answer's tokens")?,
            first,
            last,
            queued: optional(&columns.queued, known, "the moment of queueing")?,
            token_unit: columns.token_unit.unwrap_or(arrival_unit),
            duration_unit,
            status: optional(&columns.status, layout.and_then(|layout| layout.status), "the status")?,
            wall: optional(&None, layout.and_then(|layout| layout.wall), "the wall clock")?,
            left: Vec::new(),
        };
        plan.left = header.iter().filter(|name| !plan.names().contains(&name.as_str())).cloned().collect();
        Ok(plan)
    }
}

fn no_unit(name: &str, option: &str) -> Fault {
    let what = format!("its unit is not given: say {option} s, ms, us, ns or datetime");
    Fault::in_column(name, Problem::Header(what))
}

fn unrecognised(header: &[String], option: &str, role: &str) -> Fault {
    let known = LAYOUTS.iter().map(|layout| format!("{}: {}", layout.name, layout.required.join(", ")));
    let known = known.collect::<Vec<_>>().join("; ");
    let what = format!(
        "no column is named for {role}: say {option} COLUMN; the columns are {} (known without naming are {known})",
        listed(header)
    );
    Problem::Header(what).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    fn refused(names: &str, columns: &LogColumns) -> String {
        Plan::of(&header(names), columns).unwrap_err().problem.to_string()
    }

    #[test]
    fn known_layouts_need_no_names() {
        let names = header("id arrival_time input_toks output_toks queued_ts first_token_ts last_token_ts");
        let plan = Plan::of(&names, &LogColumns::default()).unwrap();
        let read = "arrival_time input_toks output_toks first_token_ts last_token_ts queued_ts";
        assert_eq!(plan.names(), read.split(' ').collect::<Vec<_>>());
        assert_eq!((plan.arrival_unit, plan.token_unit), (LogUnit::S, LogUnit::S));
        let own = header("arrival_s tokens_in tokens_out first_token_s last_token_s status wall_ns");
        let plan = Plan::of(&own, &LogColumns::default()).unwrap();
        assert_eq!((plan.status.as_deref(), plan.queued), (Some("status"), None));
    }

    #[test]
    fn other_columns_are_named_with_their_units() {
        let some = |name: &str| Some(name.to_owned());
        let mut columns = LogColumns {
            arrival: some("ts"),
            tokens_in: some("p"),
            tokens_out: some("c"),
            ttft: some("ttft"),
            latency: some("e2e"),
            ..LogColumns::default()
        };
        let names = "ts p c ttft e2e end";
        assert!(refused(names, &columns).contains("--arrival-unit"));
        columns.arrival_unit = Some(LogUnit::Datetime);
        assert!(refused(names, &columns).contains("--duration-unit"));
        columns.duration_unit = Some(LogUnit::Datetime);
        assert!(refused(names, &columns).contains("a duration has no date"));
        columns.duration_unit = Some(LogUnit::Ms);
        let plan = Plan::of(&header(names), &columns).unwrap();
        assert_eq!(
            (plan.first, plan.last),
            (Some(Stamp::After("ttft".into())), Some(Stamp::After("e2e".into())))
        );
        columns.last_token = some("end");
        assert!(refused(names, &columns).contains("in two ways"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(
            refused("a b c", &LogColumns::default()).contains("--arrival COLUMN; the columns are a, b, c")
        );
        let columns = LogColumns { status: Some("stat".to_owned()), ..LogColumns::default() };
        let text = refused("arrival_s tokens_in tokens_out state", &columns);
        assert!(text.contains("did you mean `state`?"), "{text}");
    }
}
