//! What the address of a list requests: a search, filters and a page.

use std::time::Duration;

use foundation::time::Timestamp;
use maud::{Markup, html};
use url::form_urlencoded::{Serializer, parse};

use crate::address::of_object;
use crate::catalog::{List, Search};
use crate::form::minor_units;
use crate::session::AccountSession;
use crate::texts::{label, labelled, listed, marked, minute, text, words_of};

/// The filters by times and by the amount: the label of each, its kind of input and its most characters.
const RANGES: [(&str, &str, &str, u8); 7] = [
    ("from", "Created from", "date", 10),
    ("to", "Created to", "date", 10),
    ("dueFrom", "Due from", "date", 10),
    ("dueTo", "Due to", "date", 10),
    ("currency", "Currency", "text", 20),
    ("amountFrom", "Amount from", "text", 20),
    ("amountTo", "Amount to", "text", 20),
];

/// What the address of a list requests.
#[derive(Default)]
pub(crate) struct ListQuery {
    search: String,
    /// As they are in the address.
    filters: Vec<(String, String)>,
    pub(crate) after: Option<String>,
}

impl ListQuery {
    pub(crate) fn of_search(search: &str) -> Self {
        Self { search: search.to_owned(), ..Self::default() }
    }

    pub(crate) fn search(&self) -> &str {
        &self.search
    }

    pub(crate) fn parse(list: &List, query: &str) -> Self {
        let mut list_query = Self::default();
        for (name, value) in parse(query.as_bytes()).filter(|(_, value)| !value.trim().is_empty()) {
            let value = value.trim().to_owned();
            match name.as_ref() {
                "q" => list_query.search = value,
                "startingAfter" => list_query.after = Some(value),
                name if name == "status" || list.ranges.contains(&name) || list.filters.contains(&name) => {
                    list_query.filters.push((name.to_owned(), value));
                }
                _ => {}
            }
        }
        list_query
    }

    /// The filters of /v1 that what is searched for may belong to, the first of them first.
    pub(crate) fn searches(&self, list: &List) -> Vec<Option<&'static str>> {
        let is_last4 = self.search.len() == 4 && self.search.bytes().all(|byte| byte.is_ascii_digit());
        let Search { email, digits, name, other, .. } = list.search;
        let by = [email.filter(|_| self.search.contains('@')), digits.filter(|_| is_last4), name, other];
        let by: Vec<_> = by.into_iter().flatten().map(Some).filter(|_| !self.search.is_empty()).collect();
        if by.is_empty() { vec![None] } else { by }
    }

    /// The query of /v1 with one of these searches.
    ///
    /// # Errors
    /// What is wrong, for the user.
    pub(crate) fn query(&self, search: Option<&str>, limit: Option<&str>) -> Result<String, String> {
        let mut query = Serializer::new(String::new());
        for (name, value) in &self.filters {
            match name.as_str() {
                "from" => query.append_pair("createdFrom", &day(value, 0)?.to_string()),
                "to" => query.append_pair("createdTo", &day(value, 1)?.to_string()),
                "dueFrom" => query.append_pair(name, &day(value, 0)?.to_string()),
                "dueTo" => query.append_pair(name, &day(value, 1)?.to_string()),
                "amountFrom" | "amountTo" if self.filter("currency").is_empty() => {
                    return Err(text("Enter the currency of the amount as well.").to_owned());
                }
                "amountFrom" | "amountTo" => {
                    let amount = minor_units(value, &self.filter("currency").to_uppercase());
                    let amount = amount.map_err(|problem| labelled(text("Amount"), problem))?;
                    query.append_pair(name, &amount.to_string())
                }
                _ => query.append_pair(name, value),
            };
        }
        query.extend_pairs(search.map(|name| (name, &self.search)));
        if let Some(limit) = limit {
            query.append_pair("limit", limit);
            query.extend_pairs(self.after.iter().map(|after| ("startingAfter", after)));
        }
        Ok(query.finish())
    }

    /// The query of a page, after this object.
    pub(crate) fn page(&self, after: Option<&str>) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(self.filters.iter());
        if !self.search.is_empty() {
            query.append_pair("q", &self.search);
        }
        query.extend_pairs(after.map(|after| ("startingAfter", after)));
        query.finish()
    }

    /// The query of the rows that belong to one object, with the same filters, instead of the search.
    pub(crate) fn of_parent(&self, filter: &str, id: &str) -> String {
        Serializer::new(String::new()).extend_pairs(self.filters.iter()).append_pair(filter, id).finish()
    }

    /// The value of a filter; empty without one.
    pub(crate) fn filter(&self, name: &str) -> &str {
        self.filters.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }
}

/// The beginning of a day in UTC, so many days later. A time, which only links of the portal have, stays as it is.
///
/// # Errors
/// What is wrong, for the user.
pub(crate) fn day(date: &str, later: u64) -> Result<Timestamp, String> {
    if let Some(time) = Timestamp::parse(date) {
        return Ok(time);
    }
    let begin = Timestamp::parse(&format!("{date}T00:00:00Z"))
        .ok_or_else(|| text("Enter a date such as 2026-01-31.").to_owned())?;
    Ok(begin.plus(Duration::from_secs(later * 86_400)))
}

/// The form of a list's filters.
pub(crate) fn form(session: &AccountSession, list: &List, list_query: &ListQuery, address: &str) -> Markup {
    let statuses: Vec<_> =
        list_query.filters.iter().filter(|(name, _)| name == "status").map(|(_, value)| value).collect();
    let is_time = |name: &str| Timestamp::parse(list_query.filter(name)).is_some();
    let has_more = list_query.filters.iter().any(|(name, _)| list.ranges.contains(&name.as_str()));
    html! {
        form.filters method="get" action=(address) role="search" {
            div.field {
                label for="q" { (text("Search")) }
                input #q type="search" name="q" value=(list_query.search) maxlength="254" placeholder=(text(list.search.hint));
            }
            @if !list.statuses.is_empty() {
                div.field {
                    label for="status" { (text("Status")) }
                    select #status name="status" {
                        option value="" { (text("All")) }
                        @for status in list.statuses {
                            option value=(status) selected[statuses == [status]] { (words_of(list.object(), status)) }
                        }
                    }
                }
            }
            @if !list.ranges.is_empty() {
                details open[has_more] {
                    summary { (text("More filters")) }
                    div.filters {
                        @for (name, label, kind, limit) in RANGES.iter().filter(|(name, ..)| list.ranges.contains(name) && !is_time(name)) {
                            div.field {
                                label for=(name) { (text(label)) }
                                input id=(name) type=(kind) name=(name) value=(list_query.filter(name)) maxlength=(limit);
                            }
                        }
                    }
                }
            }
            @for (name, label, ..) in RANGES.iter().filter(|(name, ..)| is_time(name)) {
                p.filter {
                    input type="hidden" name=(name) value=(list_query.filter(name));
                    (labelled(text(label), minute(list_query.filter(name)).unwrap_or_default()))
                    " (" a href=(address) { (text("Show all")) } ")"
                }
            }
            @if statuses.len() > 1 {
                p.filter {
                    (labelled(text("Status"), listed(&statuses.iter().map(|status| words_of(list.object(), status)).collect::<Vec<_>>())))
                    " (" a href=(address) { (text("Show all")) } ")"
                }
            }
            @for (name, value) in list_query.filters.iter().filter(|(name, _)| list.filters.contains(&name.as_str())) {
                p.filter {
                    input type="hidden" name=(name) value=(value);
                    (marked("{name}: {value}", &[("name", html! { (label(name)) }), ("value", html! { a href=[of_object(session.mode, value)] { (value) } })]))
                    " (" a href=(address) { (text("Show all")) } ")"
                }
            }
            button { (text("Apply")) }
            a.button href={ (address) ".csv?" (list_query.page(None)) } { (text("CSV")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(path: &str, address: &str) -> String {
        let list = List::find(path).expect("a list");
        let list_query = ListQuery::parse(list, address);
        let queries = list_query.searches(list).into_iter().map(|search| list_query.query(search, Some("25")));
        queries.map(|query| query.unwrap_or_else(|problem| problem)).collect::<Vec<_>>().join(" or ")
    }

    #[test]
    fn a_search_becomes_the_filter_that_fits() {
        assert_eq!(query("payments", "q=4242"), "last4=4242&limit=25 or externalId=4242&limit=25");
        assert_eq!(query("payments", "q=order+7&status=settled"), "status=settled&externalId=order+7&limit=25");
        assert_eq!(
            query("customers", "q=ada%40shop.example"),
            "email=ada%40shop.example&limit=25 or name=ada%40shop.example&limit=25 or externalId=ada%40shop.example&limit=25"
        );
        assert_eq!(query("customers", "q=Ada+L"), "name=Ada+L&limit=25 or externalId=Ada+L&limit=25");
        assert_eq!(query("disputes", "q=x"), "limit=25");
    }

    #[test]
    fn days_and_amounts_are_those_of_the_user() {
        let filtered = query("payments", "from=2026-01-30&to=2026-01-31&currency=jpy&amountFrom=5&amountTo=7");
        let expected = "createdFrom=2026-01-30T00%3A00%3A00.000Z&createdTo=2026-02-01T00%3A00%3A00.000Z&currency=jpy\
                        &amountFrom=5&amountTo=7&limit=25";
        assert_eq!(filtered, expected);
        assert_eq!(query("payments", "amountFrom=5.1&currency=USD"), "amountFrom=510&currency=USD&limit=25");
        assert_eq!(query("payments", "amountFrom=5"), "Enter the currency of the amount as well.");
        assert_eq!(query("payments", "amountFrom=5&currency=dollars"), "Amount: the currency is not known");
        assert_eq!(query("payments", "status=settled&status=refunded"), "status=settled&status=refunded&limit=25");
        assert_eq!(query("payments", "from=yesterday"), "Enter a date such as 2026-01-31.");
        assert_eq!(
            query("disputes", "from=2026-01-29T15:00:00.000Z&to=2026-01-30T15:00:00Z"),
            "createdFrom=2026-01-29T15%3A00%3A00.000Z&createdTo=2026-01-30T15%3A00%3A00.000Z&limit=25"
        );
        assert_eq!(query("plans", "from=2026-01-30&currency=USD"), "limit=25");
        assert_eq!(query("payments", "dueTo=2026-01-30"), "limit=25");
        assert_eq!(
            query("invoices", "dueFrom=2026-01-30&dueTo=2026-01-31"),
            "dueFrom=2026-01-30T00%3A00%3A00.000Z&dueTo=2026-02-01T00%3A00%3A00.000Z&limit=25"
        );
    }

    #[test]
    fn only_known_filters_reach_v1() {
        assert_eq!(query("refunds", "paymentId=pay_1&limit=9&x=y&status="), "paymentId=pay_1&limit=25");
        assert_eq!(query("refunds", "startingAfter=ref_1"), "limit=25&startingAfter=ref_1");
    }
}
