//! Text of `nvidia-smi dmon`: two header lines that are repeated on every screen, columns that depend on `-s`
//! and on the driver, `-` for what was not told. Its `MB` are mebibytes, and its `mem` is the share of time in
//! which memory was busy; memory in use is `fb`.

use super::clock::{UtcOffset, moment, time_of_day};
use super::error::{Fault, fault};
use super::options::Options;
use super::quantity::{Cell, Quantity, cell};
use super::report::{At, Notes};
use super::telemetry::{Field, Gathering, Row, Telemetry};
use crate::trace::layout::shortened;

const DAY_NS: u64 = 86_400_000_000_000;

fn field(name: &str) -> Option<Field> {
    use Quantity::{Clock, Memory, Power, Share, Temperature};
    Some(match name {
        "pwr" => Field::new("power_w", Power, "W"),
        "gtemp" | "temp" => Field::new("temperature_c", Temperature, "C"),
        "sm" => Field::new("busy", Share, "%"),
        "mem" => Field::new("memory_busy", Share, "%"),
        "mclk" => Field::new("memory_clock_mhz", Clock, "MHz"),
        "pclk" => Field::new("sm_clock_mhz", Clock, "MHz"),
        "fb" => Field::new("memory_used", Memory, "MB"),
        _ => return None,
    })
}

/// Whether the words are the header of this tool.
pub(super) fn is_header(line: &str) -> bool {
    let mut words = line.strip_prefix('#').into_iter().flat_map(words);
    words.any(|word| word == "gpu") && !line.contains('"')
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    // The CSV form of newer drivers has commas between the same columns.
    line.split([' ', '\t', ',']).filter(|word| !word.is_empty())
}

pub(super) fn read(text: &str, options: &Options, notes: &mut Notes) -> Result<Telemetry, Fault> {
    let mut reader = Reader {
        options,
        gathering: Gathering::default(),
        names: Vec::new(),
        units: Vec::new(),
        ticks: Vec::new(),
        day: None,
        date_ns: 0,
    };
    if let Some(date) = &options.date {
        let midnight = moment(&format!("{date} 00:00:00"), UtcOffset::default());
        reader.date_ns = midnight.ok_or_else(|| fault("--date takes a day such as 2026-07-23"))?;
    }
    let complete = text.ends_with('\n');
    let count = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        let last = index + 1 == count && !complete;
        reader.line(line, At::Line(index + 1), last, notes)?;
    }
    reader.finish(notes)
}

struct Reader<'a> {
    options: &'a Options,
    gathering: Gathering,
    names: Vec<String>,
    units: Vec<String>,
    /// Rows so far by device, for files without times.
    ticks: Vec<u64>,
    /// The last time of day, and midnights since the first row, of files without dates.
    day: Option<(u64, u64)>,
    /// The first day, if it was given.
    date_ns: u64,
}

impl Reader<'_> {
    fn line(&mut self, line: &str, at: At, cut: bool, notes: &mut Notes) -> Result<(), Fault> {
        if line.trim().is_empty() {
            notes.dropped("a blank line", at);
            return Ok(());
        }
        if let Some(header) = line.trim_start().strip_prefix('#') {
            return self.header(header, at, notes);
        }
        if self.names.is_empty() {
            let what = "there is no header: it begins with # and names the columns, gpu among them";
            return Err(fault(what).at(at.to_string()));
        }
        let cells: Vec<&str> = words(line).collect();
        if cells.len() != self.names.len() {
            if cut {
                notes.dropped("the last line, which is cut off", at);
                return Ok(());
            }
            let (found, wanted) = (cells.len(), self.names.len());
            let what =
                format!("found {found} values, where {wanted} are wanted, one for each column of the header");
            return Err(fault(what).at(at.to_string()));
        }
        self.row(&cells, at, notes)
    }

    fn header(&mut self, line: &str, at: At, notes: &mut Notes) -> Result<(), Fault> {
        let found: Vec<String> = words(line).map(str::to_owned).collect();
        if found.iter().any(|word| word == "pid") {
            let what = "this is pmon, which tells of processes; dmon, which tells of devices, is wanted";
            return Err(fault(what).at(at.to_string()));
        }
        if !found.iter().any(|word| word == "gpu") {
            // The second line of a header: the units, `Idx` for the device's number.
            if found.len() == self.names.len() {
                self.units = found;
                return Ok(());
            }
            notes.dropped("a comment", at);
            return Ok(());
        }
        if let Some(twice) = found.iter().enumerate().find(|(index, name)| found[..*index].contains(name)) {
            return Err(fault("the column stands there twice; names must differ")
                .at(at.to_string())
                .column(&shortened(twice.1)));
        }
        if self.names == found {
            notes.dropped("a repeated header", at);
            return Ok(());
        }
        if !self.names.is_empty() {
            notes.remark("a header with other columns: from here on they are read by it", at);
        }
        if !found.iter().any(|name| field(name).is_some()) {
            let what = "none of the columns is one that recordings have, such as pwr, sm or fb";
            return Err(fault(what).at(at.to_string()));
        }
        self.units = vec![String::new(); found.len()];
        self.names = found;
        Ok(())
    }

    fn row(&mut self, cells: &[&str], at: At, notes: &mut Notes) -> Result<(), Fault> {
        let of = |wanted: &str| self.names.iter().position(|name| name == wanted).map(|place| cells[place]);
        let refuse = |what: String, column: &str| fault(what).at(at.to_string()).column(column);
        let gpu = of("gpu").unwrap_or_default();
        let index: u32 = gpu.parse().map_err(|_| {
            refuse(format!("found \"{}\"; the number of a device is wanted", shortened(gpu)), "gpu")
        })?;
        let (date, time) = (of("Date").map(str::to_owned), of("Time").map(str::to_owned));
        let device = self.gathering.device(gpu, Some(index));
        let at_ns = self.time(date.as_deref(), time.as_deref(), device, at, notes)?;
        let mut row = Row::new(at, at_ns, device);
        for (place, text) in cells.iter().enumerate() {
            let name = self.names[place].as_str();
            if matches!(name, "gpu" | "Date" | "Time") {
                continue;
            }
            let value = match cell(text) {
                Cell::Number(value, _) => value,
                Cell::NotTold(word) => {
                    notes.dropped(&format!("`{}` not told: {word}", shortened(name)), at);
                    continue;
                }
                Cell::Text => {
                    let what = format!("found \"{}\"; a number is wanted, or -", shortened(text));
                    return Err(refuse(what, &shortened(name)));
                }
            };
            let unit = self.units[place].as_str();
            let Some(field) = field(name) else {
                if let Some(extra) = self.gathering.extra(name, unit) {
                    row.set_extra(extra, value);
                }
                continue;
            };
            let unit = if unit.is_empty() { field.unit } else { unit };
            let Some(value) = field.quantity.convert(value, unit) else {
                let what = format!("its unit is {}; {} is wanted", shortened(unit), field.quantity.units());
                return Err(refuse(what, name));
            };
            match field.quantity.impossible(value) {
                Some(why) => notes.dropped(&format!("a value of `{name}` {why}"), at),
                None => row.values[field.place] = value,
            }
        }
        self.gathering.rows.push(row);
        Ok(())
    }

    fn time(
        &mut self,
        date: Option<&str>,
        time: Option<&str>,
        device: usize,
        at: At,
        notes: &mut Notes,
    ) -> Result<u64, Fault> {
        let refuse = |what: String, column: &str| fault(what).at(at.to_string()).column(column);
        let Some(time) = time else {
            let every_ns = self.options.every_ns().ok_or_else(|| {
                let what = "no column tells the time: record with -o DT, or give the time between two rows with --every";
                fault(what).at(at.to_string())
            })?;
            self.ticks.resize(self.ticks.len().max(device + 1), 0);
            self.ticks[device] += 1;
            let ns = (self.ticks[device] - 1).checked_mul(every_ns);
            return ns.ok_or_else(|| fault("the times go beyond what can be counted").at(at.to_string()));
        };
        let offset = self.options.utc_offset.unwrap_or_default();
        let dated = date.is_some() || self.options.date.is_some();
        if dated && self.options.utc_offset.is_none() {
            notes.remark("a local time, taken as UTC (--utc-offset says otherwise)", at);
        }
        let clock = time_of_day(time).ok_or_else(|| {
            refuse(format!("found \"{}\"; a time such as 12:00:09 is wanted", shortened(time)), "Time")
        })?;
        let midnight_ns = if let Some(date) = date {
            midnight(date).ok_or_else(|| {
                refuse(format!("found \"{}\"; a day such as 20260723 is wanted", shortened(date)), "Date")
            })?
        } else {
            // A time of day that falls by hours is that of the next day.
            let (before, days) = self.day.unwrap_or((clock, 0));
            let days = days + u64::from(before > clock && before - clock > DAY_NS / 2);
            self.day = Some((clock, days));
            self.date_ns + days * DAY_NS
        };
        let ns = i128::from(midnight_ns) + i128::from(clock);
        let ns = if dated { offset.to_utc(ns) } else { ns };
        u64::try_from(ns).map_err(|_| refuse("the moment lies before 1970".to_owned(), "Time"))
    }

    fn finish(self, notes: &mut Notes) -> Result<Telemetry, Fault> {
        let dated = self.names.iter().any(|name| name == "Date") || self.options.date.is_some();
        let timed = self.names.iter().any(|name| name == "Time");
        self.gathering.finish(self.options.sort, dated && timed, notes)
    }
}

/// The beginning of a day such as `20260723`.
fn midnight(date: &str) -> Option<u64> {
    let day = format!("{}-{}-{}", date.get(..4)?, date.get(4..6)?, date.get(6..)?);
    moment(&format!("{day} 00:00:00"), UtcOffset::default())
}
