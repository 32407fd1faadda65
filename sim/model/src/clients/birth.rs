//! The birth of a request: its class, lengths, flags and user, all from one key of chance.
//!
//! The key is the request's whole luck. Every later draw (service at a stage, patience, the jitter of a
//! retry) is a pure function of the key and a purpose, whatever the policies do in between; so two
//! policies face the same crowd, and what differs between their runs is theirs alone.

use crate::attempts::{Question, Request};
use crate::scenario::{Scenario, Source, workload::Channels};
use crate::trace::TraceRow;
use forebay_engine::{Chance, DistError, Popularity, Sampler, Time};
use forebay_policies::{Channel, RequestView, Ticket};

/// What a draw is for. Stage draws start at [`purpose::STAGES`], one for each stage.
pub(crate) mod purpose {
    pub(crate) const CLASS: u32 = 1;
    pub(crate) const CHARS: u32 = 2;
    pub(crate) const TOKENS_IN: u32 = 3;
    pub(crate) const TOKENS_OUT: u32 = 4;
    pub(crate) const TURNS: u32 = 5;
    pub(crate) const COMPLEXITY: u32 = 6;
    pub(crate) const URGENT: u32 = 7;
    pub(crate) const SERVICE_KEYWORD: u32 = 8;
    pub(crate) const FOLLOW_UP: u32 = 9;
    pub(crate) const WRITE: u32 = 10;
    pub(crate) const QUESTION: u32 = 11;
    pub(crate) const USER: u32 = 12;
    pub(crate) const TENANT: u32 = 13;
    pub(crate) const TIER: u32 = 14;
    pub(crate) const PATIENCE: u32 = 15;
    pub(crate) const RESEND: u32 = 16;
    pub(crate) const RESEND_AFTER: u32 = 17;
    pub(crate) const JITTER: u32 = 18;
    pub(crate) const RIGHT: u32 = 19;
    pub(crate) const INGRESS: u32 = 20;
    pub(crate) const THINK: u32 = 21;
    pub(crate) const EXPEDITE: u32 = 22;
    pub(crate) const CHANNEL: u32 = 23;
    pub(crate) const STAGES: u32 = 64;
    /// Beyond those of all stages; one for each fault.
    pub(crate) const NETWORK_FAULTS: u32 = 1 << 24;
    /// Calls of external providers: by stage, provider and count of the call.
    pub(crate) const PROVIDERS: u32 = 1 << 31;
    /// Of a semantic cache: by stage and what is drawn.
    pub(crate) const CACHE: u32 = 1 << 30;
    /// The cluster of questions that a question belongs to.
    pub(crate) const CLUSTER: u32 = 1 << 29;
    /// Whether rules match a question: by stage.
    pub(crate) const RULES: u32 = (1 << 29) + (1 << 20);
    /// An agent's time and the patience of who waits for one: by stage.
    pub(crate) const DESK: u32 = (1 << 29) + (2 << 20);
}

/// A length that is often constant: then nothing is drawn.
#[derive(Clone, Debug)]
enum Length {
    Fixed(u32),
    Drawn(Sampler),
}

impl Length {
    fn new(dist: &forebay_engine::Dist) -> Result<Self, DistError> {
        let sampler = dist.sampler()?;
        if sampler.variance() == 0.0 {
            return Ok(Self::Fixed(sampler.mean().max(0.0).round() as u32));
        }
        Ok(Self::Drawn(sampler))
    }

    fn draw(&self, chance: Chance, purpose: u32) -> u32 {
        match self {
            Self::Fixed(n) => *n,
            // A float-to-integer cast saturates: lengths are bounded by the type.
            Self::Drawn(sampler) => sampler.sample(&mut chance.draw(purpose)).round() as u32,
        }
    }
}

#[derive(Clone, Debug)]
struct ClassLaw {
    endpoint: u16,
    business_class: u8,
    chars: Length,
    tokens_in: Length,
    tokens_out: Length,
    tokens_out_estimate: u32,
    turns: Length,
    complexity: Option<Sampler>,
    urgent: f64,
    service_keyword: f64,
    expedite: f64,
    follow_up: f64,
    write: f64,
    faq: f64,
    new: f64,
}

/// Draws requests.
#[derive(Clone, Debug)]
pub(crate) struct Nursery {
    classes: Vec<ClassLaw>,
    /// By source. `None` when all its requests are of the class beside it.
    mixes: Vec<(u16, Option<Popularity>)>,
    users: Option<Popularity>,
    users_number: u32,
    tenants: u32,
    /// Upper ends of the tiers' shares.
    tiers: Vec<f64>,
    channels: Channels,
    /// For each source that replays a trace: which of our classes each of its classes is.
    trace_classes: Vec<Vec<u16>>,
}

fn happens(chance: Chance, purpose: u32, share: f64) -> bool {
    share > 0.0 && (share >= 1.0 || chance.uniform(purpose) < share)
}

/// From which classes a source draws.
fn mix(scenario: &Scenario, source: &str) -> Result<(u16, Option<Popularity>), DistError> {
    let workload = &scenario.workload;
    let own = workload.mix.get(source);
    let weight = |(name, class): (&String, &crate::scenario::Class)| match own {
        Some(own) => own.get(name).copied().unwrap_or(0.0),
        None => class.weight,
    };
    let weights: Vec<f64> = workload.classes.iter().map(weight).collect();
    let only = weights.iter().position(|&weight| weight > 0.0).unwrap_or(0);
    // A draw that can only fall on one class is not made, whatever weight it has.
    let several =
        if own.is_some() { weights.iter().filter(|&&w| w > 0.0).count() > 1 } else { weights.len() > 1 };
    Ok((only as u16, if several { Some(Popularity::weights(&weights)?) } else { None }))
}

impl Nursery {
    pub(crate) fn new(scenario: &Scenario, traces: &[Option<Vec<String>>]) -> Result<Self, DistError> {
        let workload = &scenario.workload;
        let mut classes = Vec::with_capacity(workload.classes.len());
        for class in workload.classes.values() {
            let tokens_out = class.tokens_out.sampler()?;
            let complexity = class.intent_complexity.sampler()?;
            classes.push(ClassLaw {
                endpoint: class
                    .endpoint
                    .as_ref()
                    .and_then(|name| scenario.endpoints.get_index_of(name))
                    .unwrap_or(0) as u16,
                business_class: class.business_class,
                chars: Length::new(&class.chars)?,
                tokens_in: Length::new(&class.tokens_in)?,
                tokens_out: Length::new(&class.tokens_out)?,
                tokens_out_estimate: class.tokens_out_estimate.unwrap_or(tokens_out.mean().round() as u32),
                turns: Length::new(&class.history_turns)?,
                complexity: (complexity.variance() > 0.0 || complexity.mean() > 0.0).then_some(complexity),
                urgent: class.urgent_share,
                service_keyword: class.service_keyword_share,
                expedite: class.expedite_share,
                follow_up: class.follow_up_share,
                write: class.write_share,
                faq: class.faq_share,
                new: class.new_share,
            });
        }
        let mixes = workload.sources.keys().map(|source| mix(scenario, source)).collect::<Result<_, _>>()?;
        let population = &workload.population;
        let mut upper = 0.0;
        let tiers = population
            .tiers
            .values()
            .map(|share| {
                upper += share;
                upper
            })
            .collect();
        let trace_classes = workload
            .sources
            .values()
            .zip(traces)
            .map(|(source, names)| match (source, names) {
                (Source::Trace { .. }, Some(names)) => {
                    names.iter().map(|name| workload.classes.get_index_of(name).unwrap_or(0) as u16).collect()
                }
                _ => Vec::new(),
            })
            .collect();
        Ok(Self {
            classes,
            mixes,
            users: if population.users > 1 && population.activity_exponent > 0.0 {
                Some(Popularity::zipf(population.users as usize, population.activity_exponent)?)
            } else {
                None
            },
            users_number: population.users,
            tenants: population.tenants,
            tiers,
            channels: population.channels,
            trace_classes,
        })
    }

    /// A request born now, and what the gateway will see of it.
    pub(crate) fn bear(
        &self,
        index: u64,
        born: Time,
        source: u16,
        chance: Chance,
        row: Option<&TraceRow>,
    ) -> (Request, RequestView) {
        let class = match row.and_then(|r| r.class) {
            Some(of_trace) => {
                self.trace_classes[usize::from(source)].get(usize::from(of_trace)).copied().unwrap_or(0)
            }
            None => match &self.mixes[usize::from(source)] {
                (only, None) => *only,
                (_, Some(mix)) => mix.draw(&mut chance.draw(purpose::CLASS)) as u16,
            },
        };
        let law = &self.classes[usize::from(class)];
        let user = match (row.and_then(|r| r.user), &self.users) {
            (Some(user), _) => user,
            (None, Some(users)) => users.draw(&mut chance.draw(purpose::USER)) as u64,
            (None, None) if self.users_number > 1 => {
                (chance.uniform(purpose::USER) * f64::from(self.users_number)) as u64
            }
            _ => 0,
        };
        // A user keeps one tier: it is a function of the user, not of the request.
        let tier = if self.tiers.len() > 1 {
            let u = Chance::new(user).uniform(purpose::TIER);
            self.tiers.iter().position(|&upper| u < upper).unwrap_or(self.tiers.len() - 1) as u8
        } else {
            0
        };
        let tenant = if self.tenants > 1 {
            (chance.uniform(purpose::TENANT) * f64::from(self.tenants)) as u32
        } else {
            0
        };
        let question = if law.faq >= 1.0 {
            Question::Faq
        } else if law.faq + law.new <= 0.0 {
            Question::Generative
        } else {
            let u = chance.uniform(purpose::QUESTION);
            if u < law.faq {
                Question::Faq
            } else if u < law.faq + law.new {
                Question::New
            } else {
                Question::Generative
            }
        };
        let tokens_out =
            row.map_or_else(|| law.tokens_out.draw(chance, purpose::TOKENS_OUT), |r| r.tokens_out).max(1);
        let request = Request {
            index,
            born,
            chance,
            class,
            source,
            tokens_out,
            question,
            retries: 0,
            resends: 0,
            asked: born,
            asker: None,
        };
        let complexity =
            law.complexity.as_ref().map_or(0.0, |c| c.sample(&mut chance.draw(purpose::COMPLEXITY)));
        let view = RequestView {
            ticket: Ticket(0),
            endpoint: law.endpoint,
            class: law.business_class,
            tier,
            channel: self.channel(chance),
            tenant,
            user,
            chars: law.chars.draw(chance, purpose::CHARS),
            tokens_in: row
                .map_or_else(|| law.tokens_in.draw(chance, purpose::TOKENS_IN), |r| r.tokens_in)
                .max(1),
            tokens_out_estimate: law.tokens_out_estimate,
            history_turns: law.turns.draw(chance, purpose::TURNS).min(u32::from(u16::MAX)) as u16,
            intent_complexity: complexity.clamp(0.0, 1.0) as f32,
            urgent: happens(chance, purpose::URGENT, law.urgent),
            service_keyword: happens(chance, purpose::SERVICE_KEYWORD, law.service_keyword),
            expedite: happens(chance, purpose::EXPEDITE, law.expedite),
            follow_up: happens(chance, purpose::FOLLOW_UP, law.follow_up),
            write: happens(chance, purpose::WRITE, law.write),
        };
        (request, view)
    }

    fn channel(&self, chance: Chance) -> Channel {
        let Channels { app, mini_program, .. } = self.channels;
        if mini_program >= 1.0 {
            return Channel::MiniProgram;
        }
        let u = chance.uniform(purpose::CHANNEL);
        if u < app {
            Channel::App
        } else if u < app + mini_program {
            Channel::MiniProgram
        } else {
            Channel::H5
        }
    }
}
