//! vLLM's metrics, and tables of engine metrics.

use super::*;

const METRICS: &str = "\
# 2026-07-23T12:00:00Z
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0
vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 1.0
vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25
vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 1000.0
vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"m\"} 5.0
vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"m\"} 2.0
vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.001\",model_name=\"m\"} 0.0
vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 3.5
vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 7.0
vllm:cache_config_info{block_size=\"16\"} 1.0
python_info{version=\"3.12\"} 1.0
# 2026-07-23T12:00:05Z
vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 4.0
vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 10.0
";

fn of(sample: &EngineSample, name: &str) -> Option<f64> {
    sample.numbers[crate::engine_series::place(name).unwrap()]
}

#[test]
fn scrapes_of_vllm_become_a_series() {
    let (samples, report) = engines(METRICS, &Options::default());
    assert_eq!((report.kind, samples.len()), (Kind::VllmMetrics, 2));
    let first = &samples[0];
    assert_eq!((first.t_ns, first.wall_ns, first.engine.as_str()), (0, 1_784_808_000_000_000_000, ""));
    assert_eq!((first.running(), first.waiting(), first.kv_usage()), (Some(3.0), Some(1.0), Some(0.25)));
    assert_eq!(
        (of(first, "finished"), of(first, "ttft_sum_s"), of(first, "ttft_count")),
        (Some(7.0), Some(3.5), Some(7.0))
    );
    assert_eq!(
        (samples[1].t_ns, samples[1].running(), samples[1].waiting()),
        (5_000_000_000, Some(4.0), None)
    );
    let expected = [
        ("buckets of histograms", 1, "line 10"),
        ("values of `vllm:cache_config_info`, which has no column", 1, "line 13"),
        ("values of metrics that are not of vLLM", 1, "line 14"),
    ];
    assert_eq!(dropped(&report), expected);
    assert!(remarks(&report).contains("the engine was started again (line 16)"), "{report:?}");
}

#[test]
fn local_moments_before_scrapes_are_remarked() {
    let text = "2026-07-23 12:00:00\nvllm:num_requests_running 3\n";
    let (samples, report) = engines(text, &Options::default());
    assert!(remarks(&report).contains("--utc-offset"), "{report:?}");
    let east = Options { utc_offset: Some("+02:00".parse().unwrap()), ..Options::default() };
    let (earlier, report) = engines(text, &east);
    assert_eq!((samples[0].wall_ns - earlier[0].wall_ns, report.remarks.len()), (7_200_000_000_000, 0));
}

#[test]
fn engines_are_told_apart() {
    let text = "vllm:num_requests_running{engine=\"0\"} 1 1784800000000\nvllm:num_requests_running{engine=\"1\"} 2 1784800000000\n";
    let (samples, report) = engines(text, &Options::default());
    let found: Vec<_> = samples.iter().map(|s| (s.engine.as_str(), s.running())).collect();
    assert_eq!(found, [("0", Some(1.0)), ("1", Some(2.0))]);
    assert_eq!(report.sources, ["engine 0", "engine 1"]);
}

#[test]
fn tables_of_engine_metrics_are_read_by_their_header() {
    let text = include_str!("../../../measured/vllm-runs/RTX4090-Llama-3.1-8B/timeseries.csv");
    let (samples, report) = engines(text, &Options::default());
    assert_eq!(
        (report.kind, samples.len() as u64, report.period_s),
        (Kind::EngineCsv, report.rows, Some(1.0))
    );
    assert_eq!((samples[0].running(), samples[0].waiting()), (Some(5.0), Some(2.0)));
    assert_eq!(samples[0].t_ns, 1_000_000_000);
    assert!((samples[0].kv_usage().unwrap() - 0.1322).abs() < 1e-12 && samples[0].wall_ns == 0);
    assert_eq!(dropped(&report).len(), 2, "{report:?}");
    assert!(
        refused("t,running\n1,x\n", &Options::default()).contains("line 2, column `running`: found \"x\"")
    );
    assert!(refused("t,running\nx,1\n", &Options::default()).contains("line 2, column `t`"));
}
