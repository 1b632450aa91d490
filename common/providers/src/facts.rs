//! What differs between providers and needs no request. Each provider states it in its folder.

use std::time::Duration;

use crate::capabilities::Permission;

/// The methods of [`ProviderKind`](crate::ProviderKind) explain each.
pub(crate) struct Facts {
    pub(crate) name: &'static str,
    pub(crate) is_reference: fn(&str) -> bool,
    pub(crate) unsupported: &'static [Permission],
    pub(crate) currencies: Option<&'static [&'static str]>,
    pub(crate) steps: &'static [(&'static str, i64)],
    pub(crate) may_challenge: bool,
    pub(crate) may_approve_part: bool,
    pub(crate) requires_payer: bool,
    pub(crate) records_declines: bool,
    pub(crate) is_test_token: fn(&str) -> bool,
    pub(crate) test_tokens: fn() -> Vec<&'static str>,
    pub(crate) settles_after: Duration,
    pub(crate) authorization_lifetime: Duration,
}
