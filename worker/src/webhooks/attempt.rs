//! One delivery attempt: signs the event, sends it and reads the response.

use domain::webhooks::dispatch::{Attempted, Claimed, Failure};
use domain::webhooks::{endpoints, previous_secret_place, secret_place, signature};
use egress::{Bytes, Egress, FailureKind, HeaderMap, Target};
use foundation::clock::Clock;
use foundation::crypto::{KeyRing, Secret};
use foundation::rule_enabled;

#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) egress: Egress,
    pub(crate) encryption: KeyRing,
    pub(crate) clock: Clock,
    /// Whether test accounts may have endpoints on loopback.
    pub(crate) allow_loopback: bool,
}

pub(super) enum Outcome {
    Attempted(Attempted),
    /// The event could not be signed, so nothing was sent.
    Unsigned(Claimed),
}

impl Sender {
    /// Makes the attempt if the event can be signed. Always returns within [`ATTEMPT_TIMEOUT`].
    ///
    /// [`ATTEMPT_TIMEOUT`]: domain::webhooks::dispatch::ATTEMPT_TIMEOUT
    pub(super) async fn attempt(&self, claimed: Claimed) -> Outcome {
        let attempted_at = self.clock.now();
        let started = std::time::Instant::now();
        let Some(headers) = self.headers(&claimed, attempted_at.as_millisecond() / 1000) else {
            return Outcome::Unsigned(claimed);
        };
        let mut attempted = Attempted::new(claimed, attempted_at);
        match self.target(&attempted.claimed) {
            Err(reason) => attempted.fail(Failure::AddressRefused, reason),
            Ok(target) => {
                let mut body = Bytes::copy_from_slice(attempted.claimed.payload.as_bytes());
                if !rule_enabled!(Bytes) {
                    body = format!("{} {}", attempted.claimed.payload, attempted_at).into();
                }
                match self.egress.post(&target, headers, body).await {
                    Ok(received) => attempted.record_response(received.status, &received.body, received.retry_after),
                    Err(failed) => attempted.fail(failure(failed.kind), failed.message.into_owned()),
                }
            }
        }
        attempted.duration = started.elapsed();
        Outcome::Attempted(attempted)
    }

    fn target(&self, claimed: &Claimed) -> Result<Target, String> {
        Target::parse(&claimed.url, endpoints::policy(claimed.mode, self.allow_loopback))
            .map_err(|invalid| invalid.to_string())
    }

    /// `None` if any signing secret cannot be decrypted. During a rotation both must sign, because the receiver may
    /// know only the previous secret or only the new one.
    fn headers(&self, claimed: &Claimed, timestamp_s: i64) -> Option<HeaderMap> {
        let (account, endpoint) = (claimed.account_id, claimed.endpoint_id);
        let previous =
            claimed.previous_secret.as_ref().map(|secret| (secret, previous_secret_place(account, endpoint)));
        let encrypted = [(&claimed.secret, secret_place(account, endpoint))].into_iter().chain(previous);
        let decrypted = encrypted.map(|(secret, place)| self.encryption.open(secret, &place));
        let secrets: Vec<Secret<String>> = decrypted.collect::<Option<_>>()?;
        let id = claimed.event_id.to_string();
        let signature = signature::sign(&secrets, &id, timestamp_s, &claimed.payload)?;
        let mut headers = HeaderMap::with_capacity(6);
        let mut set = |name: &'static str, value: String| {
            headers.insert(name, value.try_into().expect("visible ASCII"));
        };
        set("content-type", "application/json".to_owned());
        set("user-agent", concat!("UnifiedPayments-Webhooks/", env!("CARGO_PKG_VERSION")).to_owned());
        set("webhook-id", id);
        set("webhook-timestamp", timestamp_s.to_string());
        set("webhook-signature", signature);
        Some(headers)
    }
}

const fn failure(kind: FailureKind) -> Failure {
    match kind {
        FailureKind::Timeout => Failure::Timeout,
        FailureKind::Dns => Failure::Dns,
        FailureKind::Connect => Failure::Connect,
        FailureKind::Tls => Failure::Tls,
        FailureKind::AddressRefused => Failure::PrivateAddress,
        FailureKind::Protocol => Failure::Protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_look_like_dns_failures_to_merchants_but_not_in_metrics() {
        let (private, unresolved) = (failure(FailureKind::AddressRefused), failure(FailureKind::Dns));
        assert_eq!(private.visible_to_merchant(), unresolved.visible_to_merchant());
        assert_ne!(private.name(), unresolved.name());
    }
}
