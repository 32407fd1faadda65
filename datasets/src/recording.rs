//! Recordings: what GPUs showed while they worked, one row for each device and moment.
//!
//! It is the one form in which telemetry goes about here: the recorder writes it, every import makes it,
//! and the fits read it. Units are those of the columns' names; bytes are bytes (no MiB), shares are 0 to 1.
//! What a device did not tell is a null, never a 0.

use std::path::Path;

use crate::frames::{Table, TableColumn, TableError, TableWriter, Values, read_parquet};

/// What one device showed at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Nanoseconds from the start of the recording, by a clock that does not jump.
    pub t_ns: u64,
    /// The same moment by the wall clock: nanoseconds since 1970, UTC.
    pub wall_ns: u64,
    /// Index of the device in the recording, from 0.
    pub device: u32,
    /// Its lasting name, such as `GPU-777aa4a9` or `MIG-…`; empty if it has none.
    pub uuid: String,
    /// What it is, such as `NVIDIA A10`; empty if unknown.
    pub name: String,
    /// Memory in use, bytes, without what the driver reserves.
    pub memory_used: Option<f64>,
    /// Memory that the driver reserves, bytes.
    pub memory_reserved: Option<f64>,
    /// Memory that is free, bytes.
    pub memory_free: Option<f64>,
    /// Memory that there is, bytes.
    pub memory_total: Option<f64>,
    /// Share of the last period in which a kernel ran.
    pub busy: Option<f64>,
    /// Share of the last period in which memory was read or written.
    pub memory_busy: Option<f64>,
    /// Power, watts.
    pub power_w: Option<f64>,
    /// Energy since the driver was loaded, joules.
    pub energy_j: Option<f64>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<f64>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<f64>,
    /// Why it is throttled, as NVML's bits; 0: it is not.
    pub throttle: Option<f64>,
}

/// A column of numbers that may be missing: its name, its unit, and its place in a sample.
type Number = (&'static str, &'static str, fn(&mut Sample) -> &mut Option<f64>);

pub(crate) const NUMBERS: [Number; 12] = [
    ("memory_used", "B", |sample| &mut sample.memory_used),
    ("memory_reserved", "B", |sample| &mut sample.memory_reserved),
    ("memory_free", "B", |sample| &mut sample.memory_free),
    ("memory_total", "B", |sample| &mut sample.memory_total),
    ("busy", "", |sample| &mut sample.busy),
    ("memory_busy", "", |sample| &mut sample.memory_busy),
    ("power_w", "W", |sample| &mut sample.power_w),
    ("energy_j", "J", |sample| &mut sample.energy_j),
    ("temperature_c", "\u{b0}C", |sample| &mut sample.temperature_c),
    ("sm_clock_mhz", "MHz", |sample| &mut sample.sm_clock_mhz),
    ("memory_clock_mhz", "MHz", |sample| &mut sample.memory_clock_mhz),
    ("throttle", "", |sample| &mut sample.throttle),
];

/// The samples as a table, one row each.
pub fn table(samples: &[Sample]) -> Table {
    let whole = |of: fn(&Sample) -> u64| Values::U64(samples.iter().map(of).collect());
    let text = |of: fn(&Sample) -> &str| Values::Str(samples.iter().map(|s| of(s).to_owned()).collect());
    let mut columns = vec![
        TableColumn::new("t_ns", "ns", whole(|sample| sample.t_ns)),
        TableColumn::new("wall_ns", "ns", whole(|sample| sample.wall_ns)),
        TableColumn::new("device", "", whole(|sample| u64::from(sample.device))),
        TableColumn::new("uuid", "", text(|sample| &sample.uuid)),
        TableColumn::new("name", "", text(|sample| &sample.name)),
    ];
    // The places are reached through a sample that may be changed: one copy serves all columns.
    let mut copies = samples.to_vec();
    for (name, unit, field) in NUMBERS {
        let values = copies.iter_mut().map(|sample| *field(sample)).collect();
        columns.push(TableColumn::new(name, unit, Values::MaybeF64(values)));
    }
    Table { columns }
}

/// Begins a recording that is written piece by piece and exists whole or not at all; see [`TableWriter`].
///
/// # Errors
/// [`TableError`]: the file exists and may not be overwritten, or it cannot be written.
pub fn create(path: &Path, overwrite: bool) -> Result<TableWriter, TableError> {
    TableWriter::create(path, &table(&[]), overwrite)
}

/// Reads a recording. Columns that it does not know are left out, and those that are missing are nulls; only
/// `t_ns` must be there.
///
/// # Errors
/// [`TableError`]: there is no such file, it is no Parquet, or it is no recording.
pub fn read(path: &Path) -> Result<Vec<Sample>, TableError> {
    let table = read_parquet(path)?;
    let unfit = |reason: &str| TableError::Shape { path: path.to_owned(), reason: reason.to_owned() };
    let column = |name: &str| table.columns.iter().find(|column| column.name == name).map(|c| &c.values);
    let Some(Values::U64(times)) = column("t_ns") else {
        return Err(unfit("a recording has a column `t_ns` of whole numbers, which this file lacks"));
    };
    let mut samples: Vec<Sample> = times.iter().map(|&t_ns| Sample { t_ns, ..Sample::default() }).collect();
    if let Some(Values::U64(walls)) = column("wall_ns") {
        samples.iter_mut().zip(walls).for_each(|(sample, &wall)| sample.wall_ns = wall);
    }
    if let Some(Values::U64(devices)) = column("device") {
        for (sample, &device) in samples.iter_mut().zip(devices) {
            sample.device = u32::try_from(device).map_err(|_| unfit("`device` holds no index"))?;
        }
    }
    for (name, field) in [
        ("uuid", (|sample| &mut sample.uuid) as fn(&mut Sample) -> &mut String),
        ("name", |sample| &mut sample.name),
    ] {
        if let Some(Values::Str(texts)) = column(name) {
            samples.iter_mut().zip(texts).for_each(|(sample, text)| text.clone_into(field(sample)));
        }
    }
    for (name, _, field) in NUMBERS {
        match column(name) {
            Some(Values::MaybeF64(values)) => {
                samples.iter_mut().zip(values).for_each(|(sample, value)| *field(sample) = *value);
            }
            Some(Values::F64(values)) => {
                samples.iter_mut().zip(values).for_each(|(sample, value)| *field(sample) = Some(*value));
            }
            Some(_) => return Err(unfit(&format!("`{name}` does not hold numbers"))),
            None => {}
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Folder;

    fn sample(t_ns: u64) -> Sample {
        Sample {
            t_ns,
            wall_ns: 1_790_000_000_000_000_000 + t_ns,
            device: (t_ns % 2) as u32,
            uuid: "GPU-1".to_owned(),
            name: "NVIDIA A10".to_owned(),
            memory_used: (t_ns > 1).then_some(t_ns as f64),
            busy: Some(0.5),
            ..Sample::default()
        }
    }

    #[test]
    fn recordings_come_back_as_written_piece_by_piece() {
        let folder = Folder::new("recordings");
        let path = folder.path("gpu.parquet");
        let mut writer = create(&path, false).unwrap();
        writer.write(&table(&[sample(0), sample(1)])).unwrap();
        writer.write(&table(&[sample(2)])).unwrap();
        writer.finish().unwrap();
        assert_eq!(read(&path).unwrap(), [sample(0), sample(1), sample(2)]);
    }

    #[test]
    fn a_recording_without_rows_reads() {
        let folder = Folder::new("no-samples");
        let path = folder.path("gpu.parquet");
        create(&path, false).unwrap().finish().unwrap();
        assert_eq!(read(&path).unwrap(), []);
    }

    #[test]
    fn another_table_is_refused() {
        let folder = Folder::new("no-recording");
        let path = folder.path("other.parquet");
        let other = Table { columns: vec![TableColumn::new("a", "", Values::U64(vec![1]))] };
        crate::frames::write_parquet(&path, &other, false).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("t_ns"));
    }
}
