//! Facts of devices out of two sets of YAML files. Both are plain mappings; a reader for a whole language
//! is not needed for a dozen numbers in each.

use std::collections::BTreeMap;

use super::super::calibration::{DeviceFacts, sha256};
use super::Read;

/// Facts by device, and the hash of the files they come from.
pub(super) type Facts = (BTreeMap<String, DeviceFacts>, String);

const NVML: [&str; 5] = ["a100", "b200", "h100", "l40s", "t4"];
const SHEETS: [&str; 9] =
    ["a100_pcie", "a100_sxm", "a30", "b200_sxm", "h100_sxm", "h200_sxm", "l4", "l40s", "rtx_pro_6000_server"];

const W_OF_MW: f64 = 1e-3;

pub(super) fn of_nvml(read: Read<'_>) -> Result<Facts, String> {
    facts("nvml-profiles", &NVML, read, |text| {
        let number = |path: &[&str]| value(text, path)?.parse::<f64>().ok();
        let of = |path: [&str; 2]| number(&["device_defaults", path[0], path[1]]);
        Some(DeviceFacts {
            name: value(text, &["device_defaults", "name"]).map(str::to_owned),
            memory_bytes: Some(of(["memory", "total_bytes"])?),
            reserved_bytes: Some(of(["memory", "reserved_bytes"])?),
            power_limit_w: Some(of(["power", "default_limit_mw"])? * W_OF_MW),
            power_idle_w: Some(of(["power", "current_draw_mw"])? * W_OF_MW),
            ..DeviceFacts::default()
        })
    })
}

pub(super) fn of_data_sheets(read: Read<'_>) -> Result<Facts, String> {
    facts("aiconfigurator", &SHEETS, read, |text| {
        let number = |part: &str, name: &str| value(text, &[part, name])?.parse::<f64>().ok();
        Some(DeviceFacts {
            memory_bytes: Some(number("gpu", "mem_capacity")?),
            power_limit_w: number("gpu", "power"),
            bandwidth_bytes_per_s: Some(number("gpu", "mem_bw")?),
            bf16_per_s: number("gpu", "bfloat16_tc_flops"),
            fp8_per_s: number("gpu", "fp8_tc_flops"),
            link_bytes_per_s: number("node", "intra_node_bw"),
            ..DeviceFacts::default()
        })
    })
}

fn facts(
    folder: &str,
    names: &[&str],
    read: Read<'_>,
    of: impl Fn(&str) -> Option<DeviceFacts>,
) -> Result<Facts, String> {
    let mut devices = BTreeMap::new();
    let mut together = String::new();
    for name in names {
        let file = format!("{folder}/{name}.yaml");
        let text = read(&file)?;
        let facts = of(&text).ok_or_else(|| format!("{file}: memory or bandwidth is missing"))?;
        devices.insert(name.replace('_', "-"), facts);
        together += &text;
    }
    Ok((devices, sha256(together.as_bytes())))
}

/// The plain value at a path of a YAML mapping of mappings.
fn value<'a>(text: &'a str, path: &[&str]) -> Option<&'a str> {
    let mut above: Vec<(usize, &str)> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let Some((key, rest)) = content.split_once(':') else { continue };
        let indent = line.len() - content.len();
        above.retain(|(outer, _)| *outer < indent);
        above.push((indent, key.trim()));
        if above.iter().map(|(_, key)| *key).eq(path.iter().copied()) {
            let rest = rest.split(" #").next().unwrap_or_default().trim();
            let value = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(rest);
            return (!value.is_empty()).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_are_found_by_path() {
        let text = "a:\n  # b: 1\n  b: 2   # two\n  c:\n    b: \"x y\"\nb: 3\n";
        assert_eq!(value(text, &["a", "b"]), Some("2"));
        assert_eq!(value(text, &["a", "c", "b"]), Some("x y"));
        assert_eq!(value(text, &["b"]), Some("3"));
        assert_eq!(value(text, &["a", "c"]), None);
        assert_eq!(value(text, &["c"]), None);
    }
}
