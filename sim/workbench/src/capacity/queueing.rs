//! Erlang's formulas, and an estimate of waiting for general service times.

use serde::{Deserialize, Serialize};

/// Estimated waiting at a stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Probability that a call waits.
    pub probability: f64,
    /// Mean wait over all calls, seconds.
    pub mean_s: f64,
}

/// Servers up to which Erlang B is computed by its recursion.
const RECURSED: u64 = 1_000_000;

/// Erlang B: the share of calls that `servers` servers without a queue turn away at an offered load of
/// `erlangs` (arrival rate times mean service time), by the recursion
/// `B(0) = 1, B(n) = a B(n - 1) / (n + a B(n - 1))`, which neither overflows nor cancels.
///
/// Beyond a million servers by its limit for many servers, `B = phi(b) / (sqrt(a) Phi(b))` with
/// `b = (c - a) / sqrt(a)` (S. Halfin and W. Whitt, "Heavy-traffic limits for queues with many exponential
/// servers", Operations Research 29, 1981): at that size it is within some thousandths.
pub fn erlang_b(servers: u64, erlangs: f64) -> f64 {
    if erlangs <= 0.0 {
        return if servers == 0 { 1.0 } else { 0.0 };
    }
    if servers > RECURSED {
        return many_servers(servers as f64, erlangs);
    }
    let mut b = 1.0;
    for n in 1..=servers {
        b = erlangs * b / (n as f64 + erlangs * b);
        // Once it has underflown it stays 0.
        if b == 0.0 {
            break;
        }
    }
    b
}

fn many_servers(servers: f64, erlangs: f64) -> f64 {
    let beta = (servers - erlangs) / erlangs.sqrt();
    // Far below capacity the normal tail is all; far above, what exceeds the servers is lost.
    if beta < -30.0 {
        return 1.0 - servers / erlangs;
    }
    let density = libm::exp(-0.5 * beta * beta) / (2.0 * std::f64::consts::PI).sqrt();
    let below = 0.5 * libm::erfc(-beta / std::f64::consts::SQRT_2);
    density / (erlangs.sqrt() * below)
}

/// Erlang C: the probability that a call waits in M/M/c, from Erlang B; 1 at and above capacity.
pub fn erlang_c(servers: u64, erlangs: f64) -> f64 {
    let load = erlangs / servers as f64;
    if load >= 1.0 {
        return 1.0;
    }
    let b = erlang_b(servers, erlangs);
    b / (1.0 - load * (1.0 - b))
}

/// The Allen-Cunneen estimate for G/G/c (A. O. Allen, "Probability, Statistics, and Queueing Theory",
/// 2nd edition 1990, section 5.6):
///
/// `Wq = C(c, a) * S / (c - a) * (ca2 + cs2) / 2`, with `a = rate * S`.
///
/// Exact for M/M/c and, by Pollaczek and Khinchine, for M/G/1; elsewhere an estimate. `None` at and
/// above capacity, where waits grow without end.
pub fn waiting(
    servers: u64,
    rate_per_s: f64,
    service_s: f64,
    service_scv: f64,
    arrival_scv: f64,
) -> Option<Waiting> {
    let erlangs = rate_per_s * service_s;
    let free = servers as f64 - erlangs;
    if free <= 0.0 {
        return None;
    }
    let probability = erlang_c(servers, erlangs);
    let mean_s = probability * service_s / free * 0.5 * (arrival_scv + service_scv);
    Some(Waiting { probability, mean_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_values() {
        // 10 erlangs on 10 servers lose 21.46 %; on 12, 11.97 % are lost and 44.94 % would wait.
        assert!((erlang_b(10, 10.0) - 0.214_582_343_107).abs() < 1e-9);
        assert!((erlang_b(12, 10.0) - 0.119_739_4).abs() < 1e-6);
        assert!((erlang_c(12, 10.0) - 0.449_388).abs() < 1e-5);
        assert_eq!((erlang_b(0, 5.0), erlang_c(1, 0.5)), (1.0, 0.5));
    }

    #[test]
    fn huge_numbers_of_servers_end_and_agree() {
        assert_eq!(erlang_b(10_000_000_000, 5.0), 0.0);
        assert_eq!(erlang_b(1_000_000, 5.0), 0.0);
        for erlangs in [998_000.0, 1_000_000.0, 1_003_000.0, 2_000_000.0] {
            let exact = erlang_b(RECURSED, erlangs);
            let limit = many_servers(RECURSED as f64, erlangs);
            assert!((limit / exact - 1.0).abs() < 5e-3, "{erlangs}: {limit} {exact}");
        }
    }

    #[test]
    fn single_servers_are_exact() {
        // M/D/1 at 0.8: half of M/M/1's.
        let wait = waiting(1, 8.0, 0.1, 0.0, 1.0).unwrap();
        assert!((wait.mean_s - 0.2).abs() < 1e-12);
        let wait = waiting(1, 8.0, 0.1, 4.0, 1.0).unwrap();
        assert!((wait.mean_s - 1.0).abs() < 1e-12);
    }

    #[test]
    fn above_capacity_there_is_no_mean() {
        assert_eq!(waiting(2, 20.0, 0.1, 1.0, 1.0), None);
        assert_eq!(erlang_c(2, 3.0), 1.0);
    }
}
