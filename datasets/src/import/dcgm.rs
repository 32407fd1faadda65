//! Metrics of the DCGM exporter. It has numbers of its own for values that were not told, and MIG instances as
//! labels.

use std::collections::BTreeMap;

use super::error::{Fault, fault};
use super::options::Options;
use super::points::{self, Point};
use super::quantity::Quantity;
use super::report::Notes;
use super::telemetry::{Field, Gathering, Row, Telemetry};
use crate::trace::layout::shortened;

/// What all of its metrics begin with.
pub(super) const PREFIX: &str = "DCGM_FI_";

fn field(name: &str) -> Option<Field> {
    use Quantity::{Bits, Clock, Energy, Memory, Power, Share, Temperature};
    Some(match name {
        "DCGM_FI_DEV_FB_USED" => Field::new("memory_used", Memory, "MiB"),
        "DCGM_FI_DEV_FB_FREE" => Field::new("memory_free", Memory, "MiB"),
        "DCGM_FI_DEV_FB_RESERVED" => Field::new("memory_reserved", Memory, "MiB"),
        "DCGM_FI_DEV_FB_TOTAL" => Field::new("memory_total", Memory, "MiB"),
        "DCGM_FI_DEV_GPU_UTIL" => Field::new("busy", Share, "%"),
        "DCGM_FI_DEV_MEM_COPY_UTIL" => Field::new("memory_busy", Share, "%"),
        "DCGM_FI_DEV_POWER_USAGE" => Field::new("power_w", Power, "W"),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" => Field::new("energy_j", Energy, "mJ"),
        "DCGM_FI_DEV_GPU_TEMP" => Field::new("temperature_c", Temperature, "C"),
        "DCGM_FI_DEV_SM_CLOCK" => Field::new("sm_clock_mhz", Clock, "MHz"),
        "DCGM_FI_DEV_MEM_CLOCK" => Field::new("memory_clock_mhz", Clock, "MHz"),
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS" | "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" => {
            Field::new("throttle", Bits, "")
        }
        _ => return None,
    })
}

/// What one of DCGM's four numbers for "no value" says; each exists for 32 bits, 64 bits and fractions. A float
/// cannot tell the four of 64 bits apart.
fn blank(value: f64) -> Option<&'static str> {
    const WORDS: [&str; 4] = ["blank", "not found", "not supported", "not permitted"];
    const SMALL: [f64; 2] = [2_147_483_632.0, 140_737_488_355_328.0];
    let small = SMALL.iter().find_map(|first| {
        let beyond = value - first;
        ((0.0..=3.0).contains(&beyond) && beyond.fract() == 0.0).then(|| WORDS[beyond as usize])
    });
    small.or_else(|| (9.223_372e18..=9.223_373e18).contains(&value).then_some("blank"))
}

pub(super) fn read(text: &str, options: &Options, notes: &mut Notes) -> Result<Telemetry, Fault> {
    let mut reader = Reader::default();
    let dated = points::read(text, options, notes, &mut |point, notes| reader.point(point, options, notes))?;
    if !reader.found {
        return Err(fault(
            "there are no metrics of the DCGM exporter in it: their names begin with DCGM_FI_",
        ));
    }
    // Answers of Prometheus come one series after the other.
    reader.gathering.rows.sort_by_key(|row| row.at_ns);
    reader.gathering.finish(options.sort, dated, notes)
}

#[derive(Default)]
struct Reader {
    gathering: Gathering,
    /// The row of a device and moment.
    rows: BTreeMap<(usize, u64), usize>,
    found: bool,
}

impl Reader {
    fn point(&mut self, point: &Point<'_>, options: &Options, notes: &mut Notes) -> Result<(), Fault> {
        if !point.name.starts_with(PREFIX) {
            notes.dropped("values of metrics that are not of the DCGM exporter", point.at);
            return Ok(());
        }
        self.found = true;
        let name = shortened(point.name);
        let why = if point.value.is_nan() { Some("no number") } else { blank(point.value) };
        if let Some(why) = why {
            notes.dropped(&format!("`{name}` not told: {why}"), point.at);
            return Ok(());
        }
        let device = self.device(point, options)?;
        let next = self.gathering.rows.len();
        let index = *self.rows.entry((device, point.at_ns)).or_insert(next);
        if index == next {
            self.gathering.rows.push(Row::new(point.at, point.at_ns, device));
        }
        let Some(field) = field(point.name) else {
            if let Some(place) = self.gathering.extra(point.name, "") {
                self.gathering.rows[index].set_extra(place, point.value);
            }
            return Ok(());
        };
        let value = field.quantity.convert(point.value, field.unit).unwrap_or(f64::NAN);
        if let Some(why) = field.quantity.impossible(value) {
            notes.dropped(&format!("a value of `{name}` {why}"), point.at);
        } else if self.gathering.rows[index].values[field.place].is_nan() {
            self.gathering.rows[index].values[field.place] = value;
        } else {
            notes.dropped(&format!("a second value of `{name}` of a device at the same moment"), point.at);
        }
        Ok(())
    }

    fn device(&mut self, point: &Point<'_>, options: &Options) -> Result<usize, Fault> {
        let (gpu, uuid, instance) = (point.label("gpu"), point.label("UUID"), point.label("GPU_I_ID"));
        let index = if gpu.is_empty() { options.device } else { gpu.parse().ok() };
        if index.is_none() && uuid.is_empty() {
            let what = "the value has neither a label `gpu` nor `UUID`: say which device it is with --device";
            return Err(fault(what).at(point.at.to_string()));
        }
        let key =
            format!("{}/{}/{instance}", point.label("Hostname"), if uuid.is_empty() { gpu } else { uuid });
        let device = self.gathering.device(&key, index);
        let device_of = &mut self.gathering.devices[device];
        if device_of.uuid.is_empty() && device_of.name.is_empty() {
            point.label("modelName").clone_into(&mut device_of.name);
            device_of.uuid = if instance.is_empty() { uuid.to_owned() } else { format!("{uuid}/{instance}") };
        }
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::blank;

    #[test]
    fn numbers_for_no_value_are_known() {
        assert_eq!(blank(9_223_372_036_854_775_794.0), Some("blank"));
        assert_eq!(blank(2_147_483_634.0), Some("not supported"));
        assert_eq!(blank(140_737_488_355_331.0), Some("not permitted"));
        assert_eq!((blank(0.0), blank(2_147_483_631.0), blank(1e19)), (None, None, None));
    }
}
