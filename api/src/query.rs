//! Query strings: a few named parameters, the rest ignored.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use common::error::Error;
use common::page::PageRequest;

use crate::answer::Refusal;

/// The parameters of a request; of a repeated one, the last.
pub(crate) struct Params(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let malformed = |_| Error::invalid("", "the query string is malformed");
        let Query(map) = Query::<HashMap<String, String>>::try_from_uri(&parts.uri).map_err(malformed)?;
        match map.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => Err(Error::invalid(name.clone(), "must not contain the character U+0000").into()),
            None => Ok(Self(map)),
        }
    }
}

impl Params {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// `limit` and `startingAfter`.
    ///
    /// # Errors
    /// 422 naming the one at fault.
    pub(crate) fn page<Id: std::str::FromStr>(&self) -> Result<PageRequest<Id>, Error> {
        PageRequest::parse(self.get("limit"), self.get("startingAfter"))
    }
}
