//! The two clusters side by side: the first difference of a run, and the fewest steps that show it.

use anyhow::Result;
use messages::MWatchNotify;

use crate::{
    cluster::{Cluster, Outcome},
    compare,
    plan::{Kind, Step},
};

/// The first difference of a run.
pub(crate) struct Found {
    pub(crate) at: usize,
    pub(crate) how: String,
    pub(crate) outcomes: [Option<Outcome>; 2],
    pub(crate) notified: [Vec<MWatchNotify>; 2],
}

/// The two clusters side by side.
pub(crate) struct Pair {
    clusters: [Cluster; 2],
    /// Objects of other runs are other objects.
    seed: u64,
    runs: u64,
}

impl Pair {
    pub(crate) fn connect(confs: &[String; 2], kind: &Kind, seed: u64) -> Result<Pair> {
        let clusters = [Cluster::connect(&confs[0], kind)?, Cluster::connect(&confs[1], kind)?];
        Ok(Pair { clusters, seed, runs: 0 })
    }

    /// Does the steps with objects that nobody used before; the first difference.
    pub(crate) fn run(&mut self, plan: &[Step], ignored: &[String]) -> Result<Option<Found>> {
        self.runs += 1;
        let prefix = format!("{}-{}-", self.seed, self.runs);
        for cluster in &mut self.clusters {
            cluster.begin(self.runs)?;
        }
        let mut first = None;
        let mut done = plan;
        for (at, step) in plan.iter().enumerate() {
            if let Some(found) = self.step(at, step, &prefix)?
                && !ignored.iter().any(|text| found.how.contains(text))
            {
                first = Some(found);
                done = &plan[..=at];
                break;
            }
        }
        for cluster in &mut self.clusters {
            cluster.end(done, &prefix)?;
        }
        Ok(first)
    }

    fn step(&mut self, at: usize, step: &Step, prefix: &str) -> Result<Option<Found>> {
        let [real, ours] = &mut self.clusters;
        let outcomes = [real.perform(step, prefix)?, ours.perform(step, prefix)?];
        let told = real.notified(None)?;
        let notified = [told.clone(), ours.notified(Some(told.len()))?];
        let how = compare::outcomes(step, &outcomes).or_else(|| compare::notifications(&notified));
        Ok(how.map(|how| Found { at, how, outcomes, notified }))
    }

    /// Fewer steps and ops that show the same difference.
    pub(crate) fn shrink(
        &mut self,
        mut plan: Vec<Step>,
        mut found: Found,
        ignored: &[String],
    ) -> Result<(Vec<Step>, Found)> {
        if let Some(Step::Request(last)) = plan.last() {
            let at = |step: &Step| match step {
                Step::Request(planned) => Some(planned.request.clone()),
                _ => None,
            };
            let object = (last.request.oid.clone(), last.request.nspace.clone(), last.request.key.clone());
            let is_of_it = |step: &&Step| {
                at(step).is_none_or(|request| (request.oid, request.nspace, request.key) == object)
            };
            let fewer: Vec<Step> = plan.iter().filter(is_of_it).cloned().collect();
            self.try_fewer(fewer, &mut plan, &mut found, ignored)?;
        }
        let mut size = plan.len().next_power_of_two() / 2;
        while size > 0 {
            let mut end = plan.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut fewer = plan.clone();
                fewer.drain(start..end);
                self.try_fewer(fewer, &mut plan, &mut found, ignored)?;
                end = start.min(plan.len());
            }
            size /= 2;
        }
        for at in (0..plan.len()).rev() {
            let Step::Request(planned) = &plan[at] else { continue };
            for op in (0..planned.request.ops.len()).rev() {
                let mut fewer = plan.clone();
                let Step::Request(planned) = &mut fewer[at] else { continue };
                planned.request.ops.remove(op);
                planned.versions.retain(|(of, _)| *of != op);
                planned.versions.iter_mut().filter(|(of, _)| *of > op).for_each(|(of, _)| *of -= 1);
                if !planned.request.ops.is_empty() {
                    self.try_fewer(fewer, &mut plan, &mut found, ignored)?;
                }
            }
        }
        Ok((plan, found))
    }

    /// Takes `fewer` for the plan if it shows the same.
    fn try_fewer(
        &mut self,
        fewer: Vec<Step>,
        plan: &mut Vec<Step>,
        found: &mut Found,
        ignored: &[String],
    ) -> Result<()> {
        if let Some(again) = self.run(&fewer, ignored)?.filter(|again| again.how == found.how) {
            (*plan, *found) = (fewer, again);
        }
        Ok(())
    }
}
