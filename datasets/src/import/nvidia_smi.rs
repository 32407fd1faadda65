//! CSV of `nvidia-smi --query-gpu=… --format=csv`, with or without header and units.
//!
//! Traps of real files: `[N/A]` and its kin; a header again after every restart, perhaps with other columns;
//! lines of text when a device is lost; a last line cut off; local times without a zone; several devices whose
//! rows take turns.

use std::rc::Rc;

use super::clock::{has_zone, moment};
use super::error::{Fault, fault};
use super::options::Options;
use super::quantity::{Cell, Quantity, cell};
use super::report::{At, Notes};
use super::telemetry::{Field, Gathering, Row, Telemetry};
use crate::trace::layout::shortened;

/// What a column is.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    Time,
    Index,
    Uuid,
    Name,
    /// Tells devices apart where there is no uuid.
    OtherKey,
    Number(Field),
    /// Kept beside the columns of recordings.
    Extra,
    /// Left out.
    Left,
}

/// A header.
#[derive(Clone, Debug)]
struct Header {
    names: Vec<String>,
    /// Units in brackets behind the names.
    units: Vec<String>,
    columns: Vec<Column>,
    /// The column by which devices are told apart.
    key: Option<usize>,
}

/// The columns that recordings have, by the names of the tool.
fn column(name: &str) -> Column {
    use Quantity::{Bits, Clock, Memory, Power, Share, Temperature};
    let number = |column, quantity, unit| Column::Number(Field::new(column, quantity, unit));
    match name {
        "timestamp" => Column::Time,
        "index" => Column::Index,
        "uuid" | "gpu_uuid" => Column::Uuid,
        "name" | "gpu_name" => Column::Name,
        "serial" | "gpu_serial" | "pci.bus_id" | "gpu_bus_id" => Column::OtherKey,
        "memory.total" => number("memory_total", Memory, "MiB"),
        "memory.reserved" => number("memory_reserved", Memory, "MiB"),
        "memory.used" => number("memory_used", Memory, "MiB"),
        "memory.free" => number("memory_free", Memory, "MiB"),
        "utilization.gpu" => number("busy", Share, "%"),
        "utilization.memory" => number("memory_busy", Share, "%"),
        "power.draw" => number("power_w", Power, "W"),
        "temperature.gpu" => number("temperature_c", Temperature, "C"),
        "clocks.sm" | "clocks.current.sm" => number("sm_clock_mhz", Clock, "MHz"),
        "clocks.mem" | "clocks.current.memory" => number("memory_clock_mhz", Clock, "MHz"),
        "clocks_throttle_reasons.active" | "clocks_event_reasons.active" => number("throttle", Bits, ""),
        _ => Column::Extra,
    }
}

/// Whether all cells are names of columns, with units behind them or not: in a row of values some begin with
/// a digit, a capital or a bracket.
pub(super) fn is_header(line: &str) -> bool {
    let name = |cell: &str| {
        let name = split_unit(cell).0;
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b))
    };
    line.split(',').all(name)
}

/// A name and the unit in brackets behind it.
fn split_unit(cell: &str) -> (&str, &str) {
    match cell.trim().split_once('[') {
        Some((name, unit)) => (name.trim(), unit.trim_end_matches(']').trim()),
        None => (cell.trim(), ""),
    }
}

impl Header {
    fn of(cells: &[&str], at: At, notes: &mut Notes) -> Result<Self, Fault> {
        let (names, units): (Vec<&str>, Vec<&str>) = cells.iter().map(|cell| split_unit(cell)).unzip();
        let fail = |what: String, name: &str| Err(fault(what).at(at.to_string()).column(&shortened(name)));
        let mut columns: Vec<Column> = Vec::new();
        for (index, (name, unit)) in names.iter().zip(&units).enumerate() {
            if names[..index].contains(name) {
                return fail("the column stands there twice; names must differ".to_owned(), name);
            }
            let mut found = column(name);
            if let Column::Number(field) = &found
                && !unit.is_empty()
                && field.quantity.convert(0.0, unit).is_none()
            {
                return fail(
                    format!("its unit is {}; {} is wanted", shortened(unit), field.quantity.units()),
                    name,
                );
            }
            // Both clocks have two names; the second of a pair says the same again.
            if columns.contains(&found) && matches!(found, Column::Number(_)) {
                notes.dropped(
                    &format!("column `{}`, which says again what another one does", shortened(name)),
                    at,
                );
                found = Column::Left;
            }
            columns.push(found);
        }
        let key = [Column::Uuid, Column::OtherKey, Column::Index];
        let key = key.iter().find_map(|kind| columns.iter().position(|column| column == kind));
        if !columns.iter().any(|column| matches!(column, Column::Number(_))) {
            return Err(fault(
                "none of the columns is one that recordings have, such as memory.used, utilization.gpu or power.draw",
            )
            .at(at.to_string()));
        }
        let own = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        Ok(Self { names: own(names), units: own(units), columns, key })
    }
}

pub(super) fn read(text: &str, options: &Options, notes: &mut Notes) -> Result<Telemetry, Fault> {
    let mut reader = Reader {
        options,
        gathering: Gathering::default(),
        header: None,
        given: None,
        ticks: Vec::new(),
        texts: Vec::new(),
    };
    if !options.columns.is_empty() {
        let cells: Vec<&str> = options.columns.iter().map(String::as_str).collect();
        let header = Header::of(&cells, At::Line(0), notes).map_err(|_| {
            fault("--columns names the columns as --query-gpu does, each once, such as timestamp,memory.used")
        })?;
        reader.given = Some(header.names.clone());
        reader.header = Some(Rc::new(header));
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
    header: Option<Rc<Header>>,
    /// The names that --columns gave.
    given: Option<Vec<String>>,
    /// Rows so far by device, for files without times.
    ticks: Vec<u64>,
    /// Extra columns that turned out to hold text.
    texts: Vec<String>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str, at: At, cut: bool, notes: &mut Notes) -> Result<(), Fault> {
        if line.trim().is_empty() {
            notes.dropped("a blank line", at);
            return Ok(());
        }
        let cells: Vec<&str> = line.split(',').collect();
        if is_header(line) {
            return self.new_header(&cells, at, notes);
        }
        let Some(header) = self.header.clone() else {
            let advice = "there is no header: name the columns with --columns, such as timestamp,memory.used,power.draw";
            return Err(fault(advice).at(at.to_string()));
        };
        if cells.len() != header.columns.len() {
            if cut {
                notes.dropped("the last line, which is cut off", at);
                return Ok(());
            }
            if is_message(line) {
                notes.dropped("a message of the tool", at);
                return Ok(());
            }
            let (found, wanted) = (cells.len(), header.columns.len());
            return Err(fault(format!(
                "found {found} fields, where {wanted} are wanted, one for each column"
            ))
            .at(at.to_string()));
        }
        self.row(&header, &cells, at, notes)
    }

    fn new_header(&mut self, cells: &[&str], at: At, notes: &mut Notes) -> Result<(), Fault> {
        let header = Header::of(cells, at, notes)?;
        if let Some(given) = &self.given
            && *given != header.names
        {
            let what = "the file has a header of its own, and --columns says otherwise: leave --columns out";
            return Err(fault(what).at(at.to_string()));
        }
        match &self.header {
            Some(before) if before.names == header.names => notes.dropped("a repeated header", at),
            Some(_) => notes.remark("a header with other columns: from here on they are read by it", at),
            None => {}
        }
        self.header = Some(Rc::new(header));
        Ok(())
    }

    fn row(&mut self, header: &Header, cells: &[&str], at: At, notes: &mut Notes) -> Result<(), Fault> {
        let place_of = |wanted: &Column| header.columns.iter().position(|column| column == wanted);
        let text_of = |wanted: &Column| place_of(wanted).map(|place| cells[place].trim());
        let stated = text_of(&Column::Index).map(|text| {
            text.parse::<u32>().map_err(|_| {
                let what = format!("found \"{}\"; the number of a device is wanted", shortened(text));
                fault(what).at(at.to_string()).column("index")
            })
        });
        let index = stated.transpose()?.or(self.options.device);
        let key = header.key.map_or("", |place| cells[place].trim());
        let device = self.gathering.device(key, index);
        if self.gathering.devices[device].name.is_empty() {
            let known =
                |text: Option<&str>| text.filter(|text| !text.starts_with('[')).unwrap_or("").to_owned();
            self.gathering.devices[device].name = known(text_of(&Column::Name));
            self.gathering.devices[device].uuid = known(text_of(&Column::Uuid));
        }
        let at_ns = self.time(text_of(&Column::Time), device, at, notes)?;
        let mut row = Row::new(at, at_ns, device);
        for (place, text) in cells.iter().enumerate() {
            let (name, column) = (&header.names[place], &header.columns[place]);
            match column {
                Column::Number(field) => {
                    let value = number(text, *field, &header.units[place], name, notes, at);
                    let value = value.map_err(|fault| fault.at(at.to_string()).column(name))?;
                    row.values[field.place] = value;
                }
                Column::Extra => self.extra(&mut row, name, &header.units[place], text, notes),
                _ => {}
            }
        }
        self.gathering.rows.push(row);
        Ok(())
    }

    fn extra(&mut self, row: &mut Row, name: &str, unit: &str, text: &str, notes: &mut Notes) {
        if self.texts.iter().any(|known| known == name) {
            return;
        }
        match cell(text) {
            Cell::Number(value, own) => {
                let unit = if unit.is_empty() { own } else { unit };
                let Some(place) = self.gathering.extra(name, unit) else { return };
                row.set_extra(place, value);
            }
            Cell::NotTold(_) => {}
            Cell::Text => {
                notes.dropped(&format!("column `{}`, which holds text", shortened(name)), row.at);
                self.texts.push(name.to_owned());
            }
        }
    }

    fn time(&mut self, text: Option<&str>, device: usize, at: At, notes: &mut Notes) -> Result<u64, Fault> {
        if let Some(text) = text {
            let offset = self.options.utc_offset;
            let found = moment(text, offset.unwrap_or_default());
            if offset.is_none() && !has_zone(text) {
                notes.remark("a local time, taken as UTC (--utc-offset says otherwise)", at);
            }
            return found.ok_or_else(|| {
                let what = format!(
                    "found \"{}\"; a time such as 2026/07/23 12:00:09.000 is wanted",
                    shortened(text)
                );
                fault(what).at(at.to_string()).column("timestamp")
            });
        }
        let every_ns = self.options.every_ns().ok_or_else(|| {
            fault("no column tells the time: ask for `timestamp` too, or give the time between two rows with --every")
                .at(at.to_string())
        })?;
        self.ticks.resize(self.ticks.len().max(device + 1), 0);
        self.ticks[device] += 1;
        (self.ticks[device] - 1).checked_mul(every_ns).ok_or_else(|| {
            fault("the times go beyond what can be counted: --every is too long").at(at.to_string())
        })
    }

    fn finish(self, notes: &mut Notes) -> Result<Telemetry, Fault> {
        let header = self.header.as_deref();
        if header.is_some_and(|header| header.key.is_none()) && self.options.device.is_none() {
            refuse_mixed(&self.gathering)?;
        }
        let dated = header.is_some_and(|header| header.columns.contains(&Column::Time));
        self.gathering.finish(self.options.sort, dated, notes)
    }
}

/// A number in the unit of recordings; NaN if it was not told or cannot be.
fn number(text: &str, field: Field, unit: &str, name: &str, notes: &mut Notes, at: At) -> Result<f64, Fault> {
    match cell(text) {
        Cell::Number(value, own) => {
            let unit = [own, unit, field.unit].into_iter().find(|unit| !unit.is_empty()).unwrap_or("");
            let Some(value) = field.quantity.convert(value, unit) else {
                return Err(fault(format!(
                    "its unit is {}; {} is wanted",
                    shortened(unit),
                    field.quantity.units()
                )));
            };
            match field.quantity.impossible(value) {
                Some(why) => {
                    notes.dropped(&format!("a value of `{name}` {why}"), at);
                    Ok(f64::NAN)
                }
                None => Ok(value),
            }
        }
        Cell::NotTold(word) => {
            notes
                .dropped(&format!("`{name}` not told: {}", if word.is_empty() { "empty" } else { word }), at);
            Ok(f64::NAN)
        }
        Cell::Text => Err(fault(format!(
            "found \"{}\"; a number is wanted, in {}, or [N/A]",
            shortened(text.trim()),
            field.quantity.units()
        ))),
    }
}

/// Lines that the tool writes among the rows when something goes wrong.
fn is_message(line: &str) -> bool {
    const BEGINNINGS: [&str; 6] =
        ["Unable to determine", "NVIDIA-SMI has failed", "Failed to", "No devices", "GPU ", "Terminated"];
    BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
}

/// Without a column that tells devices apart, rows of several of them would become one device that jumps. They
/// betray themselves by other sizes, by equal moments, and by steps that alternate between short and long.
fn refuse_mixed(gathering: &Gathering) -> Result<(), Fault> {
    let mixed = |at: At, how: &str| {
        Err(fault(format!(
            "the rows look like those of several devices ({how}), and no column tells them apart: ask for `index` or \
             `uuid` too; if it is one device, say so with --device 0"
        ))
        .at(at.to_string()))
    };
    let rows = &gathering.rows;
    let total = Field::new("memory_total", Quantity::Memory, "MiB").place;
    let sizes = rows.windows(2).find(|pair| {
        let (a, b) = (pair[0].values[total], pair[1].values[total]);
        !a.is_nan() && !b.is_nan() && a != b
    });
    if let Some(pair) = sizes {
        return mixed(pair[1].at, "memory.total changes");
    }
    let mut steps: Vec<u64> =
        rows.windows(2).map(|pair| pair[1].at_ns.saturating_sub(pair[0].at_ns)).collect();
    if steps.len() < 8 {
        return Ok(());
    }
    let total = steps.len();
    let equal = steps.iter().filter(|step| **step == 0).count();
    steps.sort_unstable();
    let long = steps[total - 1 - total / 20];
    let short = steps.iter().filter(|step| **step < long / 5).count();
    if equal * 4 > total || short * 4 > total {
        return mixed(rows[1].at, "their times come in bunches");
    }
    Ok(())
}
