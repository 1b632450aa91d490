//! What differs between providers and needs no request. Each provider states it in its folder.

use std::time::Duration;

use crate::ProviderKind;
use crate::capabilities::Permission;

/// Declares the facts, each with the method of [`ProviderKind`] that returns it.
macro_rules! facts {
    (
        values { $($(#[$doc:meta])* $value:ident: $type:ty,)* }
        functions { $($(#[$function_doc:meta])* $function:ident($($argument:ident: $argument_type:ty)?) -> $result:ty,)* }
    ) => {
        pub(crate) struct Facts {
            $(pub(crate) $value: $type,)*
            $(pub(crate) $function: fn($($argument_type)?) -> $result,)*
        }

        impl ProviderKind {
            $(
                $(#[$doc])*
                pub const fn $value(self) -> $type {
                    self.facts().$value
                }
            )*
            $(
                $(#[$function_doc])*
                pub fn $function(self, $($argument: $argument_type)?) -> $result {
                    (self.facts().$function)($($argument)?)
                }
            )*
        }
    };
}

facts! {
    values {
        /// Name in metrics and in `ctl`.
        name: &'static str,
        /// Operations that the provider never supports.
        unsupported: &'static [Permission],
        /// The supported currencies; `None` if all are supported.
        currencies: Option<&'static [&'static str]>,
        /// The currencies of which the provider charges, captures and refunds only multiples of some minor units, and of how
        /// many.
        steps: &'static [(&'static str, i64)],
        /// Whether the provider may require a challenge of the cardholder.
        may_challenge: bool,
        /// Whether the provider may approve less than the requested amount.
        may_approve_part: bool,
        /// Whether charges require the payer's name and email address.
        requires_payer: bool,
        /// Whether the provider records every decline under the request's reference, so that it concerns the operation and
        /// not only the one request.
        records_declines: bool,
        /// The time after capture of the first inquiry whether the charge has settled.
        settles_after: Duration,
        /// The lifetime of an authorization.
        authorization_lifetime: Duration,
    }
    functions {
        /// Whether this has exactly the form of the provider's transaction ids.
        is_reference(provider_ref: &str) -> bool,
        /// Whether this is one of the provider's test tokens: reusable, and accepted for test accounts only.
        is_test_token(token: &str) -> bool,
        test_tokens() -> Vec<&'static str>,
    }
}
