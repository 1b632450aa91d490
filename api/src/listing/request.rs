//! The request of a list.

use std::marker::PhantomData;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;
use foundation::card_number::excerpt;
use foundation::error::Error;
use foundation::filter::Filters as _;
use foundation::form::{self, NotUtf8};
use foundation::page::PageRequest;

use super::Listed;
use crate::error::ApiError;

/// What is requested.
pub(crate) struct ListRequest<L: Listed> {
    pub(crate) filter: L::Filter,
    /// The id in the path; empty if it has none.
    pub(crate) parent: String,
    pub(crate) format: Format<L::Id>,
    _list: PhantomData<L>,
}

/// The format of the response.
pub(crate) enum Format<Id> {
    /// One page.
    Json(PageRequest<Id>),
    /// All rows.
    Csv(Units),
}

/// How CSV shows amounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Units {
    /// As JSON does.
    Minor,
    /// As decimal numbers in the row's currency: `Accept: text/csv; amounts=major`.
    Major,
}

impl<L: Listed, S: Send + Sync> FromRequestParts<S> for ListRequest<L> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        // Absent where the path has none.
        let path = RawPathParams::from_request_parts(parts, state).await.ok();
        let parent = path.and_then(|path| path.iter().next().map(|(_, value)| value.to_owned())).unwrap_or_default();
        let query = parts.uri.query().unwrap_or_default();
        let (filter, limit, starting_after) = parse::<L>(query)?;
        let format = match preferred_csv(&parts.headers) {
            None => Format::Json(PageRequest::parse(limit.as_deref(), starting_after.as_deref())?),
            Some(units) => {
                let sent = [("limit", limit), ("startingAfter", starting_after)];
                if let Some((name, _)) = sent.iter().find(|(_, value)| value.is_some()) {
                    return Err(Error::invalid(*name, format!("{name} must not be sent with Accept: text/csv")).into());
                }
                Format::Csv(units)
            }
        };
        Ok(Self { filter, parent, format, _list: PhantomData })
    }
}

type Parsed<F> = (F, Option<String>, Option<String>);

/// The filters, `limit` and `startingAfter`.
fn parse<L: Listed>(query: &str) -> Result<Parsed<L::Filter>, Error> {
    let (mut filter, mut limit, mut starting_after) = (L::Filter::default(), None, None);
    let mut sent = Vec::new();
    for parameter in form::fields(query.as_bytes()) {
        let (name, value) = parameter.map_err(|error| match error {
            NotUtf8::Name => Error::invalid("", "the query string must be valid UTF-8"),
            NotUtf8::Value(name) => Error::invalid(excerpt(&name), "it must be valid UTF-8"),
        })?;
        if value.contains('\0') {
            let message = format!("{name} must not contain the character U+0000");
            return Err(Error::invalid(name, message));
        }
        match name.as_str() {
            "limit" => limit = Some(value),
            "startingAfter" => starting_after = Some(value),
            _ => filter.add(&name, &value)?,
        }
        sent.push(name);
    }
    if let Some(name) = L::REQUIRED.iter().find(|name| !sent.iter().any(|sent| sent == *name)) {
        return Err(Error::invalid(*name, format!("{name} is required")));
    }
    filter.check()?;
    Ok((filter, limit, starting_after))
}

/// The CSV that the client prefers to JSON, if it does: `text/csv` has the highest quality, or is the first of those with
/// it (RFC 9110 §12.5.1).
fn preferred_csv(headers: &HeaderMap) -> Option<Units> {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut preferred = (0.0, None);
    for entry in lines.flat_map(|line| line.split(',')) {
        let mut parts = entry.split(';').map(str::trim);
        let is_csv = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/csv"));
        let parts: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let value =
            |wanted: &str| parts.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
        let quality = value("q").map_or(1.0, |text| text.parse().unwrap_or(0.0));
        let units = if value("amounts") == Some("major") { Units::Major } else { Units::Minor };
        if quality > preferred.0 {
            preferred = (quality, is_csv.then_some(units));
        }
    }
    preferred.1
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, Request};
    use foundation::id::PaymentId;
    use proptest::prelude::*;
    use testkit::fuzz::{check, mutated, texts};

    use super::*;
    use crate::routes::lists::Payments;

    #[test]
    fn csv_is_sent_to_clients_that_prefer_it() {
        let wants = |accept: &str| {
            preferred_csv(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).expect("a header"))]))
        };
        for accept in ["text/csv; amounts=major", "text/csv;q=0.9;Amounts=major, application/json;q=0.5"] {
            assert_eq!(wants(accept), Some(Units::Major), "{accept}");
        }
        for accept in ["text/csv", "TEXT/CSV; charset=utf-8", "text/csv, */*;q=0.1", "application/json;q=0.5,text/csv"]
        {
            assert_eq!(wants(accept), Some(Units::Minor), "{accept}");
        }
        for accept in
            ["", "*/*", "application/json", "application/json, text/csv", "text/csv;q=0.5, */*", "text/csv;q=0"]
        {
            assert_eq!(wants(accept), None, "{accept}");
        }
    }

    #[test]
    fn query_strings_are_parsed_or_rejected_by_parameter() {
        let id = "pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7";
        let queries = prop_oneof![
            mutated(format!(
                "limit=10&startingAfter={id}&status=settled&status=failed&amountFrom=7&createdTo=2026-01-01T00:00:00Z"
            )),
            mutated("limit=%31%30&limit=2&=&&%00=%zz&a[]=1&last4=4242&currency=usd"),
            texts(),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        check(queries, |query| {
            // An invalid URI never reaches the extractor.
            let Ok(request) = Request::builder().uri(format!("/v1/payments?{query}")).body(()) else { return };
            let (mut parts, ()) = request.into_parts();
            match runtime.block_on(ListRequest::<Payments>::from_request_parts(&mut parts, &())) {
                Ok(ListRequest { format: Format::Json(page), .. }) => {
                    let page: PageRequest<PaymentId> = page;
                    assert!((2..=101).contains(&page.fetch()));
                }
                Ok(_) => panic!("no CSV was requested"),
                Err(error) => assert!(error.status() == 422 && error.message().len() < 250, "{error:?}"),
            }
        });
    }
}
