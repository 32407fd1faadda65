//! Telemetry on its way to a recording: rows of devices, put in order.

use std::path::Path;

use super::clock::seconds;
use super::error::{Fault, fault};
use super::gaps::Steps;
use super::quantity::Quantity;
use super::report::{At, Gaps, Notes, Report};
use crate::frames::{Table, TableColumn, TableError, TableWriter, Values};
use crate::recording::{self, NUMBERS, Sample};

/// Rows that are written at once.
const PIECE: usize = 100_000;
/// Columns beside those of a recording that are kept at most.
const MOST_EXTRA: usize = 200;

/// Telemetry that was imported: a recording, with the columns of the file that recordings do not have beside.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    devices: Vec<Device>,
    rows: Vec<Row>,
    /// Name and unit of the further columns, as the file has them.
    extra: Vec<(String, String)>,
    dated: bool,
    origin_ns: u64,
    period_s: Option<f64>,
    gaps: Option<Gaps>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Device {
    pub(super) key: String,
    pub(super) index: Option<u32>,
    pub(super) uuid: String,
    pub(super) name: String,
}

/// A row; NaN: not told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) at: At,
    pub(super) at_ns: u64,
    pub(super) device: usize,
    pub(super) values: [f64; NUMBERS.len()],
    pub(super) extra: Vec<f64>,
}

impl Row {
    pub(super) fn new(at: At, at_ns: u64, device: usize) -> Self {
        Self { at, at_ns, device, values: [f64::NAN; NUMBERS.len()], extra: Vec::new() }
    }

    /// Sets one of the further columns.
    pub(super) fn set_extra(&mut self, place: usize, value: f64) {
        if self.extra.len() <= place {
            self.extra.resize(place + 1, f64::NAN);
        }
        self.extra[place] = value;
    }
}

/// Where a value of a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The column of recordings.
    pub(super) place: usize,
    pub(super) quantity: Quantity,
    /// Its unit, where the file does not say.
    pub(super) unit: &'static str,
}

impl Field {
    /// The column of this name; the name is one of recordings'.
    pub(super) fn new(column: &str, quantity: Quantity, unit: &'static str) -> Self {
        let place = NUMBERS.iter().position(|(name, ..)| *name == column);
        Self { place: place.expect("the name is one of the columns of recordings"), quantity, unit }
    }
}

/// Rows while they are read.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    pub(super) devices: Vec<Device>,
    pub(super) rows: Vec<Row>,
    extra: Vec<(String, String)>,
}

impl Gathering {
    /// The device of this key; a new one, if it is not known yet.
    pub(super) fn device(&mut self, key: &str, index: Option<u32>) -> usize {
        // The rows of a file mostly come from few devices in turn.
        if let Some(place) = self.devices.iter().position(|device| device.key == key) {
            return place;
        }
        self.devices.push(Device { key: key.to_owned(), index, ..Device::default() });
        self.devices.len() - 1
    }

    /// The place of a further column; none, if there are too many.
    pub(super) fn extra(&mut self, name: &str, unit: &str) -> Option<usize> {
        if let Some(place) = self.extra.iter().position(|(known, _)| known == name) {
            return Some(place);
        }
        if self.extra.len() >= MOST_EXTRA {
            return None;
        }
        self.extra.push((name.to_owned(), unit.to_owned()));
        Some(self.extra.len() - 1)
    }

    /// Puts the rows in order. `dated`: their times are moments, and not only times of day or since a start.
    pub(super) fn finish(mut self, sort: bool, dated: bool, notes: &mut Notes) -> Result<Telemetry, Fault> {
        if sort {
            let sorted = self.rows.is_sorted_by_key(|row| row.at_ns);
            if let (false, Some(pair)) =
                (sorted, self.rows.windows(2).find(|pair| pair[1].at_ns < pair[0].at_ns))
            {
                notes.remark("the rows were sorted by time", pair[1].at);
                self.rows.sort_by_key(|row| row.at_ns);
            }
        }
        let mut last: Vec<Option<u64>> = vec![None; self.devices.len()];
        let mut steps = Steps::default();
        self.rows.retain(|row| {
            let before = last[row.device];
            match before {
                Some(before) if row.at_ns == before => {
                    notes.dropped("a second row of a device at the same moment", row.at);
                    return false;
                }
                Some(before) if row.at_ns < before => {
                    notes.dropped("a time before that of the row above (--sort sorts instead)", row.at);
                    return false;
                }
                Some(before) => steps.add(row.at_ns - before, row.at),
                None => {}
            }
            last[row.device] = Some(row.at_ns);
            true
        });
        if self.rows.is_empty() {
            return Err(fault("there are no rows with values in it"));
        }
        self.number_devices(notes);
        // Files of several devices may begin with any of them.
        self.rows.sort_by_key(|row| row.at_ns);
        let origin_ns = self.rows.first().map_or(0, |row| row.at_ns);
        let (period_s, gaps) = steps.judge();
        Ok(Telemetry {
            devices: self.devices,
            rows: self.rows,
            extra: self.extra,
            dated,
            origin_ns,
            period_s,
            gaps,
        })
    }

    /// Gives every device a number of its own: the file's, if they differ.
    fn number_devices(&mut self, notes: &mut Notes) {
        let mut numbers: Vec<Option<u32>> = self.devices.iter().map(|device| device.index).collect();
        numbers.sort_unstable();
        let own = numbers.iter().all(Option::is_some) && numbers.windows(2).all(|pair| pair[0] != pair[1]);
        if own {
            return;
        }
        let row = self.rows.iter().find(|row| self.devices[row.device].index.is_some());
        if let Some(row) = row {
            notes.remark("devices share a number or have none: they are numbered as they appear", row.at);
        }
        for (number, device) in self.devices.iter_mut().enumerate() {
            device.index = u32::try_from(number).ok();
        }
    }
}

impl Telemetry {
    /// Rows that there are.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The names of the columns beside those of a recording, as the file has them.
    pub fn further_columns(&self) -> impl Iterator<Item = &str> {
        self.extra.iter().map(|(name, _)| name.as_str())
    }

    /// The rows as samples.
    pub fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        self.rows.iter().map(|row| self.sample(row))
    }

    fn sample(&self, row: &Row) -> Sample {
        let device = &self.devices[row.device];
        let mut sample = Sample {
            t_ns: row.at_ns - self.origin_ns,
            wall_ns: if self.dated { row.at_ns } else { 0 },
            device: device.index.unwrap_or_default(),
            uuid: device.uuid.clone(),
            name: device.name.clone(),
            ..Sample::default()
        };
        for ((_, _, field), &value) in NUMBERS.iter().zip(&row.values) {
            *field(&mut sample) = told(value);
        }
        sample
    }

    fn piece(&self, rows: &[Row]) -> Table {
        let samples: Vec<Sample> = rows.iter().map(|row| self.sample(row)).collect();
        let mut table = recording::table(&samples);
        for (place, (name, unit)) in self.extra.iter().enumerate() {
            let values = rows.iter().map(|row| row.extra.get(place).copied().and_then(told)).collect();
            table.columns.push(TableColumn::new(name, unit, Values::MaybeF64(values)));
        }
        table
    }

    /// Writes the recording, whole or not at all.
    ///
    /// # Errors
    /// [`TableError`]: the file exists and may not be overwritten, or it cannot be written.
    pub fn write(&self, path: &Path, overwrite: bool) -> Result<(), TableError> {
        let mut pieces = self.rows.chunks(PIECE);
        let first = self.piece(pieces.next().unwrap_or_default());
        let mut writer = TableWriter::create(path, &first, overwrite)?;
        for rows in pieces {
            writer.write(&self.piece(rows))?;
        }
        writer.finish()
    }

    pub(super) fn describe(&self, report: Report) -> Report {
        let source = |device: &Device| {
            let number = device.index.unwrap_or_default();
            let name = if device.uuid.is_empty() { &device.name } else { &device.uuid };
            if name.is_empty() { format!("device {number}") } else { format!("device {number} ({name})") }
        };
        let last = self.rows.last().map_or(0, |row| row.at_ns);
        Report {
            rows: self.rows.len() as u64,
            sources: self.devices.iter().map(source).collect(),
            span_s: seconds(last - self.origin_ns),
            period_s: self.period_s,
            gaps: self.gaps.clone(),
            kept: self.further_columns().map(str::to_owned).collect(),
            ..report
        }
    }
}

/// NaN stands for what was not told.
fn told(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}
