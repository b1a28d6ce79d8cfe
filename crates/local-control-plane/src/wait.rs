//! Waiting on a condition: the only place that polls.

use std::time::Duration;

use super::Error;

/// Time between two evaluations of a condition, at least.
const SOONEST: Duration = Duration::from_millis(20);
/// And at most: most conditions cost a request.
const LATEST: Duration = Duration::from_millis(250);

/// Evaluates `condition`, for at most `within`, until it returns a value: at first every 20 ms, later after a tenth of
/// the time that it has waited, and at least every 250 ms.
///
/// `what` names the condition in the error: "node n1 has a TTL annotation". A condition without a value is
/// `(…).then_some(())`. An evaluation still running when the time is over is dropped.
pub async fn eventually<T>(
    within: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> Option<T>,
) -> Result<T, Error> {
    let answer = async {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(answer) = condition().await {
                return answer;
            }
            let wait = (waited / 10).clamp(SOONEST, LATEST);
            tokio::time::sleep(wait).await;
            waited += wait;
        }
    };
    tokio::time::timeout(within, answer)
        .await
        .map_err(|_elapsed| Error::NotInTime {
            what: what.to_owned(),
            within,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_is_returned() {
        let mut looks = 0;
        let answer = eventually(Duration::from_secs(1), "third look", async || {
            looks += 1;
            (looks == 3).then_some("seen")
        })
        .await;
        assert_eq!(answer.unwrap(), "seen");
        assert_eq!(looks, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_evaluated_less_often_the_longer_it_takes() {
        let mut looks = 0;
        let never = async || {
            looks += 1;
            None::<()>
        };
        eventually(Duration::from_secs(5), "never", never)
            .await
            .unwrap_err();
        assert_eq!(looks, 47);
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_stays_false_is_named() {
        let never = eventually(Duration::from_secs(2), "pod p is gone", async || None::<()>).await;
        assert_eq!(never.unwrap_err().to_string(), "wait 2s for: pod p is gone");
    }
}
