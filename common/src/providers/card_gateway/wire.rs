//! One form, one answer. What the status says of the request, the contract's code says of the operation.

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};

use super::Credentials;
use crate::egress::Trusted;
use crate::providers::{Answer, Fault};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// By which the gateway says that it was read and understood.
const SUCCESS: &str = "00";

/// By which it says that it did nothing, and will not (docs/gateway.md, Codes).
const NOTHING_DONE: [&str; 25] = [
    "02", "03", "04", "05", "06", "07", "08", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22",
    "23", "24", "25", "26", "P1", "F",
];

/// The gateway's address, and the connections to it.
#[derive(Clone)]
pub(super) struct Wire {
    http: Trusted,
    base: Arc<str>,
}

/// What was answered.
#[derive(Debug)]
pub(super) enum Reply<T> {
    /// `00`, with the operation's fields.
    Success(T),
    /// Any other code, and its description.
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
    /// For the person on call.
    pub(super) fn reason(&self) -> String {
        format!("{}: {}", self.code, self.description)
    }

    /// What the code means of whatever was asked.
    ///
    /// # Errors
    /// [`Fault::Unknown`] if nothing is known but that something may have happened; [`Fault::NotProcessed`] if this request did
    /// nothing, for a reason that says nothing of any other with the same reference.
    pub(super) fn answer(&self) -> Result<Answer, Fault> {
        match self.code.as_str() {
            "UN" => Err(Fault::Unknown(self.reason())),
            "A1" | "A2" => Err(Fault::unavailable(self.reason())),
            "01" | "09" => Err(Fault::credentials(self.reason())),
            // Not boarded for the currency: the card is none the worse for it.
            "10" => Err(Fault::setup(self.reason())),
            code if NOTHING_DONE.contains(&code) => Ok(Answer::refused(self.reason())),
            // It may mean anything, so it ends nothing.
            _ => Err(Fault::Unknown(format!("a code that is none: {}", self.reason()))),
        }
    }
}

/// Whether it may be a name of the gateway's, of a transaction or a card. Another would be refused by our books, with the outcome.
pub(super) fn is_name(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A name of the gateway's. For `#[serde(deserialize_with)]`.
pub(super) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if is_name(&text) { Ok(text) } else { Err(D::Error::custom("a name that is none")) }
}

/// An amount, which the gateway writes as a number or as a text. For `#[serde(deserialize_with)]`, with a default.
pub(super) fn decimal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    Ok(Option::<Written>::deserialize(from)?.map(|written| match written {
        // Each of its currencies has two decimal places.
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
        Self { http: Trusted::new(CONNECT_TIMEOUT), base: base.into() }
    }

    /// Posts a form in the account's name.
    ///
    /// # Errors
    /// [`Fault::NotProcessed`] if it did not arrive or was turned away unread; [`Fault::Unknown`] if it may have.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        script: &str,
        account: &Credentials,
        fields: &[(&str, &str)],
    ) -> Result<Reply<T>, Fault> {
        let form = form(account, fields);
        let to = format!("{}/apis/{script}.php", self.base);
        let to: Uri = to.parse().map_err(|_| Fault::unavailable(format!("{to} is not an address")))?;
        let said = match self.http.post_form(to, form).await {
            Ok(said) => said,
            Err(lost) if lost.sent => return Err(Fault::Unknown(lost.why)),
            Err(lost) => return Err(Fault::unavailable(lost.why)),
        };
        match said.status {
            200 => read(&said.body),
            // Its own words for what it has not looked at (docs/gateway.md, Every answer).
            status @ (404 | 405 | 408 | 413 | 415 | 429) => Err(Fault::unavailable(format!("HTTP {status}"))),
            status => Err(Fault::Unknown(format!("HTTP {status}"))),
        }
    }
}

fn form(account: &Credentials, fields: &[(&str, &str)]) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    form.append_pair("username", &account.username).append_pair("api_key", account.api_key.expose());
    form.extend_pairs(fields).finish()
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Reply<T>, Fault> {
    let unreadable = |error: serde_json::Error| Fault::Unknown(format!("an answer that cannot be read: {error}"));
    // What is not looked at is to be text, too.
    let body = std::str::from_utf8(body).map_err(|_| Fault::Unknown("an answer that is no text".to_owned()))?;
    let envelope: Envelope<Refusal> = serde_json::from_str(body).map_err(unreadable)?;
    if envelope.response.code != SUCCESS {
        return Ok(Reply::Refusal(envelope.response));
    }
    let envelope: Envelope<T> = serde_json::from_str(body).map_err(unreadable)?;
    Ok(Reply::Success(envelope.response))
}

#[cfg(test)]
mod tests {
    use testkit::fuzz::{check, mutated};

    use super::*;
    use crate::providers::Cause;

    #[test]
    fn only_a_code_of_the_contract_ends_anything() {
        let refusal = |code: &str| Refusal { code: code.to_owned(), description: String::new() };
        for code in ["02", "15", "26", "F"] {
            assert!(matches!(refusal(code).answer(), Ok(Answer::Refused { .. })), "{code}");
        }
        for code in ["", " 00", "00 ", "0", "000", "27", "99", "f", "XX", "UN"] {
            assert!(matches!(refusal(code).answer(), Err(Fault::Unknown(_))), "{code:?}");
        }
        check(mutated("15"), |code| match refusal(&code).answer() {
            Ok(Answer::Refused { .. }) => {
                assert!(code == "F" || code == "P1" || ("02"..="26").contains(&&*code), "{code:?}")
            }
            Ok(answer) => panic!("{answer:?}"),
            Err(Fault::NotProcessed { .. }) => assert!(["A1", "A2", "01", "09", "10"].contains(&&*code), "{code:?}"),
            Err(Fault::Unknown(_)) => {}
        });
        let cause = |code: &str| match refusal(code).answer() {
            Err(Fault::NotProcessed { cause, .. }) => cause,
            other => panic!("{other:?}"),
        };
        assert_eq!(["A1", "A2"].map(cause), [Cause::Unavailable; 2]);
        assert_eq!(["01", "09"].map(cause), [Cause::Credentials; 2]);
        assert_eq!(cause("10"), Cause::Setup);
    }
}
