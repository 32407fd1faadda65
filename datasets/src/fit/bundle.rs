//! The bundled calibrations that come from published tables, made anew from the files in `measured`, and
//! the table of held-out errors. `cargo run --release -p forebay-datasets --example fit_tables` writes
//! them; a test proves that the files are what is made here.

mod facts;
mod table;

use std::collections::BTreeMap;

use forebay_model::scenario::Source as Arrivals;

use super::batches::{CurveFit, Quantity, fit_batches};
use super::calibration::{
    Calibration, Clients, CurveCalibration, DevicesCalibration, Evidence, Law, LengthsCalibration,
    LoadCalibration, PhasesCalibration, Source, sha256,
};
use super::families::{Effort, fit_law_split};
use super::load::{DAY_S, fit_load, summary, zipf_exponent};
use super::phases::{PhaseFit, fit_phases};
use super::robust::significant;
use super::slots::read_batch_rows;
use super::tables::{client_rows, length_rows, phase_rows, rate_rows};
pub use table::error_table;

/// Day of the fits.
const FITTED: &str = "2026-11-30";
const COMMAND: &str = "cargo run --release -p forebay-datasets --example fit_tables";

/// Reads a file of `measured` by its path there; what cannot be read is said in words.
pub type Read<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A calibration to bundle.
#[derive(Clone, Debug)]
pub struct Bundled {
    /// Its name.
    pub name: String,
    /// What stands at the head of its file, line by line.
    pub head: Vec<String>,
    /// The calibration.
    pub calibration: Calibration,
}

impl Bundled {
    /// The file.
    ///
    /// # Errors
    /// Numbers that TOML cannot hold.
    pub fn text(&self) -> Result<String, String> {
        let head: String = self.head.iter().flat_map(|line| ["# ", line, "\n"]).collect();
        let body = self.calibration.to_toml().map_err(|error| error.to_string())?;
        Ok(format!("{head}# Made by `{COMMAND}`.\n\n{body}"))
    }
}

/// Models of ML.ENERGY's table that are bundled: what their files are called, model, task, and GPUs that
/// serve a copy on H100 and on B200.
const MODELS: [(&str, &str, &str, [u32; 2]); 4] = [
    ("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", "lm-arena-chat", [1, 1]),
    ("qwen3-32b", "Qwen/Qwen3-32B", "lm-arena-chat", [2, 1]),
    ("gpt-oss-120b", "openai/gpt-oss-120b", "gpqa", [2, 1]),
    ("llama-3.1-405b-fp8", "meta-llama/Llama-3.1-405B-Instruct-FP8", "lm-arena-chat", [8, 4]),
];
const GPUS: [&str; 2] = ["H100", "B200"];

/// All calibrations that are made from tables, by name.
///
/// # Errors
/// A file that cannot be read, or that a fit cannot use.
pub fn all(read: Read<'_>) -> Result<Vec<Bundled>, String> {
    let mut all = batches(read)?;
    all.extend(phases(read)?);
    all.push(lengths(
        read,
        "lengths-zh-crosswoz",
        "crosswoz/lengths_zh.csv",
        "thu-coai/CrossWOZ: lengths of turns of Chinese service dialogues",
        "Apache-2.0",
        "Lengths of Chinese service dialogues, in characters: question, answer, and what was said before.",
    )?);
    all.push(lengths(
        read,
        "lengths-en-tau-bench",
        "tau-bench/lengths_en.csv",
        "sierra-research/tau-bench: lengths of turns of airline-service conversations",
        "MIT",
        "Lengths of English airline-service conversations; the customers are simulated by a model.",
    )?);
    all.extend(loads(read)?);
    all.extend(devices(read)?);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn source(data: &str, license: &str) -> Source {
    Source { data: data.to_owned(), license: license.to_owned(), fitted: FITTED.to_owned() }
}

fn batches(read: Read<'_>) -> Result<Vec<Bundled>, String> {
    let text = read("ml-energy/llm_configs.csv")?;
    let hash = sha256(text.as_bytes());
    let rows = read_batch_rows(&text).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for (quantity, kind, unit) in [(Quantity::TokenTime, "decode", "s"), (Quantity::Power, "power", "W")] {
        let fits = fit_batches(&rows, quantity);
        for (name, model, task, gpus) in MODELS {
            for (gpu, gpus) in GPUS.iter().zip(gpus) {
                let wanted = [("model", model), ("task", task), ("gpu", gpu), ("gpus", &gpus.to_string())];
                let is_it = |fit: &&CurveFit| wanted.iter().all(|(name, value)| fit.of[*name] == **value);
                let fit = fits.iter().find(is_it).ok_or_else(|| format!("{model} on {gpu}: no such line"))?;
                all.push(batch_calibration((name, gpu), (quantity, kind, unit), &hash, fit));
            }
        }
    }
    Ok(all)
}

fn batch_calibration(
    (name, gpu): (&str, &str),
    (quantity, kind, unit): (Quantity, &str, &str),
    hash: &str,
    fit: &CurveFit,
) -> Bundled {
    let source = source("ML.ENERGY Benchmark v3: measured vLLM configurations", "Apache-2.0");
    let curve = CurveCalibration::new(source, hash, [unit, "sequences in the batch"], fit);
    let (what, calibration) = match quantity {
        Quantity::TokenTime => {
            ("Median time between two tokens of an answer, s", Calibration::Decode(Box::new(curve)))
        }
        Quantity::Power => ("Mean power of all its GPUs, W", Calibration::Power(Box::new(curve))),
    };
    Bundled {
        name: format!("{kind}-{name}-{}", gpu.to_ascii_lowercase()),
        head: vec![
            format!("{what}, of vLLM serving {} on {} {gpu},", fit.of["model"], fit.of["gpus"]),
            "against the sequences in its batch. Measured by ML.ENERGY (../measured/ml-energy).".to_owned(),
            "Points are every second batch size measured; the others judge.".to_owned(),
        ],
        calibration,
    }
}

fn phases(read: Read<'_>) -> Result<Vec<Bundled>, String> {
    let text = read("splitwise/perf_model.csv")?;
    let hash = sha256(text.as_bytes());
    let rows = phase_rows(&text).map_err(|error| error.to_string())?;
    let fits = fit_phases(&rows);
    // The power-capped lines repeat the others' prefill and decode and are left out.
    let chosen = fits.iter().filter(|fit| !fit.of.hardware.ends_with("pcap"));
    Ok(chosen.map(|fit| phases_calibration(&hash, fit)).collect())
}

fn phases_calibration(hash: &str, fit: &PhaseFit) -> Bundled {
    let source = source("Mutinifni/splitwise-sim (2024): measured prompt and token times", "MIT");
    let of = &fit.of;
    let mut head = vec![
        format!("Prefill and decode of {} on {} {}, one batch at a time.", of.model, of.parallel, of.hardware),
        "Measured for Splitwise (../measured/splitwise): prompts of 128 to 8192 tokens alone, and batches".to_owned(),
        "of up to 64 prompts of 512 tokens. Every second point of prompt and batch is fitted, the others".to_owned(),
        "judge. A batch's range is that of prompts of 512 tokens.".to_owned(),
        "[engine] is for scenarios that name this calibration: its prefill has the engine's form, with the error"
            .to_owned(),
        "of [engine_evidence]; its limits are those of the measured range, not of the hardware.".to_owned(),
    ];
    if fit.contradictions > 0 {
        head.push(format!(
            "{} rows were left out: the batch did not fit and ran in parts, as its total time shows.",
            fit.contradictions
        ));
    }
    Bundled {
        name: format!("phases-{}-{}-x{}", of.model, of.hardware.trim_end_matches("-80gb"), of.parallel),
        head,
        calibration: Calibration::Phases(Box::new(PhasesCalibration::new(source, hash, fit))),
    }
}

fn lengths(
    read: Read<'_>,
    name: &str,
    file: &str,
    data: &str,
    license: &str,
    what: &str,
) -> Result<Bundled, String> {
    let text = read(file)?;
    let hash = sha256(text.as_bytes());
    let mut laws = BTreeMap::new();
    for (length_of, [fitted, others]) in length_rows(&text).map_err(|error| error.to_string())? {
        let fit = fit_law_split(&fitted, &others, Effort::default());
        let fit = fit.map_err(|error| format!("{file}, {length_of}: {error}"))?;
        let unit = length_of.rsplit('_').next().unwrap_or_default();
        laws.insert(length_of.clone(), Law::new(&hash, unit, &fit));
    }
    Ok(Bundled {
        name: name.to_owned(),
        head: vec![
            what.to_owned(),
            format!("Counted in ../measured/{file}; the first part of it is fitted, the second judges."),
            "`dist` is the likeliest family's law: where its p_value is small it is not right, and may still be"
                .to_owned(),
            "near. `quantiles` is the first part itself. Both have their error on the second, and both can".to_owned(),
            "stand in a scenario as they are. Tokens were not counted: they depend on the vocabulary.".to_owned(),
        ],
        calibration: Calibration::Lengths(Box::new(LengthsCalibration { source: source(data, license), laws })),
    })
}

fn loads(read: Read<'_>) -> Result<Vec<Bundled>, String> {
    let rates = read("servegen/rate_by_10min.csv")?;
    let clients = read("servegen/clients.csv")?;
    let hash = sha256(rates.as_bytes());
    let rates = rate_rows(&rates).map_err(|error| error.to_string())?;
    let clients = client_rows(&clients).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for (model, rates) in rates {
        // A model with a single day has nothing that could judge it.
        let Some(fit) = fit_load(&rates) else { continue };
        let clients = clients.get(&model).map(Vec::as_slice).unwrap_or_default();
        let [fitted_error, held_out_error, held_out_worst] =
            summary(&fit).map(|percent| (percent * 100.0).round() / 100.0);
        let points = fit.points.iter().map(|(t_s, share)| (*t_s, significant(*share, 4)));
        let calibration = LoadCalibration {
            source: source("alibaba/ServeGen: production load of fourteen days", "Apache-2.0"),
            evidence: Evidence {
                sha256: hash.clone(),
                rows: fit.errors.each_ref().map(Vec::len),
                fitted_error,
                held_out_error,
                held_out_worst,
            },
            days: fit.days,
            days_between: fit.days_between.map(|share| significant(share, 3)),
            clients: of_clients(clients),
            arrivals: Arrivals::Profile {
                points: points.collect(),
                repeat_s: Some(DAY_S),
                scale: significant(fit.mean_rate_per_s, 4),
            },
        };
        let short = model.rsplit('/').next().unwrap_or(&model);
        all.push(Bundled {
            name: format!("load-servegen-{short}"),
            head: vec![
                format!("A day of the load of {model}, and its clients, of Alibaba's production (ServeGen)."),
                "In ../measured/servegen; a part of the clients is missing there. [arrivals] can stand in a"
                    .to_owned(),
                "scenario as a source: its `scale` is the mean rate, and any other may be set. The shape is"
                    .to_owned(),
                "that of the even days; the odd days judge it. Days differ by more than their shape does:"
                    .to_owned(),
                "see days_between.".to_owned(),
            ],
            calibration: Calibration::Load(Box::new(calibration)),
        });
    }
    Ok(all)
}

fn of_clients(clients: &[(f64, f64)]) -> Clients {
    let mut rates: Vec<f64> = clients.iter().map(|client| client.0).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    let whole: f64 = rates.iter().sum();
    let share = |most: usize| significant(rates.iter().take(most).sum::<f64>() / whole, 3);
    let cv: f64 = clients.iter().map(|(rate, cv)| rate * cv).sum::<f64>() / whole;
    Clients {
        count: rates.len(),
        largest_share: share(1),
        ten_largest_share: share(10),
        activity_exponent: significant(zipf_exponent(&rates), 3),
        gap_cv: significant(cv, 3),
    }
}

fn devices(read: Read<'_>) -> Result<Vec<Bundled>, String> {
    let nvml = facts::of_nvml(read)?;
    let sheets = facts::of_data_sheets(read)?;
    let bundled = |name: &str, head: [&str; 3], data: &str, (devices, sha256): facts::Facts| Bundled {
        name: name.to_owned(),
        head: head.map(str::to_owned).to_vec(),
        calibration: Calibration::Devices(Box::new(DevicesCalibration {
            source: source(data, "Apache-2.0"),
            sha256,
            devices,
        })),
    };
    Ok(vec![
        bundled(
            "devices-nvml",
            [
                "What NVML tells of devices at rest: memory, what the driver reserves, power.",
                "Profiles of NVIDIA's mock NVML (../measured/nvml-profiles): facts of a mocked device, not a",
                "recording.",
            ],
            "NVIDIA/k8s-test-infra (2026-08): device profiles of the mock NVML",
            nvml,
        ),
        bundled(
            "devices-data-sheets",
            [
                "What data sheets tell of devices: memory, bandwidth, operations per second, power, links.",
                "Collected by aiconfigurator (../measured/aiconfigurator); none of it was measured, and its own",
                "corrections are not used.",
            ],
            "ai-dynamo/aiconfigurator: system descriptions after data sheets",
            sheets,
        ),
    ])
}

#[cfg(test)]
mod tests;
