//! Without faults every request has a response, and the provider processes every valid payment, whatever other payers
//! send.

use super::{Evidence, Violations};
use crate::client::Response;

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    if !evidence.history.faults.is_empty() {
        return;
    }
    for (timed, response) in evidence.history.requests.iter().zip(evidence.responses) {
        let is_served = match response {
            Some(Response::Received(response)) => response.status < 500,
            Some(Response::Skipped) => true,
            Some(Response::Lost) | None => false,
        };
        violations
            .check(is_served, || format!("{} has no response although nothing failed: {response:?}", timed.request));
    }
    for payment in evidence.state.all("payment") {
        let is_available = payment["status"] != "failed" || payment["failureCode"] == "withdrawn";
        violations.check(is_available, || format!("failed although nothing else did: {payment}"));
    }
}
