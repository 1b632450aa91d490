//! One attempt: signed, sent, and what came of it.

use common::clock::Clock;
use common::crypto::{KeyRing, Secret};
use common::egress::{Bytes, Egress, FailureKind, HeaderMap, Target};
use common::proof::{self, Rule};
use common::webhooks::dispatch::{Attempted, Claimed, Failure};
use common::webhooks::{endpoints, signature};

/// What attempts are made with.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) egress: Egress,
    pub(crate) encryption: KeyRing,
    pub(crate) clock: Clock,
    /// Whether test accounts may have endpoints on loopback.
    pub(crate) allow_loopback: bool,
}

/// What became of a claimed delivery.
pub(super) enum Outcome {
    /// An attempt was made.
    Attempted(Attempted),
    /// It cannot be signed, so nothing was sent.
    Unsigned(Claimed),
}

impl Sender {
    /// Makes the attempt, if it can be signed. It always comes to an end, within its time-out.
    pub(super) async fn attempt(&self, claimed: Claimed) -> Outcome {
        let attempted_at = self.clock.now();
        let began = std::time::Instant::now();
        let Some(headers) = self.headers(&claimed, attempted_at.as_millisecond() / 1000) else {
            return Outcome::Unsigned(claimed);
        };
        let mut attempted = Attempted::new(claimed, attempted_at);
        match self.target(&attempted.claimed) {
            Err(reason) => attempted.fail(Failure::AddressRefused, reason),
            Ok(target) => {
                let mut body = Bytes::copy_from_slice(attempted.claimed.payload.as_bytes());
                if !proof::holds(Rule::Bytes) {
                    body = format!("{} {}", attempted.claimed.payload, attempted_at).into();
                }
                match self.egress.post(&target, headers, body).await {
                    Ok(received) => attempted.answered(received.status, &received.body, received.retry_after),
                    Err(failed) => attempted.fail(class(failed.kind), failed.message.into_owned()),
                }
            }
        }
        attempted.duration = began.elapsed();
        Outcome::Attempted(attempted)
    }

    fn target(&self, claimed: &Claimed) -> Result<Target, String> {
        Target::parse(&claimed.url, endpoints::policy(claimed.mode, self.allow_loopback))
            .map_err(|unfit| unfit.to_string())
    }

    /// None if a secret that has to sign cannot be decrypted. One of two is not enough: after a rotation a receiver may still know
    /// the former one alone, or the new one alone already.
    fn headers(&self, claimed: &Claimed, timestamp_s: i64) -> Option<HeaderMap> {
        let endpoint = claimed.endpoint_id.to_string();
        let sealed = [Some(&claimed.secret), claimed.previous_secret.as_ref()];
        let opened = sealed.into_iter().flatten().map(|sealed| self.encryption.open(sealed, &endpoint));
        let secrets: Vec<Secret<String>> = opened.collect::<Option<_>>()?;
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

const fn class(kind: FailureKind) -> Failure {
    match kind {
        FailureKind::Timeout => Failure::Timeout,
        FailureKind::Dns => Failure::Dns,
        FailureKind::Connect => Failure::Connect,
        FailureKind::Tls => Failure::Tls,
        FailureKind::AddressRefused => Failure::LeadsInwards,
        FailureKind::Protocol => Failure::Protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_inside_is_told_as_none_and_counted_apart() {
        let (inside, nowhere) = (class(FailureKind::AddressRefused), class(FailureKind::Dns));
        assert_eq!(inside.told(), nowhere.told());
        assert_ne!(inside.name(), nowhere.name());
    }
}
