//! How long a request log of a million lines takes to import, and how much memory:
//! `cargo run --release -p forebay-datasets --example import_million`. Linux tells the memory; elsewhere it is
//! left out.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use forebay_datasets::import::{Options, import};

const LINES: u32 = 1_000_000;

/// One line of a log for each request, as a vLLM run writes them, or as a table.
fn content(json: bool) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if !json {
        text.push_str("arrival_s,tokens_in,tokens_out,first_token_s,last_token_s,status\n");
    }
    for i in 0..LINES {
        let arrival = f64::from(i) * 0.01;
        let (tokens_in, tokens_out) = (100 + i % 3000, 1 + i % 900);
        let (first, last) = (arrival + 0.25, arrival + 0.25 + 0.03 * f64::from(tokens_out));
        if json {
            writeln!(
                text,
                "{{\"request_id\": \"bench-{i}\", \"input_toks\": {tokens_in}, \"output_toks\": {tokens_out}, \
                 \"arrival_time\": {:.7}, \"queued_ts\": {:.9}, \"scheduled_ts\": {:.9}, \"first_token_ts\": {:.9}, \
                 \"last_token_ts\": {:.9}}}",
                1_787_267_980.0 + arrival,
                27_536.5 + arrival,
                27_536.6 + arrival,
                27_536.5 + first,
                27_536.5 + last
            )?;
        } else {
            writeln!(text, "{arrival:.6},{tokens_in},{tokens_out},{first:.6},{last:.6},ok")?;
        }
    }
    Ok(text)
}

/// The most memory that this process has held, MB.
fn peak_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? / 1000)
}

#[expect(clippy::disallowed_methods, reason = "an example that measures time")]
fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let (imported, report) = import(path, &Options::default())?;
    let read_s = begin.elapsed().as_secs_f64();
    imported.write(&path.with_extension("parquet"), true)?;
    let all_s = begin.elapsed().as_secs_f64();
    let peak = peak_mb().map_or_else(|| "unknown".to_owned(), |mb| format!("{mb} MB"));
    println!(
        "{}: {} rows read in {read_s:.2} s, written after {all_s:.2} s, peak memory {peak}",
        path.display(),
        report.rows
    );
    Ok(())
}

/// Each file is measured by a process of its own, so that the peaks are apart: `import_million FILE`.
fn main() -> Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        return measure(Path::new(&path));
    }
    let folder = std::env::temp_dir().join(format!("forebay-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut made = vec![];
    for (name, json) in [("log.csv", false), ("log.jsonl", true)] {
        let path = folder.join(name);
        std::fs::write(&path, content(json)?)?;
        made.push(path);
    }
    for path in made.iter().chain([&folder.join("log.parquet")]) {
        std::process::Command::new(std::env::current_exe()?).arg(path).status()?;
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
