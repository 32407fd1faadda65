//! `nvidia-smi`, `dmon` and DCGM.

use super::*;

const MIB: f64 = 1_048_576.0;

fn utc() -> Options {
    Options { utc_offset: Some("Z".parse().unwrap()), ..Options::default() }
}

const SMI: &str = "\
timestamp, index, uuid, memory.total [MiB], memory.used [MiB], utilization.gpu [%], power.draw [W], temperature.gpu, fan.speed [%], pstate
2026/07/23 12:00:09.000, 0, GPU-a, 81559 MiB, 40962 MiB, 89 %, 490.00 W, 64, 30 %, P0
2026/07/23 12:00:09.002, 1, GPU-b, 81559 MiB, 100 MiB, 0 %, [N/A], 40, [N/A], P8
2026/07/23 12:00:09.200, 0, GPU-a, 81559 MiB, 41000 MiB, 90 %, 491.00 W, 65, 31 %, P0
2026/07/23 12:00:09.202, 1, GPU-b, 81559 MiB, 100 MiB, 0 %, [Not Supported], 40, [N/A], P8
timestamp, index, uuid, memory.total [MiB], memory.used [MiB], utilization.gpu [%], power.draw [W], temperature.gpu, fan.speed [%], pstate
2026/07/23 12:00:09.400, 0, GPU-a, 81559 MiB, 41000 MiB, 90 %, 491.00 W, 65, 31 %, P0
2026/07/23 12:00:09.400, 0, GPU-a, 81559 MiB, 41000 MiB, 90 %, 491.00 W, 65, 31 %, P0
2026/07/23 12:00:09.300, 0, GPU-a, 81559 MiB, 41000 MiB, 90 %, 491.00 W, 65, 31 %, P0
Unable to determine the device handle for GPU 0000:41:00.0: GPU is lost.
2026/07/23 12:00:12.000, 0, GPU-a, 81559 MiB, 41000 MiB, 140 %, 491.00 W, 65, 31 %, P0
2026/07/23 12:00:12.2";

#[test]
fn nvidia_smi_with_all_its_traps() {
    let (samples, report) = samples(SMI, &utc());
    assert_eq!(report.kind, Kind::NvidiaSmi);
    assert_eq!(samples.len(), 6);
    let first = &samples[0];
    assert_eq!((first.t_ns, first.wall_ns, first.device), (0, 1_784_808_009_000_000_000, 0));
    assert_eq!((first.memory_used, first.memory_total), (Some(40_962.0 * MIB), Some(81_559.0 * MIB)));
    assert_eq!((first.busy, first.power_w, first.temperature_c), (Some(0.89), Some(490.0), Some(64.0)));
    assert_eq!((samples[1].uuid.as_str(), samples[1].device, samples[1].power_w), ("GPU-b", 1, None));
    assert_eq!(samples[1].t_ns, 2_000_000);
    assert_eq!(samples[5].busy, None);
    let dropped = dropped(&report);
    for expected in [
        ("`power.draw` not told: N/A", 1, "line 3"),
        ("`power.draw` not told: Not Supported", 1, "line 5"),
        ("a repeated header", 1, "line 6"),
        ("a second row of a device at the same moment", 1, "line 8"),
        ("a time before that of the row above (--sort sorts instead)", 1, "line 9"),
        ("a message of the tool", 1, "line 10"),
        ("a value of `utilization.gpu` beyond 100 %", 1, "line 11"),
        ("the last line, which is cut off", 1, "line 12"),
        ("column `pstate`, which holds text", 1, "line 2"),
    ] {
        assert!(dropped.contains(&expected), "{expected:?} {dropped:?}");
    }
    assert_eq!(dropped.len(), 9, "{dropped:?}");
    let gaps = report.gaps.unwrap();
    assert_eq!((report.period_s, gaps.count, gaps.longest_before.as_str()), (Some(0.2), 1, "line 11"));
    assert_eq!(report.sources, ["device 0 (GPU-a)", "device 1 (GPU-b)"]);
    assert_eq!(report.kept, ["fan.speed"]);
}

#[test]
fn columns_that_recordings_lack_are_kept_beside() {
    let folder = crate::scratch::Folder::new("import-extra");
    let path = folder.path("gpu.parquet");
    let (imported, _) = imported(SMI, &utc());
    imported.write(&path, false).unwrap();
    let table = crate::frames::read_parquet(&path).unwrap();
    let fan = table.columns.iter().find(|column| column.name == "fan.speed").unwrap();
    assert_eq!(fan.unit, "%");
    let crate::frames::Values::MaybeF64(values) = &fan.values else { panic!("{fan:?}") };
    assert_eq!(values[..3], [Some(30.0), None, Some(31.0)]);
    let (samples, _) = samples(SMI, &utc());
    assert_eq!(crate::recording::read(&path).unwrap(), samples);
    assert!(imported.write(&path, false).unwrap_err().to_string().contains("--force"));
}

#[test]
fn sorting_keeps_what_goes_back() {
    let (samples, report) = samples(SMI, &Options { sort: true, ..utc() });
    assert_eq!(samples.len(), 7);
    assert!(samples.windows(2).all(|pair| pair[0].t_ns <= pair[1].t_ns));
    assert!(remarks(&report).contains("sorted by time"), "{report:?}");
}

#[test]
fn without_header_the_columns_are_named() {
    let text = "2026/07/23 12:00:09.000, 40962, 89\n2026/07/23 12:00:09.200, 40963, [N/A]\n";
    let advice = refused(text, &Options::default());
    assert!(advice.contains("line 1: there is no header: name the columns with --columns"), "{advice}");
    let columns = ["timestamp", "memory.used", "utilization.gpu"].map(str::to_owned).to_vec();
    let options = Options { columns, ..Options::default() };
    let (samples, report) = samples(text, &options);
    assert_eq!((samples[1].memory_used, samples[1].busy), (Some(40_963.0 * MIB), None));
    assert!(remarks(&report).contains("--utc-offset"), "{report:?}");
    let east = Options { utc_offset: Some("+02:00".parse().unwrap()), ..options.clone() };
    let (earlier, _) = super::samples(text, &east);
    assert_eq!(samples[0].wall_ns - earlier[0].wall_ns, 7_200_000_000_000);
    let own = format!("timestamp, memory.used [MiB]\n{text}");
    assert!(refused(&own, &options).contains("leave --columns out"));
}

#[test]
fn rows_without_times_need_a_period() {
    let text = "memory.used [MiB], index\n1 MiB, 0\n2 MiB, 1\n3 MiB, 0\n4 MiB, 1\n";
    assert!(refused(text, &Options::default()).contains("--every"));
    let (samples, _) = samples(text, &Options { every_s: Some(0.5), ..Options::default() });
    let times: Vec<_> = samples.iter().map(|s| (s.device, s.t_ns, s.wall_ns)).collect();
    assert_eq!(times, [(0, 0, 0), (1, 0, 0), (0, 500_000_000, 0), (1, 500_000_000, 0)]);
}

#[test]
fn devices_that_cannot_be_told_apart_are_refused() {
    let row =
        |tick: u32, late: u32| format!("2026/07/23 12:00:{:02}.{:03}, {} MiB\n", tick, late, tick * 2 + late);
    let mut text = "timestamp, memory.used [MiB]\n".to_owned();
    for tick in 0..20 {
        text += &(row(tick, 0) + &row(tick, 3));
    }
    let refusal = refused(&text, &utc());
    assert!(refusal.contains("several devices") && refusal.contains("`index`"), "{refusal}");
    let (samples, _) = samples(&text, &Options { device: Some(2), ..utc() });
    assert_eq!((samples.len(), samples[0].device), (40, 2));
    let sizes = "timestamp, memory.total [MiB]\n2026/07/23 12:00:09, 1\n2026/07/23 12:00:10, 2\n";
    assert!(refused(sizes, &utc()).contains("memory.total changes"));
}

const DMON: &str = "\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb   bar1
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz     MB     MB
 20260723   12:00:09      0    294     81      -     98     57  13365   1897  90538      4
 20260723   12:00:09      1      -     30      -      0      0    405    345      2      4
 20260723   12:00:10      0    294     81      -     98     57  13365   1897  90538      4
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb   bar1
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %    MHz    MHz     MB     MB
 20260723   12:00:11      0    294     81      -     98     57  13365   1897  90538      4
";

#[test]
fn dmon_repeats_its_header_and_has_dashes() {
    let (samples, report) = samples(DMON, &utc());
    assert_eq!((report.kind, samples.len()), (Kind::Dmon, 4));
    let first = &samples[0];
    assert_eq!(
        (first.wall_ns, first.power_w, first.busy),
        (1_784_808_009_000_000_000, Some(294.0), Some(0.98))
    );
    assert_eq!((first.memory_busy, first.memory_used), (Some(0.57), Some(90_538.0 * MIB)));
    assert_eq!((first.sm_clock_mhz, first.memory_clock_mhz), (Some(1897.0), Some(13_365.0)));
    assert_eq!((samples[1].device, samples[1].power_w), (1, None));
    let expected = [
        ("`mtemp` not told: -", 4, "line 3"),
        ("`pwr` not told: -", 1, "line 4"),
        ("a repeated header", 1, "line 6"),
    ];
    assert_eq!(dropped(&report), expected);
}

#[test]
fn dmon_without_dates_crosses_midnight() {
    let text = "#Time gpu fb\n#HH:MM:SS Idx MB\n 23:59:59 0 1\n 00:00:00 0 2\n";
    let (samples, _) = samples(text, &Options::default());
    assert_eq!((samples[1].t_ns, samples[1].wall_ns), (1_000_000_000, 0));
    let dated = Options { date: Some("2026-07-23".to_owned()), ..utc() };
    let (samples, _) = super::samples(text, &dated);
    assert_eq!(samples[1].wall_ns - samples[0].wall_ns, 1_000_000_000);
    assert!(samples[0].wall_ns > 1_784_000_000_000_000_000);
    let plain = "# gpu fb\n# Idx MB\n 0 1\n 0 2\n";
    assert!(refused(plain, &Options::default()).contains("record with -o DT"));
    let (samples, _) = super::samples(plain, &Options { every_s: Some(1.0), ..Options::default() });
    assert_eq!(samples[1].t_ns, 1_000_000_000);
    assert!(refused("# gpu pid type sm\n# Idx # C/G %\n", &Options::default()).contains("pmon"));
}

const DCGM: &str = "\
1784800000.5
# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-3\",device=\"nvidia0\",modelName=\"NVIDIA A100\",Hostname=\"n1\"} 4845
DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-3\",modelName=\"NVIDIA A100\",Hostname=\"n1\"} 87
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\",UUID=\"GPU-3\",modelName=\"NVIDIA A100\",Hostname=\"n1\"} 5000
DCGM_FI_DEV_ENC_UTIL{gpu=\"0\",UUID=\"GPU-3\",modelName=\"NVIDIA A100\",Hostname=\"n1\"} 3
DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-3\",modelName=\"NVIDIA A100\",Hostname=\"n1\"} 9223372036854775794
go_goroutines 12
1784800001.5
DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-3\",device=\"nvidia0\",modelName=\"NVIDIA A100\",Hostname=\"n1\"} 4846
";

#[test]
fn scrapes_of_dcgm_are_gathered_by_moment() {
    let (imported, report) = imported(DCGM, &Options::default());
    let Imported::Recording(telemetry) = imported else { panic!("a recording") };
    let samples: Vec<_> = telemetry.samples().collect();
    assert_eq!((report.kind, samples.len()), (Kind::Dcgm, 2));
    let first = &samples[0];
    assert_eq!((first.wall_ns, first.memory_used), (1_784_800_000_500_000_000, Some(4845.0 * MIB)));
    assert_eq!((first.busy, first.energy_j, first.temperature_c), (Some(0.87), Some(5.0), None));
    assert_eq!((first.uuid.as_str(), first.name.as_str()), ("GPU-3", "NVIDIA A100"));
    assert_eq!((samples[1].t_ns, samples[1].busy), (1_000_000_000, None));
    assert_eq!(telemetry.further_columns().collect::<Vec<_>>(), ["DCGM_FI_DEV_ENC_UTIL"]);
    let expected = [
        ("`DCGM_FI_DEV_GPU_TEMP` not told: blank", 1, "line 8"),
        ("values of metrics that are not of the DCGM exporter", 1, "line 9"),
    ];
    assert_eq!(dropped(&report), expected);
}

#[test]
fn undated_scrapes_need_a_period() {
    let scrape =
        |used: u32| format!("DCGM_FI_DEV_FB_USED{{gpu=\"0\"}} {used}\nDCGM_FI_DEV_FB_USED{{gpu=\"1\"}} 1\n");
    let (one, report) = samples(&scrape(1), &Options::default());
    assert_eq!((one.len(), one[0].wall_ns), (2, 0));
    assert!(remarks(&report).contains("not dated"));
    let two = scrape(1) + &scrape(2);
    assert!(refused(&two, &Options::default()).contains("line 3: a second scrape begins here"));
    let (two, _) = samples(&two, &Options { every_s: Some(30.0), ..Options::default() });
    assert_eq!((two[2].t_ns, two[2].memory_used), (30_000_000_000, Some(2.0 * MIB)));
}

#[test]
fn answers_of_prometheus_are_read_likewise() {
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0","UUID":"GPU-3","Hostname":"a"},
         "values":[[1784800000.0,"4845"],[1784800030.0,"4846"]]},
        {"metric":{"__name__":"DCGM_FI_DEV_FB_USED","gpu":"0","UUID":"GPU-4","Hostname":"b"},
         "values":[[1784800000.0,"1"],[1784800030.0,"2"]]},
        {"metric":{"job":"x"},"values":[]},
        {"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL","gpu":"0","UUID":"GPU-3","Hostname":"a"},
         "values":[[1784800000.0,"50"],[1784800030.0,"NaN"]]}]}}"#;
    let (samples, report) = samples(text, &Options::default());
    let found: Vec<_> = samples.iter().map(|s| (s.device, s.t_ns, s.memory_used, s.busy)).collect();
    let at = |s: u64| s * 1_000_000_000;
    assert_eq!(
        found,
        [
            (0, 0, Some(4845.0 * MIB), Some(0.5)),
            (1, 0, Some(MIB), None),
            (0, at(30), Some(4846.0 * MIB), None),
            (1, at(30), Some(2.0 * MIB), None),
        ]
    );
    // Both are number 0, of two machines.
    assert!(remarks(&report).contains("numbered as they appear"), "{report:?}");
    assert_eq!(dropped(&report)[0], ("a series without a name, as expressions give", 1, "series 3"));
    assert!(
        refused(
            r#"{"status":"error","error":"too long","result":"metric","x":"DCGM_FI_"}"#,
            &Options { from: Some(Kind::Dcgm), ..Options::default() }
        )
        .contains("too long")
    );
}
