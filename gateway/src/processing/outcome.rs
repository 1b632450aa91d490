//! The outcome of a transaction.

use crate::acquirer::{AcquirerResponse, Decision, cards};
use crate::transactions::{State, reason};

/// The outcome to be written.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) state: State,
    pub(super) reason: Option<String>,
    pub(super) auth_code: Option<String>,
    pub(super) avs: Option<&'static str>,
    pub(super) cvv: Option<&'static str>,
}

impl Outcome {
    /// From the acquirer's response.
    pub(super) fn of(response: &AcquirerResponse, avs: Option<&'static str>, cvv: Option<&'static str>) -> Self {
        let auth_code = Some(response.auth_code.clone());
        match response.decision {
            Decision::Approved => Self { state: State::Approved, reason: None, auth_code, avs, cvv },
            Decision::Declined => {
                let reason = Some(cards::reason(&response.auth_code).to_owned());
                Self { state: State::Declined, reason, auth_code, avs, cvv }
            }
            Decision::Blocked => Self::failed(reason::NOT_PROCESSED),
        }
    }

    /// Declined without a request to the acquirer.
    pub(super) fn declined(why: &str, auth_code: Option<&str>) -> Self {
        let (reason, auth_code) = (Some(why.to_owned()), auth_code.map(str::to_owned));
        Self { state: State::Declined, reason, auth_code, avs: None, cvv: None }
    }

    /// It never took effect.
    pub(super) fn failed(why: &str) -> Self {
        Self { state: State::Failed, reason: Some(why.to_owned()), auth_code: None, avs: None, cvv: None }
    }
}
