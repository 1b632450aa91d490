//! docs/gateway.md, 3-D Secure: nothing is charged without a cardholder who has confirmed it on the page of the bank, and
//! what that page calls a success is charged.

use sha2::{Digest as _, Sha256};

use super::{Challenged, Evidence, Violations};
use crate::client::{BANK, ReceivedResponse, Response};
use crate::history::{Content, Request};

pub(super) fn check(evidence: &Evidence<'_>, violations: &mut Violations) {
    for charge in &evidence.books.challenged {
        violations.check(!charge.is_charged || may_have_confirmed(evidence, charge), || {
            format!("was charged although no cardholder has confirmed it: {charge:?}")
        });
    }
    for (request, response) in evidence.responses() {
        let location = response.headers.get("location").map_or("", String::as_str);
        // The code of a success is part of the address to which the bank returns.
        if !is_at_bank(request) || !location.contains("code=00") {
            continue;
        }
        let mut named = evidence.books.challenged.iter().filter(|charge| is_of(response, charge));
        violations.check(named.any(|charge| charge.is_charged), || {
            format!("{request} was a success, and nothing was charged: {response:?}")
        });
    }
}

fn is_at_bank(request: &Request) -> bool {
    request.operation().ends_with(" bank")
}

/// Whether the response is to a request to the page of this charge.
fn is_of(response: &ReceivedResponse, charge: &Challenged) -> bool {
    let token = response.sent.0.strip_prefix(BANK).unwrap_or_default();
    let hash: String = Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    charge.page.as_ref() == Some(&hash)
}

/// If there was no response, it is not known which page the request was to.
fn may_have_confirmed(evidence: &Evidence<'_>, charge: &Challenged) -> bool {
    let mut requests = evidence.history.requests.iter().zip(evidence.responses);
    requests.any(|(timed, response)| {
        timed.request.content == Content::Form("decision=confirm".to_owned())
            && match response {
                Some(Response::Received(response)) => is_of(response, charge),
                Some(Response::Lost) | None => charge.page.is_some(),
                Some(Response::Skipped) => false,
            }
    })
}
