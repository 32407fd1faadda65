//! The same queue as a user of this crate writes it: named streams, distributions as files give
//! them, the calendar behind the loop with its guard, and statistics: number in the system over time,
//! the histogram of waits, their mean and variance.

use std::collections::VecDeque;

use forebay_engine::{
    Calendar, Dist, Histogram, Sampler, Simulation, Span, Stop, Stream, Time, TimeWeighted, Welford, World,
};

use super::{LOAD, Outcome};

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    Departure,
}

/// A customer in line; the service is drawn at birth, as the model does for requests.
#[derive(Clone, Copy)]
struct Customer {
    since: Time,
    service: Span,
}

struct Station {
    servers: u32,
    busy: u32,
    to_come: u64,
    waiting: VecDeque<Customer>,
    gaps: (Stream, Sampler),
    services: (Stream, Sampler),
    present: TimeWeighted<u64>,
    waits: Histogram,
    wait_s: Welford,
}

impl Station {
    fn serve(&mut self, customer: Customer, now: Time, calendar: &mut Calendar<Event>) {
        let wait = now.since(customer.since);
        self.waits.record(wait);
        self.wait_s.add(wait.as_secs_f64());
        calendar.after(customer.service, Event::Departure);
    }

    fn expect_arrival(&mut self, calendar: &mut Calendar<Event>) {
        if self.to_come > 0 {
            self.to_come -= 1;
            let (stream, sampler) = &mut self.gaps;
            calendar.after(Span::from_secs_f64(sampler.sample(stream)), Event::Arrival);
        }
    }
}

impl World for Station {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event>) {
        match event {
            Event::Arrival => {
                self.expect_arrival(calendar);
                self.present.add(now, 1);
                let (stream, sampler) = &mut self.services;
                let service = Span::from_secs_f64(sampler.sample(stream));
                let customer = Customer { since: now, service };
                if self.busy < self.servers {
                    self.busy += 1;
                    self.serve(customer, now, calendar);
                } else {
                    self.waiting.push_back(customer);
                }
            }
            Event::Departure => {
                self.present.sub(now, 1);
                if let Some(customer) = self.waiting.pop_front() {
                    self.serve(customer, now, calendar);
                } else {
                    self.busy -= 1;
                }
            }
        }
    }
}

pub(crate) fn run(servers: u32, customers: u64, seed: u64) -> Outcome {
    let exponential = |mean: f64| Dist::exponential(mean).sampler().expect("the mean is above 0");
    let mut run = Simulation::new(Station {
        servers,
        busy: 0,
        to_come: customers,
        waiting: VecDeque::new(),
        gaps: (Stream::new(seed, 0, "gaps", 0), exponential(1.0 / (LOAD * f64::from(servers)))),
        services: (Stream::new(seed, 0, "services", 0), exponential(1.0)),
        present: TimeWeighted::new(Time::ZERO, 0),
        waits: Histogram::new(),
        wait_s: Welford::new(),
    });
    run.world.expect_arrival(&mut run.calendar);
    assert_eq!(run.run_to_end(), Stop::Drained);
    assert_eq!(run.world.waits.count(), customers);
    Outcome { mean_wait_s: run.world.wait_s.mean().unwrap_or(0.0), events: run.calendar.fired() }
}
