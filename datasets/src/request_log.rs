//! Request logs: one row for each request that a real server was sent, in the one form in which they go about
//! here. Imports make it, a run's `requests.parquet` has the same columns, and comparisons read both.
//!
//! | column | what |
//! | --- | --- |
//! | `arrival_s` | when it was sent, seconds after the first one |
//! | `wall_ns` | the same moment, nanoseconds since 1970, UTC; 0 if the log's clock has no date |
//! | `tokens_in`, `tokens_out` | prompt and answer, tokens; 0 where the log does not tell, as of requests that failed |
//! | `first_token_s`, `last_token_s` | when they came, on the clock of `arrival_s`; null where there was none |
//! | `status` | `ok` if it was served; else what the log says |

use std::path::Path;

use crate::fit::ObservedRequest;
use crate::frames::{Table, TableColumn, TableError, Values, read_parquet};

/// The status of a request that was served.
pub const SERVED: &str = "ok";

/// A log, in order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestLog {
    /// Its requests.
    pub requests: Vec<Logged>,
    /// The different statuses; the first one is [`SERVED`].
    pub statuses: Vec<String>,
}

/// One request. Times are seconds after the arrival of the log's first one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Logged {
    /// When it was sent, s.
    pub arrival_s: f64,
    /// The same moment, nanoseconds since 1970, UTC; 0 if unknown.
    pub wall_ns: u64,
    /// Prompt length, tokens; 0 if unknown.
    pub tokens_in: u32,
    /// Answer length, tokens; 0 if unknown.
    pub tokens_out: u32,
    /// When its first token came, s.
    pub first_token_s: Option<f64>,
    /// When its last token came, s.
    pub last_token_s: Option<f64>,
    /// Index into the log's statuses; 0: it was served.
    pub status: u16,
}

impl Logged {
    /// It was served.
    pub fn served(&self) -> bool {
        self.status == 0
    }

    /// As the fits take it; none if it was not served or the log does not tell all of it.
    pub fn observed(&self) -> Option<ObservedRequest> {
        let told = self.served() && self.tokens_in > 0 && self.tokens_out > 0;
        told.then_some(ObservedRequest {
            tokens_in: self.tokens_in,
            tokens_out: self.tokens_out,
            arrival_s: self.arrival_s,
            first_token_s: self.first_token_s?,
            last_token_s: self.last_token_s?,
        })
    }
}

impl RequestLog {
    /// Of these requests, all of them served.
    pub fn served(requests: Vec<Logged>) -> Self {
        Self { requests, statuses: vec![SERVED.to_owned()] }
    }

    /// What the log says of a request's end.
    pub fn status(&self, request: &Logged) -> &str {
        self.statuses.get(usize::from(request.status)).map_or(SERVED, String::as_str)
    }

    /// The requests that were served and are told completely, as the fits take them.
    pub fn observed(&self) -> Vec<ObservedRequest> {
        self.requests.iter().filter_map(Logged::observed).collect()
    }

    /// The log as a table, one row for each request.
    pub fn table(&self) -> Table {
        let rows = || self.requests.iter();
        let column = TableColumn::new;
        Table {
            columns: vec![
                column("arrival_s", "s", Values::F64(rows().map(|r| r.arrival_s).collect())),
                column("wall_ns", "ns", Values::U64(rows().map(|r| r.wall_ns).collect())),
                column("tokens_in", "", Values::U64(rows().map(|r| u64::from(r.tokens_in)).collect())),
                column("tokens_out", "", Values::U64(rows().map(|r| u64::from(r.tokens_out)).collect())),
                column("first_token_s", "s", Values::MaybeF64(rows().map(|r| r.first_token_s).collect())),
                column("last_token_s", "s", Values::MaybeF64(rows().map(|r| r.last_token_s).collect())),
                column("status", "", Values::Str(rows().map(|r| self.status(r).to_owned()).collect())),
            ],
        }
    }

    /// Reads a log from a table with the columns of the module's list; others are passed over, and `wall_ns`
    /// and `status` may be missing.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn of_table(table: &Table) -> Result<Self, String> {
        let column = |name: &str| {
            let found = table.columns.iter().find(|column| column.name == name).map(|c| &c.values);
            found.ok_or_else(|| format!("a request log has a column `{name}`, which is not there"))
        };
        let other =
            |name: &str| format!("column `{name}` of a request log holds other values than it should");
        let times = |name: &str| match column(name)? {
            Values::F64(values) => Ok(values.iter().copied().map(Some).collect::<Vec<_>>()),
            Values::MaybeF64(values) => Ok(values.clone()),
            _ => Err(other(name)),
        };
        let counts = |name: &str| match column(name)? {
            Values::U64(values) => {
                let count = |value: &u64| u32::try_from(*value).map_err(|_| other(name));
                values.iter().map(count).collect::<Result<Vec<_>, _>>()
            }
            _ => Err(other(name)),
        };
        let (tokens_in, tokens_out) = (counts("tokens_in")?, counts("tokens_out")?);
        let (first, last) = (times("first_token_s")?, times("last_token_s")?);
        let walls = match column("wall_ns") {
            Ok(Values::U64(values)) => Some(values),
            Ok(_) => return Err(other("wall_ns")),
            Err(_) => None,
        };
        let mut log = Self::served(Vec::new());
        let statuses = match column("status") {
            Ok(Values::Str(texts)) => {
                Some(texts.iter().map(|text| log.number(text)).collect::<Result<Vec<_>, _>>()?)
            }
            Ok(_) => return Err(other("status")),
            Err(_) => None,
        };
        for (row, arrival_s) in times("arrival_s")?.into_iter().enumerate() {
            let arrival_s = arrival_s.filter(|s| s.is_finite()).ok_or_else(|| other("arrival_s"))?;
            log.requests.push(Logged {
                arrival_s,
                wall_ns: walls.map_or(0, |walls| walls[row]),
                tokens_in: tokens_in[row],
                tokens_out: tokens_out[row],
                first_token_s: first[row],
                last_token_s: last[row],
                status: statuses.as_ref().map_or(0, |statuses| statuses[row]),
            });
        }
        if !log.requests.is_sorted_by(|a, b| a.arrival_s <= b.arrival_s) {
            return Err("the requests are not in order of arrival".to_owned());
        }
        Ok(log)
    }

    /// The number of a status.
    ///
    /// # Errors
    /// There are too many different ones.
    pub(crate) fn number(&mut self, status: &str) -> Result<u16, String> {
        let known = self.statuses.iter().position(|known| known == status);
        let index = known.unwrap_or_else(|| {
            self.statuses.push(status.to_owned());
            self.statuses.len() - 1
        });
        let many = || format!("there are more than {MOST_STATUSES} different statuses");
        u16::try_from(index).ok().filter(|index| usize::from(*index) < MOST_STATUSES).ok_or_else(many)
    }
}

/// More different statuses are free text, such as error messages with numbers in them.
const MOST_STATUSES: usize = 1000;

/// Reads a log that was written here, by an import or a run.
///
/// # Errors
/// [`TableError`]: there is no such file, it is no Parquet, or it is no request log.
pub fn read(path: &Path) -> Result<RequestLog, TableError> {
    let table = read_parquet(path)?;
    RequestLog::of_table(&table).map_err(|reason| TableError::Shape { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::write_parquet;
    use crate::scratch::Folder;

    fn log() -> RequestLog {
        let served = Logged {
            arrival_s: 0.0,
            wall_ns: 1_790_000_000_000_000_000,
            tokens_in: 10,
            tokens_out: 5,
            first_token_s: Some(0.5),
            last_token_s: Some(1.5),
            status: 0,
        };
        let failed = Logged {
            arrival_s: 1.0,
            status: 1,
            tokens_out: 0,
            first_token_s: None,
            last_token_s: None,
            ..served
        };
        RequestLog {
            requests: vec![served, failed],
            statuses: vec![SERVED.to_owned(), "HTTP 500".to_owned()],
        }
    }

    #[test]
    fn logs_come_back_as_written() {
        let folder = Folder::new("request-log");
        let path = folder.path("log.parquet");
        write_parquet(&path, &log().table(), false).unwrap();
        let back = read(&path).unwrap();
        assert_eq!(back, log());
        assert_eq!((back.observed().len(), back.status(&back.requests[1])), (1, "HTTP 500"));
    }

    #[test]
    fn what_is_no_log_is_refused() {
        let without = |name: &str| {
            let mut table = log().table();
            table.columns.retain(|column| column.name != name);
            RequestLog::of_table(&table)
        };
        assert!(without("tokens_in").unwrap_err().contains("`tokens_in`"));
        assert!(without("status").unwrap().requests[1].served());
        assert_eq!(without("wall_ns").unwrap().requests[0].wall_ns, 0);
        let mut backwards = log();
        backwards.requests.reverse();
        assert!(RequestLog::of_table(&backwards.table()).unwrap_err().contains("order"));
    }
}
