//! HTTP requests to the gateway: one form, one response. The HTTP status describes the request, the code of the
//! contract the operation.

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::Credentials;
use crate::{ProviderError, ProviderResponse};
use egress::{HeaderMap, TrustedClient};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The code of a successful response.
const SUCCESS: &str = "00";

/// The codes of an operation that had no effect and never will (docs/gateway.md, Codes).
const NO_EFFECT: [&str; 27] = [
    "02", "03", "04", "05", "06", "07", "08", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22",
    "23", "24", "25", "26", "A1", "A2", "P1", "F",
];

/// An HTTP client for the gateway's base URL.
#[derive(Clone)]
pub(super) struct Wire {
    http: TrustedClient,
    base: Arc<str>,
}

#[derive(Debug)]
pub(super) enum Reply<T> {
    /// `00`, with the operation's fields.
    Success(T),
    Refusal(Refusal),
}

/// A code other than `00`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) code: String,
    #[serde(default)]
    pub(super) description: String,
}

impl Refusal {
    /// For operators.
    pub(super) fn reason(&self) -> String {
        format!("{}: {}", self.code, self.description)
    }

    /// The meaning of the code for any operation.
    ///
    /// # Errors
    /// [`ProviderError::Unknown`] if the operation may have had an effect; [`ProviderError::NotProcessed`] if this
    /// request had none, for a reason that does not apply to other requests with the same reference.
    pub(super) fn response(&self) -> Result<ProviderResponse, ProviderError> {
        match self.code.as_str() {
            "UN" => Err(ProviderError::Unknown(self.reason())),
            // The gateway processes no request now. Any other A1 or A2 is about this request.
            "A1" | "A2" if self.description.contains("nothing was entered") => {
                Err(ProviderError::unavailable(self.reason()))
            }
            "01" | "09" => Err(ProviderError::credentials(self.reason())),
            // The account does not support the currency, which must not count against the card.
            "10" => Err(ProviderError::setup(self.reason())),
            code if NO_EFFECT.contains(&code) => Ok(ProviderResponse::refused(self.reason())),
            // An unknown code may mean anything.
            _ => Err(ProviderError::Unknown(format!("unknown code: {}", self.reason()))),
        }
    }
}

/// Whether the text is valid as an id of a transaction or card. Our database would reject any other, and with it the
/// outcome.
pub(super) fn is_id(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// An id of the gateway. For `#[serde(deserialize_with)]`.
pub(super) fn id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if is_id(&text) { Ok(text) } else { Err(D::Error::custom("an invalid id")) }
}

/// An amount, which the gateway writes as a number or a string. For `#[serde(deserialize_with)]`, with a default.
pub(super) fn decimal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    Ok(Option::<Written>::deserialize(from)?.map(|written| match written {
        // All its currencies have two decimal places.
        Written::Number(number) => format!("{number:.2}"),
        Written::Text(text) => text,
    }))
}

#[derive(Deserialize)]
struct Envelope<T> {
    response: T,
}

impl Wire {
    pub(super) fn new(base: String) -> Self {
        Self { http: TrustedClient::new(CONNECT_TIMEOUT), base: base.into() }
    }

    /// Posts a form with the account's credentials.
    ///
    /// # Errors
    /// [`ProviderError::NotProcessed`] if it did not arrive or was rejected unread; [`ProviderError::Unknown`] if it
    /// may have arrived.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        script: &str,
        account: &Credentials,
        fields: &[(&str, &str)],
    ) -> Result<Reply<T>, ProviderError> {
        let form = form(account, fields);
        let to = format!("{}/apis/{script}.php", self.base);
        let to: Uri = to.parse().map_err(|_| ProviderError::unavailable(format!("{to} is not a URL")))?;
        let response = match self.http.post_form(to, HeaderMap::new(), form).await {
            Ok(response) => response,
            Err(lost) if lost.sent => return Err(ProviderError::Unknown(lost.message)),
            Err(lost) => return Err(ProviderError::unavailable(lost.message)),
        };
        match response.status {
            200 => read(&response.body),
            // The statuses by which the gateway rejects a request unread (docs/gateway.md, Every response).
            status @ (404 | 405 | 408 | 413 | 415 | 429) => Err(ProviderError::unavailable(format!("HTTP {status}"))),
            status => Err(ProviderError::Unknown(format!("HTTP {status}"))),
        }
    }
}

fn form(account: &Credentials, fields: &[(&str, &str)]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("username", &account.username).append_pair("api_key", account.api_key.expose());
    form.extend_pairs(fields).finish()
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Reply<T>, ProviderError> {
    let unparsable =
        |error: serde_json::Error| ProviderError::Unknown(format!("a response that cannot be parsed: {error}"));
    // Fields that are not deserialized must be UTF-8 too.
    let body =
        std::str::from_utf8(body).map_err(|_| ProviderError::Unknown("a response that is not UTF-8".to_owned()))?;
    let envelope: Envelope<Refusal> = serde_json::from_str(body).map_err(unparsable)?;
    if envelope.response.code != SUCCESS {
        return Ok(Reply::Refusal(envelope.response));
    }
    let envelope: Envelope<T> = serde_json::from_str(body).map_err(unparsable)?;
    Ok(Reply::Success(envelope.response))
}

#[cfg(test)]
mod tests {
    use testkit::fuzz::{check, mutated};

    use super::*;
    use crate::Cause;

    /// A code without a meaning here would leave an outcome open.
    #[test]
    fn every_documented_code_has_a_meaning() {
        let page = std::fs::read_to_string(testkit::tools::project_root().join("docs/gateway.md")).expect("the page");
        let codes = page.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next());
        // The scripts in pages have longer ones.
        let codes: Vec<_> = codes.filter(|code| (1..=2).contains(&code.len()) && *code != SUCCESS).collect();
        assert_eq!(codes.len(), 31, "{codes:?}");
        for code in codes {
            let refusal = Refusal { code: code.to_owned(), description: String::new() };
            match refusal.response() {
                Ok(ProviderResponse::Refused { .. }) => {}
                Err(ProviderError::NotProcessed { .. }) => assert!(["01", "09", "10"].contains(&code), "{code}"),
                Err(ProviderError::Unknown(_)) => assert_eq!(code, "UN"),
                Ok(other) => panic!("{code}: {other:?}"),
            }
        }
    }

    #[test]
    fn only_known_codes_are_outcomes() {
        let refusal = |code: &str| Refusal { code: code.to_owned(), description: String::new() };
        for code in ["02", "15", "26", "A1", "A2", "F"] {
            assert!(matches!(refusal(code).response(), Ok(ProviderResponse::Refused { .. })), "{code}");
        }
        for code in ["", " 00", "00 ", "0", "000", "27", "99", "f", "XX", "UN"] {
            assert!(matches!(refusal(code).response(), Err(ProviderError::Unknown(_))), "{code:?}");
        }
        check(mutated("15"), |code| match refusal(&code).response() {
            Ok(ProviderResponse::Refused { .. }) => {
                assert!(["F", "P1", "A1", "A2"].contains(&&*code) || ("02"..="26").contains(&&*code), "{code:?}")
            }
            Ok(response) => panic!("{response:?}"),
            Err(ProviderError::NotProcessed { .. }) => {
                assert!(["01", "09", "10"].contains(&&*code), "{code:?}")
            }
            Err(ProviderError::Unknown(_)) => {}
        });
        let cause = |code: &str| {
            let description = "Transaction entry failed: the gateway was suspended; nothing was entered".to_owned();
            match (Refusal { code: code.to_owned(), description }).response() {
                Err(ProviderError::NotProcessed { cause, .. }) => cause,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(["A1", "A2"].map(cause), [Cause::Unavailable; 2]);
        assert_eq!(["01", "09"].map(cause), [Cause::Credentials; 2]);
        assert_eq!(cause("10"), Cause::Setup);
    }
}
