//! The driver: NVIDIA's library, and the devices that it knows.

use super::RecorderError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// The system's library.
const LIBRARY: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };

/// A device that is asked for: by its index, which stands for its MIG devices too, or by its lasting name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// The driver's index.
    Index(u32),
    /// Such as `GPU-777aa4a9-…` or `MIG-…`, whole.
    Uuid(String),
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(index) => Ok(Self::Index(index)),
            Err(_) if text.starts_with("GPU-") || text.starts_with("MIG-") => Ok(Self::Uuid(text.to_owned())),
            Err(_) => {
                Err("a device is named by its index, or by its lasting name `GPU-…` or `MIG-…`".to_owned())
            }
        }
    }
}

/// Where a device is found: devices cannot be kept across threads, so that each thread looks for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The driver's index of the whole device.
    pub(super) index: u32,
    /// Index of a MIG device on it.
    pub(super) mig: Option<u32>,
}

impl Place {
    /// The device there.
    pub(super) fn open(self, nvml: &Nvml) -> Result<Device<'_>, NvmlError> {
        let whole = nvml.device_by_index(self.index)?;
        match self.mig {
            None => Ok(whole),
            Some(index) => whole.mig_device_by_index(index),
        }
    }
}

/// A device that answers.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) uuid: String,
    pub(super) name: String,
    /// Power that it may draw, watts.
    pub(super) power_limit_w: Option<f64>,
}

/// The library, loaded and begun.
pub(super) struct Driver {
    pub(super) nvml: Arc<Nvml>,
    pub(super) library: String,
    pub(super) version: Option<String>,
    pub(super) nvml_version: Option<String>,
}

impl Driver {
    pub(super) fn open(library: Option<&Path>) -> Result<Self, RecorderError> {
        // A bare name may be a file of this folder: the loader alone would look in the system's only.
        let here = library.map(|path| Path::new(".").join(path)).filter(|path| path.is_file());
        let bare = library.is_some_and(|path| path.parent() == Some(Path::new("")));
        let mut builder = Nvml::builder();
        if let Some(path) = here.as_deref().filter(|_| bare).or(library) {
            builder.lib_path(path.as_os_str());
        }
        let library = library.map_or_else(|| LIBRARY.to_owned(), |path| path.display().to_string());
        let nvml = match builder.init() {
            Ok(nvml) => nvml,
            Err(NvmlError::LibloadingError(error)) => {
                return Err(RecorderError::NoLibrary { library, reason: one_line(&error.to_string()) });
            }
            Err(NvmlError::FailedToLoadSymbol(reason)) => {
                let reason = format!("it is not NVIDIA's management library: {}", one_line(&reason));
                return Err(RecorderError::NoLibrary { library, reason });
            }
            Err(error) => {
                return Err(RecorderError::NoDriver { library, reason: one_line(&error.to_string()) });
            }
        };
        let version = nvml.sys_driver_version().ok();
        let nvml_version = nvml.sys_nvml_version().ok();
        Ok(Self { nvml: Arc::new(nvml), library, version, nvml_version })
    }

    /// The devices that are asked for, whole ones before the MIG devices on each, and those that do not
    /// answer, each with its reason.
    pub(super) fn devices(&self, asked: &[Selector]) -> Result<(Vec<Found>, Vec<String>), RecorderError> {
        let (mut found, mut absent) = (Vec::new(), Vec::new());
        let count = self.nvml.device_count().map_err(|error| RecorderError::NoDriver {
            library: self.library.clone(),
            reason: one_line(&error.to_string()),
        })?;
        for index in 0..count {
            match self.nvml.device_by_index(index) {
                Err(error) => absent.push(format!("device {index}: {error}")),
                Ok(device) => {
                    found.push(describe(&device, Place { index, mig: None }));
                    found.extend(migs(&device, index));
                }
            }
        }
        if found.is_empty() {
            let driver = self.version.clone().unwrap_or_else(|| "of unknown version".to_owned());
            return Err(RecorderError::NoDevice { driver, absent });
        }
        for selector in asked {
            if !found.iter().any(|device| is_meant(device, selector)) {
                let asked = match selector {
                    Selector::Index(index) => index.to_string(),
                    Selector::Uuid(uuid) => uuid.clone(),
                };
                let known: Vec<String> =
                    found.iter().map(|device| format!("{} ({})", device.place.index, device.uuid)).collect();
                return Err(RecorderError::UnknownDevice { asked, known: known.join(", ") });
            }
        }
        if !asked.is_empty() {
            found.retain(|device| asked.iter().any(|selector| is_meant(device, selector)));
        }
        Ok((found, absent))
    }
}

fn is_meant(device: &Found, selector: &Selector) -> bool {
    match selector {
        Selector::Index(index) => device.place.index == *index,
        Selector::Uuid(uuid) => device.uuid == *uuid,
    }
}

fn describe(device: &Device<'_>, place: Place) -> Found {
    Found {
        place,
        uuid: device.uuid().unwrap_or_default(),
        name: device.name().unwrap_or_default(),
        power_limit_w: device.enforced_power_limit().ok().map(|limit_mw| f64::from(limit_mw) / 1e3),
    }
}

/// The MIG devices on a device; a place for one may be empty.
fn migs(device: &Device<'_>, index: u32) -> Vec<Found> {
    if device.mig_mode().map_or(0, |mode| mode.current) == 0 {
        return Vec::new();
    }
    let places = 0..device.mig_device_count().unwrap_or(0);
    let found = places.filter_map(|mig| {
        let part = device.mig_device_by_index(mig).ok()?;
        Some(describe(&part, Place { index, mig: Some(mig) }))
    });
    found.collect()
}

/// A text of a library on one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
