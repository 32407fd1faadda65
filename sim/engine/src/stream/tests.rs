//! Streams are pinned to the bit: a change of a single number would change every stored result.

use rand::Rng;

use super::*;

fn first<R: Rng>(mut random: R, n: usize) -> Vec<u64> {
    (0..n).map(|_| random.next_u64()).collect()
}

#[test]
fn building_blocks_match_their_published_vectors() {
    // FNV-1a: the vectors of draft-eastlake-fnv. SplitMix64 from seed 1234567: Vigna's reference.
    assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    let mut state = 1_234_567_u64;
    let splitmix: Vec<u64> = (0..3)
        .map(|_| {
            state = state.wrapping_add(GOLDEN);
            mix(state)
        })
        .collect();
    assert_eq!(splitmix, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
}

#[test]
fn streams_are_pinned() {
    assert_eq!(
        first(Stream::new(0, 0, "arrivals", 0), 3),
        [0x5d3d_998d_a139_6d95, 0x1623_2cc2_f75e_f467, 0x8f55_edf6_b851_21d3]
    );
    assert_eq!(
        first(Stream::new(42, 7, "service", 3), 3),
        [0xbe04_147e_1d84_8006, 0x7181_31eb_8246_e487, 0xec5f_e9eb_1785_9b15]
    );
}

#[test]
fn chances_are_pinned() {
    let chance = Chance::new(42);
    assert_eq!(first(chance.draw(0), 2), [0xca68_5846_b557_f0fc, 0x0d5e_c61f_a641_d02e]);
    assert_eq!(first(chance.draw(7), 2), [0xdeb7_4532_0506_897a, 0xab89_22ad_642b_da36]);
    assert_eq!(first(chance.attempt(1).draw(0), 2), [0x71bd_df16_c866_be04, 0x54e3_973c_bb3a_4f83]);
}

#[test]
fn every_part_of_the_name_matters() {
    let names =
        [(1, 2, "a", 3), (2, 1, "a", 3), (1, 2, "b", 3), (1, 2, "a", 4), (1, 2, "", 3), (3, 2, "a", 1)];
    let mut firsts: Vec<u64> = names
        .iter()
        .map(|&(seed, rep, purpose, entity)| first(Stream::new(seed, rep, purpose, entity), 1)[0])
        .collect();
    firsts.push(first(Stream::new(0, 0, "", 0), 1)[0]);
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), names.len() + 1);
    assert_eq!(Stream::new(1, 2, "a", 3), Stream::new(1, 2, "a", 3));
}

#[test]
fn a_chance_does_not_depend_on_the_order_of_asking() {
    let chance = Stream::new(1, 0, "births", 0).chance();
    let (a, b) = (chance.uniform(1), chance.uniform(2));
    assert_eq!((chance.uniform(2), chance.uniform(1)), (b, a));
    assert_ne!(a, b);
    assert_ne!(chance.attempt(0), chance);
    assert_ne!(chance.attempt(0), chance.attempt(1));
    assert_eq!(chance.attempt(5), chance.attempt(5));
}

#[test]
fn uniforms_never_touch_their_ends() {
    assert_eq!(unit(0), 1.0 / 9_007_199_254_740_992.0);
    assert_eq!(unit(u64::MAX), 1.0 - f64::EPSILON / 2.0);
    assert_eq!(unit(0) + unit(u64::MAX), 1.0);
}

/// The Kolmogorov-Smirnov distance of values from the uniform law, times the root of their number.
fn distance(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let worst = values.iter().enumerate().fold(0.0_f64, |worst, (at, &value)| {
        worst.max((value - at as f64 / n).abs()).max(((at + 1) as f64 / n - value).abs())
    });
    worst * n.sqrt()
}

/// The correlation of neighbouring values, times the root of their number.
fn correlation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let sum: f64 = values.windows(2).map(|pair| (pair[0] - 0.5) * (pair[1] - 0.5)).sum();
    sum * 12.0 / n.sqrt()
}

#[test]
fn first_numbers_of_neighbouring_names_are_uniform_and_uncorrelated() {
    type Family = (&'static str, fn(u64) -> f64);
    let families: [Family; 7] = [
        ("seed", |n| Stream::new(n, 0, "x", 0).uniform()),
        ("replication", |n| Stream::new(0, n, "x", 0).uniform()),
        ("entity", |n| Stream::new(0, 0, "x", n).uniform()),
        ("key", |n| Chance::new(n).uniform(0)),
        ("purpose", |n| Chance::new(1).uniform(n as u32)),
        ("attempt", |n| Chance::new(1).attempt(n as u32).uniform(0)),
        ("second number", |n| {
            let mut draw = Chance::new(n).draw(3);
            draw.uniform();
            draw.uniform()
        }),
    ];
    for (name, uniform) in families {
        let values: Vec<f64> = (0..20_000).map(uniform).collect();
        assert!(correlation(&values).abs() < 3.5, "{name}: correlation {}", correlation(&values));
        // 1.95 is the 99.9th percentile of the distance.
        let distance = distance(values);
        assert!(distance < 1.95, "{name}: distance {distance}");
    }
}

#[test]
fn bytes_and_words_come_from_the_same_numbers() {
    let mut draw = Chance::new(9).draw(1);
    let mut bytes = [0; 12];
    draw.fill_bytes(&mut bytes);
    let words = first(Chance::new(9).draw(1), 2);
    assert_eq!(bytes[..8], words[0].to_le_bytes());
    assert_eq!(bytes[8..], words[1].to_le_bytes()[..4]);
    assert_eq!(Chance::new(9).draw(1).next_u32(), (words[0] >> 32) as u32);
    let mut stream = Stream::new(1, 1, "bytes", 1);
    let expected = first(stream.clone(), 1)[0].to_le_bytes();
    stream.fill_bytes(&mut bytes[..8]);
    assert_eq!(bytes[..8], expected);
}
