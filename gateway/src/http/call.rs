//! An authenticated request.

use super::app::App;
use super::form::Form;
use crate::accounts::Account;
use crate::deadline::Deadline;

pub(super) struct Call {
    pub(super) app: App,
    pub(super) account: Account,
    pub(super) form: Form,
    /// When the request must be entered at the latest.
    pub(super) deadline: Deadline,
}
