//! Every distribution against itself (moments, quantiles and distribution function must agree),
//! against its own samples, and against `rand_distr`'s. Then files and messages.

use proptest::prelude::*;
use rand::distr::Distribution;
use serde_json::json;

use super::*;
use crate::statistics::Welford;
use crate::stream::Stream;

/// One of each kind, and of each way to give it.
fn every_kind() -> Vec<Dist> {
    let boxed = |dist: &Dist| Box::new(dist.clone());
    let exponential = Dist::exponential(2.0);
    let parts = vec![
        Part { weight: 0.3, dist: Dist::Uniform { min: 1.0, max: 2.0 } },
        Part { weight: 0.7, dist: Dist::gamma(4.0, 0.7) },
    ];
    let phases = vec![Phase { weight: 0.8, mean: 1.0 }, Phase { weight: 0.2, mean: 9.0 }];
    vec![
        Dist::Uniform { min: 1.5, max: 4.0 },
        exponential.clone(),
        Dist::lognormal(3.0, 0.8),
        Dist::lognormal_median(4.0, 11.0),
        Dist::gamma(3.0, 0.5),
        Dist::gamma(3.0, 1.6),
        Dist::weibull(3.0, 0.4),
        Dist::weibull(3.0, 1.5),
        Dist::weibull_shape(1.7, 2.0),
        Dist::Pareto { min: 1.0, max: 50.0, alpha: 1.3 },
        Dist::Pareto { min: 1.0, max: 50.0, alpha: 1.0 },
        Dist::Pareto { min: 1.0, max: 50.0, alpha: 2.0 },
        Dist::Hyperexponential { phases: Some(phases), mean: None, cv: None },
        Dist::hyperexponential(2.0, 3.0),
        Dist::Mixture { parts },
        Dist::Shifted { by: 5.0, dist: boxed(&exponential) },
        Dist::Truncated { min: Some(1.0), max: Some(3.0), dist: boxed(&exponential) },
        Dist::Truncated { min: None, max: Some(3.0), dist: boxed(&Dist::lognormal(3.0, 0.8)) },
        Dist::Truncated { min: Some(2.5), max: None, dist: boxed(&Dist::gamma(3.0, 0.5)) },
        Dist::Truncated { min: Some(6.0), max: Some(9.0), dist: boxed(&Dist::weibull(3.0, 1.5)) },
        Dist::Empirical { quantiles: vec![[0.0, 1.0], [0.5, 2.0], [0.9, 5.0], [1.0, 20.0]] },
    ]
}

fn sampler(dist: &Dist) -> Sampler {
    dist.sampler().unwrap_or_else(|error| panic!("{dist:?}: {error}"))
}

fn stream(purpose: &str) -> Stream {
    Stream::new(17, 0, purpose, 0)
}

/// The Kolmogorov-Smirnov distance of values from a continuous law, times the root of their number.
fn distance(mut values: Vec<f64>, law: &Sampler) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let worst = values.iter().enumerate().fold(0.0_f64, |worst, (at, &value)| {
        let p = law.cdf(value);
        worst.max((p - at as f64 / n).abs()).max(((at + 1) as f64 / n - p).abs())
    });
    worst * n.sqrt()
}

#[test]
fn samples_follow_the_law() {
    for dist in every_kind() {
        let law = sampler(&dist);
        let mut random = stream("samples");
        let values: Vec<f64> = (0..40_000).map(|_| law.sample(&mut random)).collect();
        let seen: Welford = values.iter().copied().collect();
        assert!(seen.min().unwrap() >= law.min(), "{dist:?}");
        let error = (law.variance() / 40_000.0).sqrt();
        assert!((seen.mean().unwrap() - law.mean()).abs() < 4.0 * error, "{dist:?}: mean {:?}", seen.mean());
        // 1.95 is the 99.9th percentile of the distance.
        let distance = distance(values, &law);
        assert!(distance < 1.95, "{dist:?}: distance {distance}");
    }
}

/// Mean and variance from the quantile function alone, by the midpoint rule in the probability; the
/// last slices hold the tail, and are refined.
fn moments_by_quantiles(law: &Sampler) -> (f64, f64) {
    let (mut first, mut second) = (0.0, 0.0);
    let mut slice = |low: f64, high: f64, steps: u32| {
        let width = (high - low) / f64::from(steps);
        for step in 0..steps {
            let x = law.quantile(low + (f64::from(step) + 0.5) * width);
            first += width * x;
            second += width * x * x;
        }
    };
    slice(0.0, 0.75, 3000);
    let mut left = 0.25;
    for _ in 0..44 {
        slice(1.0 - left, 1.0 - 0.5 * left, 60);
        left *= 0.5;
    }
    (first, second - first * first)
}

#[test]
fn moments_follow_from_the_quantiles() {
    for dist in every_kind() {
        let law = sampler(&dist);
        let (mean, variance) = moments_by_quantiles(&law);
        assert!((law.mean() / mean - 1.0).abs() < 2e-4, "{dist:?}: mean {} {mean}", law.mean());
        assert!((law.variance() / variance - 1.0).abs() < 2e-3, "{dist:?}: {} {variance}", law.variance());
        assert!((law.scv() - law.variance() / law.mean() / law.mean()).abs() < 1e-12);
    }
}

#[test]
fn quantile_and_cdf_are_inverse() {
    for dist in every_kind() {
        let law = sampler(&dist);
        for step in 1..400 {
            let q = f64::from(step) / 400.0;
            let x = law.quantile(q);
            assert!((law.cdf(x) - q).abs() < 1e-10, "{dist:?}: cdf({x}) = {}, not {q}", law.cdf(x));
            let at = law.at(q);
            assert!((at - x).abs() <= 1e-13 * x.max(law.mean()), "{dist:?}: at({q}) = {at}, not {x}");
        }
        assert_eq!(law.cdf(law.min() - 1e-9), 0.0, "{dist:?}");
        assert_eq!(law.cdf(f64::INFINITY), 1.0, "{dist:?}");
        assert!((law.quantile(0.0) - law.min()).abs() < 1e-12, "{dist:?}: {}", law.quantile(0.0));
        assert!(law.quantile(1.0) >= law.quantile(0.999_999), "{dist:?}");
        assert!(law.quantile(f64::NAN).is_nan());
        assert_eq!(law.quantile(-3.0), law.quantile(0.0));
    }
}

#[test]
fn one_number_a_sample_and_monotone_where_promised() {
    for dist in every_kind() {
        let takes_more =
            matches!(dist, Dist::Gamma { .. } | Dist::Mixture { .. } | Dist::Hyperexponential { .. });
        if takes_more {
            continue;
        }
        let law = sampler(&dist);
        let (mut drawing, mut counting) = (stream("one"), stream("one"));
        for _ in 0..50 {
            let u = counting.uniform();
            assert_eq!(law.sample(&mut drawing), law.at(u), "{dist:?}");
        }
        assert_eq!(drawing, counting, "{dist:?}");
        let mut last = 0.0;
        for step in 1..2000 {
            let x = law.at(f64::from(step) / 2000.0);
            assert!(x >= last, "{dist:?} at {step}");
            last = x;
        }
    }
}

#[test]
fn samples_are_pinned() {
    // A change here changes every result ever stored.
    let luck = crate::Chance::new(1);
    let bits = |dist: Dist| sampler(&dist).sample(&mut luck.draw(0)).to_bits();
    for (dist, pinned) in [
        (Dist::exponential(1.0), 0x3fe7_a861_895f_a1db),
        (Dist::lognormal(1.0, 1.0), 0x3fe7_b7ef_fd10_db02),
        (Dist::gamma(1.0, 0.5), 0x3fee_3559_b190_1049),
        (Dist::gamma(1.0, 2.0), 0x3fc2_2a84_44bc_9628),
        (Dist::weibull_shape(1.5, 1.0), 0x3fea_29e6_d9f3_f0ea),
        (Dist::Pareto { min: 1.0, max: 10.0, alpha: 1.5 }, 0x3ff9_9acb_ffc3_ee7e),
        (Dist::hyperexponential(1.0, 2.0), 0x3fc8_5733_bbbc_2d61),
    ] {
        assert_eq!(bits(dist.clone()), pinned, "{dist:?}");
    }
}

/// Two samples of the same law differ by less than chance allows.
fn same_law(name: &str, ours: &Dist, theirs: impl Distribution<f64>) {
    let law = sampler(ours);
    let mut random = stream("theirs");
    let values: Vec<f64> = (0..40_000).map(|_| theirs.sample(&mut random)).collect();
    let seen: Welford = values.iter().copied().collect();
    let error = (law.variance() / 40_000.0).sqrt();
    assert!((seen.mean().unwrap() - law.mean()).abs() < 4.0 * error, "{name}: mean {:?}", seen.mean());
    let distance = distance(values, &law);
    assert!(distance < 1.95, "{name}: distance {distance}");
}

#[test]
fn rand_distr_draws_from_the_same_laws() {
    same_law("exponential", &Dist::exponential(2.0), rand_distr::Exp::new(0.5).unwrap());
    let lognormal = rand_distr::LogNormal::from_mean_cv(3.0, 0.8).unwrap();
    same_law("lognormal", &Dist::lognormal(3.0, 0.8), lognormal);
    same_law("gamma", &Dist::gamma(3.0, 0.5), rand_distr::Gamma::new(4.0, 0.75).unwrap());
    same_law("gamma below 1", &Dist::gamma(3.0, 2.0), rand_distr::Gamma::new(0.25, 12.0).unwrap());
    same_law("weibull", &Dist::weibull_shape(1.7, 2.0), rand_distr::Weibull::new(2.0, 1.7).unwrap());
    let pareto = Dist::Pareto { min: 1.0, max: 1e9, alpha: 3.0 };
    same_law("pareto", &pareto, rand_distr::Pareto::new(1.0, 3.0).unwrap());
}

#[test]
fn closed_forms_hold() {
    let close = |value: f64, expected: f64| {
        assert!((value - expected).abs() < 1e-12 * expected.abs(), "{value}, expected {expected}");
    };
    for (dist, mean, cv) in [
        (Dist::lognormal(3.0, 0.8), 3.0, 0.8),
        (Dist::gamma(3.0, 1.6), 3.0, 1.6),
        (Dist::weibull(3.0, 1.5), 3.0, 1.5),
        (Dist::hyperexponential(2.0, 3.0), 2.0, 3.0),
        (Dist::hyperexponential(2.0, 900.0), 2.0, 900.0),
        (Dist::weibull(3.0, 1.0), 3.0, 1.0),
    ] {
        let law = sampler(&dist);
        assert!((law.mean() / mean - 1.0).abs() < 1e-9, "{dist:?}: mean {}", law.mean());
        assert!((law.scv() / cv / cv - 1.0).abs() < 1e-9, "{dist:?}: scv {}", law.scv());
    }
    let by_median = sampler(&Dist::lognormal_median(4.0, 11.0));
    close(by_median.quantile(0.5), 4.0);
    close(by_median.quantile(0.95), 11.0);
    // Memoryless: what exceeds 6 is 6 plus the same law.
    let tail =
        sampler(&Dist::Truncated { min: Some(6.0), max: None, dist: Box::new(Dist::exponential(2.0)) });
    close(tail.mean(), 8.0);
    assert!((tail.variance() - 4.0).abs() < 1e-9);
    assert_eq!(tail.min(), 6.0);
}

#[test]
fn degenerate_cases_are_constants() {
    let zero_cv = [Dist::gamma(3.0, 0.0), Dist::weibull(3.0, 0.0), Dist::lognormal(3.0, 0.0), 3.0.into()];
    for dist in zero_cv {
        let law = sampler(&dist);
        let mut random = stream("constants");
        let before = random.clone();
        assert!((law.sample(&mut random) - 3.0).abs() < 1e-14, "{dist:?}");
        assert_ne!(random, before, "{dist:?} takes a number, like its family");
        assert!((law.mean() - 3.0).abs() < 1e-14 && law.variance() == 0.0, "{dist:?}");
        assert_eq!((law.cdf(2.9), law.cdf(3.1)), (0.0, 1.0), "{dist:?}");
        assert!((law.quantile(0.3) - 3.0).abs() < 1e-14 && (law.min() - 3.0).abs() < 1e-14, "{dist:?}");
    }
    assert_eq!(sampler(&Dist::constant(0.0)).scv(), 0.0);
}

#[test]
fn a_table_with_an_atom() {
    // A third of all values is exactly 2.
    let dist = Dist::Empirical { quantiles: vec![[0.0, 1.0], [0.25, 2.0], [0.75, 2.0], [1.0, 4.0]] };
    let law = sampler(&dist);
    assert_eq!((law.quantile(0.5), law.cdf(2.0), law.quantile(1.0)), (2.0, 0.75, 4.0));
    assert!((law.cdf(1.999_999_999) - 0.25).abs() < 1e-8);
    let cut = Dist::Truncated { min: Some(2.0), max: None, dist: Box::new(dist.clone()) };
    assert!((sampler(&cut).mean() - 3.0).abs() < 1e-12, "the bound itself is excluded below");
    let cut = Dist::Truncated { min: None, max: Some(2.0), dist: Box::new(dist) };
    assert!((sampler(&cut).mean() - (0.25 * 1.5 + 0.5 * 2.0) / 0.75).abs() < 1e-12, "and included above");
}

#[test]
fn a_sampler_composes_with_rand() {
    let law = sampler(&Dist::exponential(1.0));
    let mut random = stream("iterator");
    let expected = law.sample(&mut random.clone());
    assert_eq!(Distribution::sample_iter(&law, &mut random).next(), Some(expected));
}

#[test]
fn files_round_trip() {
    for dist in every_kind() {
        let text = serde_json::to_string(&dist).unwrap();
        assert!(text.contains(&format!(r#""kind":"{}""#, dist.kind())), "{text}");
        assert_eq!(serde_json::from_str::<Dist>(&text).unwrap(), dist, "{text}");
    }
    let constant = serde_json::to_value(Dist::constant(2.5)).unwrap();
    assert_eq!(constant, json!(2.5), "a constant is written as a bare number");
    for form in [json!(3), json!(3.0), json!({"kind": "constant", "value": 3})] {
        assert_eq!(serde_json::from_value::<Dist>(form).unwrap(), Dist::constant(3.0));
    }
}

#[test]
fn files_with_mistakes_say_so() {
    let message = |file: serde_json::Value| serde_json::from_value::<Dist>(file).unwrap_err().to_string();
    assert_eq!(
        message(json!("fast")),
        "invalid type: string \"fast\", expected a number or a table with `kind`"
    );
    assert_eq!(message(json!({"mean": 3.0})), "missing field `kind`");
    assert!(message(json!({"kind": "normal"})).starts_with("unknown variant `normal`, expected one of"));
    let unknown = message(json!({"kind": "exponential", "mean": 1.0, "cv": 2.0}));
    assert!(unknown.starts_with("unknown field `cv`"), "{unknown}");
    assert_eq!(message(json!({"kind": "exponential"})), "missing field `mean`");
    let nested = json!({"kind": "shifted", "by": 1.0, "dist": {"kind": "gamma", "mean": 1.0}});
    assert_eq!(message(nested), "missing field `cv`");
}

#[test]
fn parameters_with_mistakes_say_so() {
    let message = |file: serde_json::Value| {
        let dist: Dist = serde_json::from_value(file).unwrap();
        dist.sampler().unwrap_err().to_string()
    };
    for (file, expected) in [
        (json!(-1.0), "`value` is -1, allowed is a finite number, 0 or more"),
        (json!({"kind": "exponential", "mean": 0.0}), "`mean` is 0, allowed is a finite number above 0"),
        (
            json!({"kind": "uniform", "min": 2.0, "max": 1.0}),
            "`max` is 1, allowed is a finite number above min (2)",
        ),
        (
            json!({"kind": "lognormal", "mean": 2.0, "p95": 1.0}),
            "lognormal has mean, p95, allowed is exactly one of: mean and cv; median and p95",
        ),
        (
            json!({"kind": "weibull"}),
            "weibull has no parameters, allowed is exactly one of: mean and cv; shape and scale",
        ),
        (
            json!({"kind": "hyperexponential", "phases": [{"weight": 1.0, "mean": 1.0}], "cv": 2.0}),
            "hyperexponential has phases, cv, allowed is exactly one of: phases; mean and cv",
        ),
        (json!({"kind": "hyperexponential", "mean": 1.0, "cv": 0.5}), "`cv` is 0.5, allowed is 1 to 1000"),
        (json!({"kind": "mixture", "parts": []}), "`parts` has 0 entries, at least 1 are needed"),
        (
            json!({"kind": "mixture", "parts": [{"weight": 0.5, "dist": 1}, {"weight": 0.4, "dist": 2}]}),
            "the weights in `parts` add up to 0.9, allowed is 1 (within 1e-9)",
        ),
        (
            json!({"kind": "mixture", "parts": [{"weight": 1.0, "dist": {"kind": "gamma", "mean": 1.0, "cv": -2.0}}]}),
            "`parts[0].dist.cv` is -2, allowed is 0, or 0.001 to 100",
        ),
        (
            json!({"kind": "shifted", "by": 1.0, "dist": {"kind": "weibull", "mean": 1.0}}),
            "`dist`: weibull has mean, allowed is exactly one of: mean and cv; shape and scale",
        ),
        (
            json!({"kind": "truncated", "min": 1.0, "dist": 0.5}),
            "`min` keeps 0 of the distribution's probability, allowed is at least 1e-9",
        ),
        (
            json!({"kind": "empirical", "quantiles": [[0.0, 1.0]]}),
            "`quantiles` has 1 entries, at least 2 are needed",
        ),
        (
            json!({"kind": "empirical", "quantiles": [[0.0, 1.0], [0.9, 2.0]]}),
            "`quantiles[1][0]` is 0.9, allowed is 1, the last probability",
        ),
        (
            json!({"kind": "empirical", "quantiles": [[0.0, 3.0], [1.0, 2.0]]}),
            "`quantiles[1][1]` is 2, allowed is a number not below the one before (3)",
        ),
    ] {
        assert_eq!(message(file), expected);
    }
}

#[test]
fn numbers_that_are_none_are_refused_everywhere() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        for dist in [
            Dist::constant(bad),
            Dist::Uniform { min: bad, max: 1.0 },
            Dist::Uniform { min: 0.0, max: bad },
            Dist::exponential(bad),
            Dist::lognormal(bad, 1.0),
            Dist::lognormal(1.0, bad),
            Dist::lognormal_median(bad, 1.0),
            Dist::lognormal_median(1.0, bad),
            Dist::gamma(bad, 1.0),
            Dist::gamma(1.0, bad),
            Dist::weibull(bad, 1.0),
            Dist::weibull(1.0, bad),
            Dist::weibull_shape(bad, 1.0),
            Dist::weibull_shape(1.0, bad),
            Dist::Pareto { min: bad, max: 2.0, alpha: 1.0 },
            Dist::Pareto { min: 1.0, max: bad, alpha: 1.0 },
            Dist::Pareto { min: 1.0, max: 2.0, alpha: bad },
            Dist::hyperexponential(bad, 2.0),
            Dist::hyperexponential(1.0, bad),
            Dist::Mixture { parts: vec![Part { weight: bad, dist: 1.0.into() }] },
            Dist::Shifted { by: bad, dist: Box::new(1.0.into()) },
            Dist::Truncated { min: Some(bad), max: None, dist: Box::new(Dist::exponential(1.0)) },
            Dist::Truncated { min: None, max: Some(bad), dist: Box::new(Dist::exponential(1.0)) },
            Dist::Empirical { quantiles: vec![[0.0, bad], [1.0, 1.0]] },
            Dist::Empirical { quantiles: vec![[0.0, 0.0], [bad, 1.0]] },
        ] {
            assert!(dist.sampler().is_err(), "{dist:?}");
        }
    }
}

#[test]
fn the_schema_is_a_number_or_one_closed_table_per_kind() {
    let schema = schemars::schema_for!(Dist).to_value();
    let forms = schema["anyOf"].as_array().unwrap();
    assert_eq!(forms[0]["type"], "number");
    assert_eq!(forms[0]["minimum"], 0.0);
    let tables = forms[1]["oneOf"].as_array().unwrap();
    assert_eq!(tables.len(), 12);
    for table in tables {
        assert_eq!(table["additionalProperties"], false, "{table}");
        assert!(table["description"].is_string(), "{table}");
        assert!(table["properties"]["kind"]["const"].is_string(), "{table}");
        for (name, property) in table["properties"].as_object().unwrap() {
            if name != "kind" {
                assert!(property["description"].is_string(), "{name} of {table}");
            }
            if property["type"] == "number" {
                assert!(property["minimum"].is_number(), "{name} of {table}");
            }
        }
    }
    let lognormal = tables.iter().find(|table| table["properties"]["kind"]["const"] == "lognormal").unwrap();
    assert_eq!(lognormal["required"], json!(["kind"]));
    assert_eq!(lognormal["properties"]["mean"]["type"], "number");
}

proptest! {
    #[test]
    fn partial_moments_are_consistent_over_the_parameters(
        mean in 0.01_f64..100.0, cv in 0.05_f64..4.0, q in 0.001_f64..0.999,
    ) {
        for dist in [Dist::lognormal(mean, cv), Dist::gamma(mean, cv), Dist::weibull(mean, cv)] {
            let law = sampler(&dist);
            prop_assert!((law.mean() / mean - 1.0).abs() < 1e-8, "{:?}", dist);
            prop_assert!((law.scv() / (cv * cv) - 1.0).abs() < 1e-7, "{:?}: {}", dist, law.scv());
            let x = law.quantile(q);
            prop_assert!((law.cdf(x) - q).abs() < 1e-9, "{:?}", dist);
            // Cutting in two at x and mixing the halves gives the whole back.
            let half = |min, max| sampler(&Dist::Truncated { min, max, dist: Box::new(dist.clone()) });
            let (low, high) = (half(None, Some(x)), half(Some(x), None));
            let mixed = q * low.mean() + (1.0 - q) * high.mean();
            prop_assert!((mixed / mean - 1.0).abs() < 1e-7, "{:?}: {} {}", dist, low.mean(), high.mean());
            prop_assert!(low.mean() <= x && x <= high.mean());
        }
    }
}
