//! The semantic cache: which cached answer is nearest to a question, and whether it is served.
//!
//! A question belongs to a cluster of questions that mean the same; the cache holds at most one answer of
//! each cluster and level. A question's distances to the cached question of its own cluster and to the
//! nearest of all others are its own luck, so every threshold meets the same questions. A foreign answer is
//! wrong. One of the question's own cluster is right unless it was wrong from the start or what it says is
//! no longer true. A question that is sent again finds its own answer at distance 0.

use super::pool::{Fresh, Pool};
use crate::clients::birth::purpose;
use crate::ids::StageId;
use crate::scenario::{KeywordCheck, Pools, Questions, SemanticCache};
use forebay_engine::{Chance, DistError, Popularity, Sampler, Span, Time};
use forebay_policies::Level;

/// What a request asks, as the cache sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) request: u64,
    /// The request's own luck: it is the same question at every attempt.
    pub(crate) chance: Chance,
    pub(crate) level: Level,
}

/// The nearest cached answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Nearest {
    pub(crate) similarity: f64,
    /// It is of the question's own cluster.
    own: bool,
    /// It is a right answer to this question.
    pub(crate) right: bool,
    /// It is wrong because it is foreign or stale: by the cache's fault.
    pub(crate) misfit: bool,
}

/// Lookups of one level, after the warm-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheCounts {
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    /// Hits on a foreign or stale answer.
    pub(crate) wrong: u64,
    pub(crate) evictions: u64,
    /// Answers served because the model could not answer.
    pub(crate) last_resorts: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// Offset of its purposes.
    stage: u32,
    threshold: f64,
    own: Sampler,
    foreign: Sampler,
    check: Option<KeywordCheck>,
    stale_after: Option<Sampler>,
    popularity: Popularity,
    /// One, or one for each level.
    pools: Vec<Pool>,
    pub(crate) counts: [CacheCounts; 4],
}

/// What a draw of the cache is for.
#[derive(Clone, Copy, Debug)]
enum Draws {
    Own = 0,
    Foreign = 1,
    Check = 2,
    Stale = 3,
}

impl Cache {
    pub(crate) fn new(stage: &SemanticCache, questions: &Questions, id: StageId) -> Result<Self, DistError> {
        let pools = match stage.pools {
            Pools::Shared => 1,
            Pools::PerLevel => Level::ALL.len(),
        };
        let pool = Pool::new(questions.clusters, stage.capacity, stage.ttl_s.map(Span::from_secs_f64));
        Ok(Self {
            stage: u32::from(id.0),
            threshold: stage.threshold,
            own: stage.own_distance.sampler()?,
            foreign: stage.foreign_distance.sampler()?,
            check: stage.keyword_check,
            stale_after: stage.stale_after_s.as_ref().map(forebay_engine::Dist::sampler).transpose()?,
            popularity: Popularity::zipf(questions.clusters as usize, questions.exponent)?,
            pools: vec![pool; pools],
            counts: [CacheCounts::default(); 4],
        })
    }

    fn purpose(&self, what: Draws) -> u32 {
        purpose::CACHE + self.stage + ((what as u32) << 14)
    }

    fn cluster(&self, question: &Asked) -> u32 {
        self.popularity.draw(&mut question.chance.draw(purpose::CLUSTER)) as u32
    }

    fn pool(&mut self, level: Level) -> &mut Pool {
        let index = if self.pools.len() == 1 { 0 } else { level.index() };
        &mut self.pools[index]
    }

    /// The cached answer that is nearest to a question.
    pub(crate) fn nearest(&mut self, now: Time, question: &Asked) -> Option<Nearest> {
        let (level, cluster) = (question.level, self.cluster(question));
        let similarity =
            |law: &Sampler, purpose| (1.0 - law.sample(&mut question.chance.draw(purpose))).max(0.0);
        let own_similarity = similarity(&self.own, self.purpose(Draws::Own));
        let foreign_similarity = similarity(&self.foreign, self.purpose(Draws::Foreign));
        let pool = self.pool(level);
        pool.age(now);
        let own = pool.get(level, cluster).map(|entry| {
            let stale = entry.stale_at <= now;
            Nearest {
                similarity: if entry.request == question.request { 1.0 } else { own_similarity },
                own: true,
                right: entry.right && !stale,
                misfit: stale,
            }
        });
        let foreign = pool.has_other(level, cluster).then_some(Nearest {
            similarity: foreign_similarity,
            own: false,
            right: false,
            misfit: true,
        });
        // Of equals its own comes first.
        match (own, foreign) {
            (Some(own), Some(foreign)) if foreign.similarity > own.similarity => Some(foreign),
            (own, foreign) => own.or(foreign),
        }
    }

    /// Looks a question up. `counts`: the lookup counts in the metrics.
    pub(crate) fn look_up(&mut self, now: Time, question: &Asked, counts: bool) -> Option<Nearest> {
        let nearest = self.nearest(now, question);
        let hit = nearest.filter(|found| found.similarity >= self.threshold).filter(|found| {
            let Some(check) = &self.check else { return true };
            let passes = if found.own { check.own_pass } else { check.foreign_pass };
            passes >= 1.0 || question.chance.uniform(self.purpose(Draws::Check)) < passes
        });
        if let Some(Nearest { own: true, .. }) = hit {
            let cluster = self.cluster(question);
            self.pool(question.level).touch(question.level, cluster);
        }
        if counts {
            let tally = &mut self.counts[question.level.index()];
            tally.lookups += 1;
            tally.hits += u64::from(hit.is_some());
            tally.wrong += u64::from(hit.is_some_and(|found| found.misfit));
        }
        hit
    }

    /// Puts the answer to a question in.
    pub(crate) fn put(&mut self, now: Time, question: &Asked, right: bool, counts: bool) {
        let cluster = self.cluster(question);
        let draw = &mut question.chance.draw(self.purpose(Draws::Stale));
        let stale_at =
            self.stale_after.as_ref().map_or(Time::MAX, |law| now + Span::from_secs_f64(law.sample(draw)));
        let Asked { level, request, .. } = *question;
        let evicted = self.pool(level).put(now, cluster, Fresh { level, request, stale_at, right });
        if let Some(level) = evicted
            && counts
        {
            self.counts[level.index()].evictions += 1;
        }
    }
}
