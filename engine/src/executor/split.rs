//! Shards: the items of a batch, divided among jobs by their expected cost.

/// The longest time of a job, and the largest number of jobs.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    pub seconds: f64,
    pub jobs: usize,
}

/// The assumed time of an item without an estimate.
pub const SECONDS: f64 = 10.0;

/// The number of jobs for this many items, which take this time in total.
pub fn jobs(seconds: f64, items: usize, limits: JobLimits) -> usize {
    let wanted = (seconds / limits.seconds).ceil();
    // A total that is not a number makes one job.
    (wanted as usize).clamp(1, limits.jobs.max(1)).min(items.max(1))
}

/// The largest number of items of one batch. All its workers read the keys of all its items, and a result of
/// all of them fits into one record.
const MOST_ITEMS: usize = 250_000;

/// The number of items of each batch, and the number of jobs that each may have.
pub fn batches(items: usize, jobs: usize) -> (usize, usize) {
    let batches = items.div_ceil(MOST_ITEMS).max(1);
    (items.div_ceil(batches).max(1), (jobs / batches).max(1))
}

/// The positions of the items of each job. Jobs take about the same time, and few are not full.
pub fn split(costs: &[f64], limits: JobLimits) -> Vec<Vec<usize>> {
    let jobs = jobs(costs.iter().sum(), costs.len(), limits);
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by(|one, other| costs[*other].total_cmp(&costs[*one]).then(one.cmp(other)));
    let mut shards: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); jobs];
    // The longest first, each to the job with the least so far.
    for item in order {
        let least = shards
            .iter_mut()
            .min_by(|(one, a), (other, b)| one.total_cmp(other).then(a.len().cmp(&b.len())));
        if let Some((seconds, items)) = least {
            *seconds += costs[item];
            items.push(item);
        }
    }
    let mut shards: Vec<Vec<usize>> = shards.into_iter().map(|(_, items)| items).collect();
    shards.iter_mut().for_each(|items| items.sort_unstable());
    shards.retain(|items| !items.is_empty());
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(costs: &[f64], seconds: f64, jobs: usize) -> Vec<usize> {
        let shards = split(costs, JobLimits { seconds, jobs });
        let mut all: Vec<usize> = shards.concat();
        all.sort_unstable();
        assert_eq!(all, (0..costs.len()).collect::<Vec<_>>(), "each item once");
        shards.iter().map(Vec::len).collect()
    }

    #[test]
    fn there_are_as_many_jobs_as_the_time_needs_and_no_more_than_allowed() {
        assert_eq!(sizes(&[1.0; 10], 900.0, 64), [10]);
        assert_eq!(sizes(&[100.0; 18], 900.0, 64), [9, 9]);
        assert_eq!(sizes(&[900.0; 100], 900.0, 4), [25; 4]);
        assert_eq!(sizes(&[5_000.0], 900.0, 64), [1]);
        assert_eq!(sizes(&[], 900.0, 64), Vec::<usize>::new());
    }

    #[test]
    fn millions_of_items_are_several_batches_that_share_the_jobs() {
        assert_eq!(batches(10, 64), (10, 64));
        assert_eq!(batches(0, 64), (1, 64));
        assert_eq!(batches(MOST_ITEMS, 64), (MOST_ITEMS, 64));
        assert_eq!(batches(1_000_001, 64), (200_001, 12));
        assert_eq!(batches(36_000_000, 64), (MOST_ITEMS, 1));
    }

    #[test]
    fn long_items_are_spread_and_odd_costs_lose_no_item() {
        let costs = [1_000.0, 10.0, 10.0, 10.0, 1_000.0, 10.0];
        let shards = split(&costs, JobLimits { seconds: 1_100.0, jobs: 2 });
        assert_eq!(shards, [vec![0, 1, 3], vec![2, 4, 5]]);
        sizes(&[f64::NAN, 1.0, f64::INFINITY], 10.0, 2);
        sizes(&[0.0; 7], 10.0, 3);
    }
}
