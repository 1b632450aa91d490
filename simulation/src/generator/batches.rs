//! Payments that begin in one moment, so that workers claim and end them in batches, and lost responses to those.

use serde_json::json;

use super::DURATION;
use crate::history::{Fault, TimedFault, TimedRequest, post};
use crate::random::Random;
use crate::system::Role;

/// As for renewals: all other steps of a history are the same with and without these.
const STREAM: u64 = 7;

/// More than any other request charges, since an amount identifies its request.
const LEAST: u64 = 110_000;
/// The payments of one moment.
const COUNT: u64 = 6;

/// The payments of one or two moments, each of which takes from both workers the response to their next batch; none in two
/// of three histories.
pub(super) fn steps(seed: u64) -> (Vec<TimedRequest>, Vec<TimedFault>) {
    let mut random = Random::stream(seed, STREAM);
    let (mut requests, mut faults) = (Vec::new(), Vec::new());
    if random.one_in(3) {
        for number in 0..=random.below(2) {
            let at = random.below(DURATION);
            for index in COUNT * number..COUNT * (number + 1) {
                let amount = LEAST + 1_000 * index + random.below(1_000);
                let body = json!({"amount": amount, "currency": "USD", "paymentToken": "tok_ok"});
                requests.push(TimedRequest { at, request: post("/v1/payments", body) });
            }
            let lost = [Role::Worker, Role::SecondWorker].map(|role| TimedFault { at, fault: Fault::Batch { role } });
            faults.extend(lost);
        }
    }
    (requests, faults)
}

#[cfg(test)]
mod tests {
    use crate::generator::generate;
    use crate::history::{Fault, History};

    #[test]
    fn some_histories_lose_batches() {
        let has_them = |history: &History| history.faults.iter().any(|step| matches!(step.fault, Fault::Batch { .. }));
        let histories: Vec<History> = (0..300).map(generate).collect();
        let count = histories.iter().filter(|history| has_them(history)).count();
        assert!((50..130).contains(&count), "{count} of {}", histories.len());
    }
}
