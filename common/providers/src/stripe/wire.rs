//! HTTP requests to Stripe: a form, a JSON response, and the meaning of the status (docs.stripe.com/api/errors).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use egress::{HeaderMap, HttpResponse, TrustedClient};
use hyper::Uri;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::de::DeserializeOwned;

use super::Credentials;
use super::objects::{ErrorBody, StripeError};
use crate::{ProviderError, ProviderResponse};

/// Responses have the form of this version, whatever the account's own is.
pub(super) const API_VERSION: &str = "2025-10-29.clover";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const STRIPE_VERSION: HeaderName = HeaderName::from_static("stripe-version");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
const UNAUTHORIZED: u16 = 401;
const FORBIDDEN: u16 = 403;

/// An HTTP client for Stripe's base URL.
#[derive(Clone)]
pub(super) struct Wire {
    http: TrustedClient,
    base: Arc<str>,
}

/// A request has no usable response.
#[derive(Debug)]
pub(super) enum SendError {
    Provider(ProviderError),
    /// An error of Stripe's, which it will repeat for this request and its idempotency key: the outcome is unknown.
    Failed(String),
    /// The idempotency key was used with other parameters, and that request may have had an effect; this one had none.
    KeyUsed(String),
}

impl SendError {
    /// The error of a request that follows one that had an effect: whatever it is, the outcome is unknown.
    pub(super) fn after_effect(self) -> ProviderError {
        ProviderError::Unknown(match self {
            Self::Failed(reason) | Self::KeyUsed(reason) => reason,
            Self::Provider(error) => error.to_string(),
        })
    }
}

impl From<ProviderError> for SendError {
    fn from(error: ProviderError) -> Self {
        Self::Provider(error)
    }
}

impl From<SendError> for ProviderError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Provider(error) => error,
            SendError::Failed(reason) | SendError::KeyUsed(reason) => Self::Unknown(reason),
        }
    }
}

#[derive(Debug)]
pub(super) enum Reply<T> {
    Success {
        object: T,
        /// Stripe responded to an earlier request with the same idempotency key, and repeats that response.
        replayed: bool,
    },
    /// The request had no effect, besides a declined attempt.
    Refused(Box<StripeError>),
}

/// The fields of a form, encoded.
pub(super) struct Form(String);

impl Form {
    pub(super) const fn new() -> Self {
        Self(String::new())
    }

    #[must_use]
    pub(super) fn with(self, name: &str, value: &str) -> Self {
        Self(url::form_urlencoded::Serializer::new(self.0).append_pair(name, value).finish())
    }

    /// A text of ours that Stripe keeps with the object.
    #[must_use]
    pub(super) fn with_metadata(self, name: &str, value: &str) -> Self {
        self.with(&format!("metadata[{name}]"), value)
    }

    #[must_use]
    pub(super) fn with_some(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

impl Wire {
    pub(super) fn new(base: String) -> Self {
        Self { http: TrustedClient::new(CONNECT_TIMEOUT), base: base.into() }
    }

    /// Requests with the keys of an account.
    pub(super) const fn with<'a>(&'a self, account: &'a Credentials) -> Session<'a> {
        Session { wire: self, account }
    }

    fn uri(&self, path: &str) -> Result<Uri, ProviderError> {
        let to = format!("{}{path}", self.base);
        to.parse().map_err(|_| ProviderError::unavailable(format!("{to} is not a URL")))
    }
}

/// Stripe, for one of our accounts.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    wire: &'a Wire,
    account: &'a Credentials,
}

impl Session<'_> {
    /// Posts a form. A repeated key returns the first response.
    ///
    /// # Errors
    /// [`ProviderError::NotProcessed`] if it did not arrive or was rejected unread; [`ProviderError::Unknown`] or
    /// [`SendError::Failed`] if it may have had an effect; [`SendError::KeyUsed`] if only an earlier one may have.
    pub(super) async fn post<T: DeserializeOwned>(
        self,
        path: &str,
        idempotency_key: &str,
        form: Form,
    ) -> Result<Reply<T>, SendError> {
        let mut headers = self.headers()?;
        let key = HeaderValue::from_str(idempotency_key);
        headers.insert(IDEMPOTENCY_KEY, key.map_err(|_| ProviderError::unavailable("an invalid reference"))?);
        read(self.wire.http.post_form(self.wire.uri(path)?, headers, form.0).await)
    }

    /// Gets an object; `None` if there is none.
    ///
    /// # Errors
    /// [`ProviderError`], and any refusal but "no such object" is [`ProviderError::Unknown`].
    pub(super) async fn get<T: DeserializeOwned>(self, path: &str) -> Result<Option<T>, ProviderError> {
        match read(self.wire.http.get(self.wire.uri(path)?, self.headers()?).await)? {
            Reply::Success { object, .. } => Ok(Some(object)),
            Reply::Refused(error) if error.code.as_deref() == Some("resource_missing") => Ok(None),
            Reply::Refused(error) => Err(ProviderError::Unknown(error.reason())),
        }
    }

    /// Whether the key may not make a request that changes nothing: a GET, or a form that Stripe refuses.
    ///
    /// # Errors
    /// [`ProviderError::NotProcessed`] if Stripe does not accept the key, [`ProviderError::Unknown`] if there is no
    /// response.
    pub(super) async fn is_forbidden(self, path: &str, form: Option<Form>) -> Result<bool, ProviderError> {
        let (to, headers) = (self.wire.uri(path)?, self.headers()?);
        let response = match form {
            Some(form) => self.wire.http.post_form(to, headers, form.0).await,
            None => self.wire.http.get(to, headers).await,
        };
        match response {
            Ok(response) if response.status == UNAUTHORIZED => Err(ProviderError::credentials("an invalid key")),
            Ok(response) => Ok(response.status == FORBIDDEN),
            Err(lost) => Err(ProviderError::Unknown(lost.message)),
        }
    }

    fn headers(self) -> Result<HeaderMap, ProviderError> {
        let invalid = |_| ProviderError::credentials("the secret key has invalid characters");
        let bearer = format!("Bearer {}", self.account.secret_key.expose());
        let mut authorization = HeaderValue::from_str(&bearer).map_err(invalid)?;
        authorization.set_sensitive(true);
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, authorization);
        headers.insert(STRIPE_VERSION, HeaderValue::from_static(API_VERSION));
        Ok(headers)
    }
}

fn read<T: DeserializeOwned>(response: Result<HttpResponse, egress::NoResponse>) -> Result<Reply<T>, SendError> {
    let response = match response {
        Ok(response) => response,
        Err(lost) if lost.sent => return Err(ProviderError::Unknown(lost.message).into()),
        Err(lost) => return Err(ProviderError::unavailable(lost.message).into()),
    };
    let status = response.status;
    let error = serde_json::from_slice::<ErrorBody>(&response.body).map(|body| body.error);
    let reason = || match &error {
        Ok(error) => format!("HTTP {status}: {}", error.reason()),
        Err(_) => format!("HTTP {status}"),
    };
    let is = |header: HeaderName, text: &str| response.headers.get(header).is_some_and(|value| value == text);
    match status {
        200 => {
            let replayed = is(REPLAYED, "true");
            let unparsable = |error| ProviderError::Unknown(format!("a response that cannot be parsed: {error}"));
            Ok(Reply::Success { object: serde_json::from_slice(&response.body).map_err(unparsable)?, replayed })
        }
        // The key was revoked.
        UNAUTHORIZED => Err(ProviderError::credentials(reason()).into()),
        // It lacks the permission for this; others are not affected.
        FORBIDDEN => Err(ProviderError::setup(reason()).into()),
        // Another request holds the lock of the object.
        429 if error.as_ref().is_ok_and(|error| error.code.as_deref() == Some("lock_timeout")) => {
            Err(ProviderError::Unknown(reason()).into())
        }
        // Too many requests: rejected unread.
        429 => Err(ProviderError::unavailable(reason()).into()),
        400 | 402 | 404 => match error {
            // As after a change of our URL.
            Ok(error) if error.kind == "idempotency_error" => Err(SendError::KeyUsed(error.reason())),
            Ok(error) => Ok(Reply::Refused(Box::new(error))),
            Err(_) => Err(ProviderError::Unknown(reason()).into()),
        },
        500.. if is(REPLAYED, "true") || is(SHOULD_RETRY, "false") => Err(SendError::Failed(reason())),
        // 409: a request with this key is in progress.
        _ => Err(ProviderError::Unknown(reason()).into()),
    }
}

/// The meaning of a refusal that is no decline.
pub(super) fn refused(error: &StripeError) -> ProviderResponse {
    ProviderResponse::refused(error.reason())
}

/// Whether the text is an id of this kind, such as `pi_3MtwBwLkdIwHu7ix28a3tqPa`.
pub(super) fn is_id(prefix: &str, text: &str) -> bool {
    let rest = text.strip_prefix(prefix);
    rest.is_some_and(|rest| {
        (1..=240).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// A query string.
pub(super) fn query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    let pairs = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    let _ = write!(text, "?{pairs}");
    text
}
