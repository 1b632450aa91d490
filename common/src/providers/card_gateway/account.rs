//! What the gateway has set for an account: asked once, when an operator connects it, so that one that cannot work is refused then and
//! not by its first payment.

use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;
use serde_json::Number;

use super::Credentials;
use super::wire::Refusal;
use crate::egress::Trusted;
use crate::operations::PROVIDER_TIMEOUT;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SUCCESS: &str = "00";

/// What is set for an account at the gateway.
#[derive(Clone, Debug, Deserialize)]
pub struct AccountSettings {
    /// The name of the zone in which its days end.
    pub time_zone: String,
    /// What it may be paid in there.
    pub currencies: Vec<String>,
    /// A part that the gateway adds to a sale, in basis points.
    pub convenience_fee_percent: Number,
    /// A fixed amount that it adds.
    pub convenience_fee_fixed: Number,
    /// Whether it may ask cardholders.
    pub three_ds: bool,
}

impl AccountSettings {
    /// Whether a sale charges more than was asked.
    pub fn has_fee(&self) -> bool {
        let is_some = |fee: &Number| fee.as_f64() != Some(0.0);
        is_some(&self.convenience_fee_percent) || is_some(&self.convenience_fee_fixed)
    }
}

/// What came of asking.
#[derive(Debug)]
pub enum Settings {
    /// These are set.
    Known(AccountSettings),
    /// The gateway does not know the user name (code 01).
    UnknownUsername,
    /// The key is another (code 09).
    WrongApiKey,
    /// A gateway from before it could be asked.
    NotTold,
    /// No answer, or one that cannot be read; why.
    NoAnswer(String),
}

#[derive(Deserialize)]
struct Envelope<T> {
    response: T,
}

/// Asks the gateway at this address what is set for an account.
pub async fn account_settings(base: &str, account: &Credentials) -> Settings {
    let to: Uri = match format!("{base}/apis/account.php").parse() {
        Ok(to) => to,
        Err(_) => return Settings::NoAnswer(format!("{base} is not an address")),
    };
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("username", &account.username).append_pair("api_key", account.api_key.expose());
    let http = Trusted::new(CONNECT_TIMEOUT);
    match tokio::time::timeout(PROVIDER_TIMEOUT, http.post_form(to, form.finish())).await {
        Err(_) => Settings::NoAnswer(format!("no answer within {PROVIDER_TIMEOUT:?}")),
        Ok(Err(lost)) => Settings::NoAnswer(lost.why),
        Ok(Ok(said)) => read(said.status, &said.body),
    }
}

fn read(status: u16, body: &[u8]) -> Settings {
    let unreadable = || Settings::NoAnswer(format!("HTTP {status}, and an answer that cannot be read"));
    match status {
        200 => {}
        404 => return Settings::NotTold,
        status => return Settings::NoAnswer(format!("HTTP {status}")),
    }
    let Ok(Envelope { response }) = serde_json::from_slice::<Envelope<Refusal>>(body) else { return unreadable() };
    match response.code.as_str() {
        SUCCESS => match serde_json::from_slice::<Envelope<AccountSettings>>(body) {
            Ok(envelope) => Settings::Known(envelope.response),
            Err(_) => unreadable(),
        },
        "01" => Settings::UnknownUsername,
        "09" => Settings::WrongApiKey,
        _ => Settings::NoAnswer(response.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_told_apart() {
        let said = |status, text: &str| format!("{:?}", read(status, text.as_bytes()));
        let known = r#"{"response":{"code":"00","description":"Success","username":"shop","time_zone":"UTC","currencies":["USD"],
            "convenience_fee_percent":0,"convenience_fee_fixed":0.0,"three_ds":true}}"#;
        assert!(said(200, known).starts_with("Known"));
        assert!(said(200, r#"{"response":{"code":"01","description":"x"}}"#).starts_with("UnknownUsername"));
        assert!(said(200, r#"{"response":{"code":"09","description":"x"}}"#).starts_with("WrongApiKey"));
        assert!(said(404, r#"{"response":{"code":"UN","description":"Unknown script"}}"#).starts_with("NotTold"));
        for (status, text) in [
            (200, ""),
            (200, r#"{"response":{"code":"00","description":"Success"}}"#),
            (200, r#"{"response":{"code":"A1","description":"x"}}"#),
            (500, known),
            (302, ""),
        ] {
            assert!(said(status, text).starts_with("NoAnswer"), "{status} {text}");
        }
    }

    #[test]
    fn a_fee_is_seen_in_either_form() {
        let with = |percent: &str, fixed: &str| {
            let text = format!(
                r#"{{"time_zone":"UTC","currencies":[],"convenience_fee_percent":{percent},"convenience_fee_fixed":{fixed},"three_ds":true}}"#
            );
            serde_json::from_str::<AccountSettings>(&text).expect("settings").has_fee()
        };
        assert!(!with("0", "0.00") && !with("0", "0"));
        assert!(with("250", "0.00") && with("0", "0.01") && with("0.5", "0"));
    }
}
