//! Query parameters. `unknown_fields` has already rejected those that the route does not have.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use foundation::card_number::excerpt;
use foundation::error::Error;
use foundation::page::PageRequest;

use crate::error::ApiError;

/// The parameters of a request, each sent once.
pub(crate) struct Params(HashMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let malformed = |_| Error::invalid("", "the query string is malformed");
        let Query(map) = Query::<HashMap<String, String>>::try_from_uri(&parts.uri).map_err(malformed)?;
        match map.iter().find(|(_, value)| value.contains('\0')) {
            Some((name, _)) => {
                let name = excerpt(name);
                let message = format!("{name} must not contain the character U+0000");
                Err(Error::invalid(name, message).into())
            }
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
    /// 422 naming the invalid parameter.
    pub(crate) fn page<Id: std::str::FromStr>(&self) -> Result<PageRequest<Id>, Error> {
        PageRequest::parse(self.get("limit"), self.get("startingAfter"))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, Uri};
    use foundation::id::PaymentId;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;

    #[test]
    fn query_strings_are_parsed_or_rejected_by_parameter() {
        let id = "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
        let queries = prop_oneof![
            mutated(format!("limit=10&startingAfter={id}&externalId=u-1")),
            mutated("limit=%31%30&limit=2&=&&%00=%zz&a[]=1"),
            texts(),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        check(queries, |query| {
            // An invalid URI never reaches the extractor.
            let Ok(uri) = format!("/v1/payments?{query}").parse::<Uri>() else { return };
            let (mut parts, ()) = Request::builder().uri(uri).body(()).expect("a request").into_parts();
            match runtime.block_on(Params::from_request_parts(&mut parts, &())) {
                Ok(params) => match params.page::<PaymentId>() {
                    Ok(page) => {
                        assert!((2..=101).contains(&page.fetch()));
                        let cursor = page.starting_after.map(|id| id.to_string());
                        assert_eq!(cursor.as_deref(), params.get("startingAfter"));
                    }
                    Err(Error::Invalid { param, .. }) => assert!(params.get(&param).is_some(), "{param}"),
                    Err(other) => panic!("{other}"),
                },
                Err(error) => assert!(error.status() == 422 && error.message().len() < 100, "{error:?}"),
            }
        });
    }
}
