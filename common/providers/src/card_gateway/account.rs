//! The settings of an account at the gateway. They are queried when an operator connects the account, so that an
//! unusable account is rejected then and not by its first payment.

use std::time::Duration;

use hyper::Uri;
use serde::Deserialize;
use serde_json::Number;

use super::Credentials;
use super::wire::Refusal;
use crate::PROVIDER_TIMEOUT;
use egress::{HeaderMap, TrustedClient};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const SUCCESS: &str = "00";

#[derive(Clone, Debug, Deserialize)]
pub struct AccountSettings {
    /// The time zone in which its days end.
    pub time_zone: String,
    pub currencies: Vec<String>,
    /// A percentage that the gateway adds to a sale, in basis points.
    pub convenience_fee_percent: Number,
    /// A fixed amount that the gateway adds to a sale.
    pub convenience_fee_fixed: Number,
    /// Whether the gateway may challenge cardholders.
    pub three_ds: bool,
}

impl AccountSettings {
    /// Whether the gateway charges more than the requested amount.
    pub fn has_fee(&self) -> bool {
        let is_some = |fee: &Number| fee.as_f64() != Some(0.0);
        is_some(&self.convenience_fee_percent) || is_some(&self.convenience_fee_fixed)
    }
}

/// The result of the query.
#[derive(Debug)]
pub enum Settings {
    Known(AccountSettings),
    /// The gateway does not know the user name (code 01).
    UnknownUsername,
    /// The API key is wrong (code 09).
    WrongApiKey,
    /// The gateway's release does not support the query.
    Unsupported,
    /// No response, or one that cannot be parsed, with the reason.
    NoResponse(String),
}

#[derive(Deserialize)]
struct Envelope<T> {
    response: T,
}

/// Queries the gateway at this base URL for the settings of an account.
pub async fn account_settings(base: &str, account: &Credentials) -> Settings {
    let to: Uri = match format!("{base}/apis/account.php").parse() {
        Ok(to) => to,
        Err(_) => return Settings::NoResponse(format!("{base} is not a URL")),
    };
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("username", &account.username).append_pair("api_key", account.api_key.expose());
    let http = TrustedClient::new(CONNECT_TIMEOUT);
    match tokio::time::timeout(PROVIDER_TIMEOUT, http.post_form(to, HeaderMap::new(), form.finish())).await {
        Err(_) => Settings::NoResponse(format!("no response within {PROVIDER_TIMEOUT:?}")),
        Ok(Err(lost)) => Settings::NoResponse(lost.message),
        Ok(Ok(response)) => read(response.status, &response.body),
    }
}

fn read(status: u16, body: &[u8]) -> Settings {
    let unparsable = || Settings::NoResponse(format!("HTTP {status} with a response that cannot be parsed"));
    match status {
        200 => {}
        404 => return Settings::Unsupported,
        status => return Settings::NoResponse(format!("HTTP {status}")),
    }
    let Ok(Envelope { response }) = serde_json::from_slice::<Envelope<Refusal>>(body) else { return unparsable() };
    match response.code.as_str() {
        SUCCESS => match serde_json::from_slice::<Envelope<AccountSettings>>(body) {
            Ok(envelope) => Settings::Known(envelope.response),
            Err(_) => unparsable(),
        },
        "01" => Settings::UnknownUsername,
        "09" => Settings::WrongApiKey,
        _ => Settings::NoResponse(response.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_is_recognized() {
        let result = |status, text: &str| format!("{:?}", read(status, text.as_bytes()));
        let settings = r#"{"response":{"code":"00","description":"Success","username":"shop","time_zone":"UTC","currencies":["USD"],
            "convenience_fee_percent":0,"convenience_fee_fixed":0.0,"three_ds":true}}"#;
        assert!(result(200, settings).starts_with("Known"));
        assert!(result(200, r#"{"response":{"code":"01","description":"x"}}"#).starts_with("UnknownUsername"));
        assert!(result(200, r#"{"response":{"code":"09","description":"x"}}"#).starts_with("WrongApiKey"));
        assert!(result(404, r#"{"response":{"code":"UN","description":"Unknown script"}}"#).starts_with("Unsupported"));
        for (status, text) in [
            (200, ""),
            (200, r#"{"response":{"code":"00","description":"Success"}}"#),
            (200, r#"{"response":{"code":"A1","description":"x"}}"#),
            (500, settings),
            (302, ""),
        ] {
            assert!(result(status, text).starts_with("NoResponse"), "{status} {text}");
        }
    }

    #[test]
    fn fees_are_recognized_as_percentage_or_fixed_amount() {
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
