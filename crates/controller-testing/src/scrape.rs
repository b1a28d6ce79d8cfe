//! Reads the text of `/metrics`.

/// The sum of the integer parts of a metric over the series whose labels contain `labels`, from the text of `/metrics`.
pub(crate) fn sum_of(metrics: &str, name: &str, labels: &str) -> u64 {
    let is_series = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']) && rest.contains(labels))
    };
    let series = metrics.lines().filter(is_series);
    series
        .map(|line| {
            let value = line.rsplit(' ').next().unwrap();
            value.split('.').next().unwrap().parse::<u64>().unwrap()
        })
        .sum()
}
