//! The figures of the first page: sums of today and of 30 days, what there is at present, and charts with their tables.

use std::collections::BTreeMap;

use domain::accounts::Mode;
use domain::figures::{Figure, Kind, Standing, StandingKind};
use foundation::calendar::{Date, TimeZone};
use foundation::money::{Currency, Sum};
use foundation::time::Timestamp;
use maud::{Markup, html};

use crate::texts::{self, day, filled, labelled, marked, percent, text, words_of};

/// The height of a chart, and the widths of a day and of its bar.
const HEIGHT: i128 = 120;
const DAY: i64 = 20;
const BAR: i64 = 14;
/// Above the highest bar.
const TOP: i128 = 8;
/// The filters for captured, approved and decided payments. Those that were voided are approved as well, but their status does
/// not say so.
const CAPTURED: &str = "&status=pending_settlement&status=settled&status=partially_refunded&status=refunded";
const APPROVED: &str = "&status=authorized&status=partially_authorized&status=pending_settlement&status=settled\
                        &status=partially_refunded&status=refunded&status=expired";
const DECLINED: &str = "&status=declined";
/// The invoices that are due.
const DUE: &str = "invoices?status=open&status=scheduled";
/// The days of a chart.
const DAYS: i64 = 30;

/// Counts and sums of some days in one currency.
#[derive(Default)]
struct Sums {
    approved: i64,
    declined: i64,
    volume: i128,
    refunds: (i64, i128),
    disputes: (i64, i128),
    /// Declines by code.
    reasons: BTreeMap<String, i64>,
}

impl Sums {
    fn add(&mut self, figure: &Figure) {
        let amount = figure.amount.minor();
        match figure.kind {
            Kind::Approved => self.approved += figure.count,
            Kind::Declined => {
                self.declined += figure.count;
                *self.reasons.entry(figure.detail.clone()).or_default() += figure.count;
            }
            Kind::Captured => self.volume += amount,
            Kind::Voided => self.volume -= amount,
            Kind::Refunded => self.refunds = (self.refunds.0 + figure.count, self.refunds.1 + amount),
            Kind::Disputed => self.disputes = (self.disputes.0 + figure.count, self.disputes.1 + amount),
        }
    }

    /// In percent of the decided payments, to one decimal.
    fn approval_rate(&self) -> String {
        match self.approved + self.declined {
            0 => String::new(),
            decided => {
                let tenths = (self.approved * 1_000 + decided / 2) / decided;
                percent(tenths / 10, &(tenths % 10).to_string())
            }
        }
    }
}

fn by_currency<'a>(figures: impl Iterator<Item = &'a Figure>) -> BTreeMap<&'static str, (Currency, Sums)> {
    let mut sums = BTreeMap::new();
    for figure in figures {
        let (_, sum) = sums.entry(figure.currency.code()).or_insert_with(|| (figure.currency, Sums::default()));
        sum.add(figure);
    }
    sums
}

fn money(currency: Currency, minor: i128) -> String {
    texts::sum(Sum::new(minor), currency)
}

/// The filter of lists by the days of the account from the first one on, and up to the last one if it is given. Lists have days
/// in UTC; other days are given by their times.
fn days_filter(zone: &TimeZone, first: Date, last: Option<Date>) -> String {
    let shown =
        |day: Date, (own, utc): (Timestamp, Timestamp)| if own == utc { day.to_string() } else { own.to_string() };
    let from = shown(first, (zone.beginning_of(first), TimeZone::UTC.beginning_of(first)));
    let to = last.map(|last| shown(last, (zone.end_of(last), TimeZone::UTC.end_of(last))));
    format!("from={from}{}", to.map(|to| format!("&to={to}")).unwrap_or_default())
}

/// Sums of today and of all days. Each leads to its list; those of which the list has no filter by currency are of all
/// currencies.
pub(crate) fn sums(mode: Mode, (zone, today): (&TimeZone, Date), days: &[Figure]) -> Markup {
    let of_today: Vec<_> = days.iter().filter(|figure| figure.day == today).collect();
    let periods = [("Today", today, of_today), ("30 days", first_day(today), days.iter().collect())];
    html! {
        @for (title, first, figures) in &periods {
            section {
                h2 { (text(title)) }
                @if figures.is_empty() { p.empty { (text("Nothing yet.")) } } @else {
                    (period(mode, &days_filter(zone, *first, None), &by_currency(figures.iter().copied())))
                }
            }
        }
    }
}

fn period(mode: Mode, filter: &str, sums: &BTreeMap<&'static str, (Currency, Sums)>) -> Markup {
    let mode = mode.name();
    let (refunds, disputes) = (|sums: &Sums| sums.refunds, |sums: &Sums| sums.disputes);
    html! {
        @for (currency, sums) in sums.values() {
            @let payments = format!("/{mode}/payments?currency={}&{filter}", currency.code());
            div.figures {
                a href={ (payments) (CAPTURED) } { span { (text("Volume")) } strong { (money(*currency, sums.volume)) } }
                a href={ (payments) (APPROVED) } { span { (text("Approved payments")) } strong { (sums.approved) } }
                a href={ (payments) (APPROVED) (DECLINED) } { span { (text("Approval rate")) } strong { (sums.approval_rate()) } }
                a href={ (payments) (DECLINED) } { span { (text("Declined payments")) } strong { (sums.declined) } }
            }
            @if !sums.reasons.is_empty() {
                @let reasons = html! {
                    @for (nth, (reason, count)) in sums.reasons.iter().enumerate() {
                        @if nth > 0 { (text(", ")) }
                        a href={ (payments) (DECLINED) } { (words_of("declineCode", reason)) " " (count) }
                    }
                };
                p { (marked("{name}: {value}", &[("name", html! { (text("Declines by reason")) }), ("value", reasons)])) }
            }
        }
        div.figures {
            (all_currencies(&format!("/{mode}/refunds?status=succeeded&{filter}"), "Refunds", sums, refunds))
            (all_currencies(&format!("/{mode}/disputes?{filter}"), "Disputes", sums, disputes))
        }
    }
}

/// A count of all currencies with the sum of each.
fn all_currencies(
    list: &str,
    title: &'static str,
    sums: &BTreeMap<&'static str, (Currency, Sums)>,
    of: fn(&Sums) -> (i64, i128),
) -> Markup {
    html! {
        a href=(list) {
            span { (counted(title, sums.values().map(|(_, sums)| of(sums).0).sum())) }
            @for (currency, sums) in sums.values().filter(|(_, sums)| of(sums).0 > 0) { strong { (money(*currency, of(sums).1)) } " " }
        }
    }
}

/// What is counted, with its number.
fn counted(title: &'static str, count: i64) -> String {
    filled("{name} ({count})", &[("name", &text(title)), ("count", &count)])
}

/// What is counted, and the list that has exactly this.
fn described(kind: StandingKind, overdue: &str) -> (&'static str, &str) {
    match kind {
        StandingKind::InvoicesDue => ("Invoices due", DUE),
        StandingKind::InvoicesOverdue => ("Invoices overdue", overdue),
        StandingKind::Subscriptions => ("Active subscriptions", "subscriptions?status=active"),
        StandingKind::Disputes => ("Disputes that need a response", "disputes?status=needs_response"),
    }
}

/// What there is at present, with the sum of each currency. The lists have no filter by currency, so that each has all of them.
/// `today` is in UTC.
pub(crate) fn standing(mode: Mode, today: Date, standing: &[Standing], failing_endpoints: usize) -> Markup {
    let mode = mode.name();
    let overdue = format!("{DUE}&dueTo={}", today.plus_days(-1).unwrap_or(today));
    html! {
        section {
            h2 { (text("At present")) }
            div.figures {
                @for kind in StandingKind::ALL {
                    @let (title, list) = described(kind, &overdue);
                    @let figures: Vec<_> = standing.iter().filter(|figure| figure.kind == kind).collect();
                    a href={ "/" (mode) "/" (list) } {
                        span { (counted(title, figures.iter().map(|figure| figure.count).sum())) }
                        @if kind == StandingKind::Subscriptions { span { (text("Monthly recurring revenue (MRR)")) } }
                        @for figure in &figures { strong { (texts::sum(figure.amount, figure.currency)) } " " }
                    }
                }
                a href={ "/" (mode) "/webhooks" } {
                    span { (counted("Failing endpoints", i64::try_from(failing_endpoints).unwrap_or(i64::MAX))) }
                }
            }
        }
    }
}

/// The volume of each day as bars, and as a table, whose days lead to their payments.
pub(crate) fn by_day(mode: Mode, (zone, today): (&TimeZone, Date), days: &[Figure]) -> Markup {
    let mut currencies: BTreeMap<&str, (Currency, BTreeMap<Date, Sums>)> = BTreeMap::new();
    for figure in days {
        let (_, days) = currencies.entry(figure.currency.code()).or_insert_with(|| (figure.currency, BTreeMap::new()));
        days.entry(figure.day).or_default().add(figure);
    }
    html! {
        @for (code, (currency, days)) in &currencies {
            section {
                h2 { (filled("Volume by day, {currency}", &[("currency", code)])) }
                (bars(today, *currency, days))
                p.hint { (day(&first_day(today).to_string())) " – " (day(&today.to_string())) }
                details {
                    summary { (text("Table")) }
                    table {
                        thead { tr { @for heading in ["Day", "Volume", "Approved", "Declined", "Refunds"] { th scope="col" { (text(heading)) } } } }
                        tbody {
                            @for (date, sums) in days.iter().rev() {
                                tr {
                                    td {
                                        a href={ "/" (mode.name()) "/payments?currency=" (code) "&" (days_filter(zone, *date, Some(*date))) } {
                                            (day(&date.to_string()))
                                        }
                                    }
                                    td { (money(*currency, sums.volume)) }
                                    td { (sums.approved) }
                                    td { (sums.declined) }
                                    td { (money(*currency, sums.refunds.1)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The first day of a chart that ends today.
fn first_day(today: Date) -> Date {
    today.plus_days(1 - DAYS).unwrap_or(today)
}

fn bars(today: Date, currency: Currency, days: &BTreeMap<Date, Sums>) -> Markup {
    let highest = days.values().map(|sums| sums.volume).max().unwrap_or(0).max(1);
    html! {
        svg.chart viewBox={ "0 0 " (DAYS * DAY) " " (HEIGHT) } role="img" aria-label=(text("Volume by day")) {
            @for (date, sums) in days {
                @let ago = date.days_until(today);
                @let height = sums.volume.max(0) * (HEIGHT - TOP) / highest;
                rect x=((DAYS - 1 - ago) * DAY) y=(HEIGHT - height) width=(BAR) height=(height) {
                    title { (labelled(&day(&date.to_string()), money(currency, sums.volume))) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_decided_payments() {
        for (approved, declined, rate) in [(0, 0, ""), (1, 0, "100.0%"), (2, 1, "66.7%"), (0, 3, "0.0%")] {
            assert_eq!(Sums { approved, declined, ..Sums::default() }.approval_rate(), rate);
        }
    }

    #[test]
    fn a_figure_leads_to_exactly_what_it_counts() {
        let row = |kind, currency: &str, count| Standing {
            kind,
            currency: currency.parse().expect("a currency"),
            count,
            amount: Sum::new(500),
        };
        let rows = [
            row(StandingKind::InvoicesDue, "USD", 2),
            row(StandingKind::InvoicesDue, "EUR", 1),
            row(StandingKind::InvoicesOverdue, "USD", 1),
            row(StandingKind::Subscriptions, "USD", 3),
        ];
        let today = "2026-03-01".parse().expect("a date");
        let shown = standing(Mode::Test, today, &rows, 2).into_string();
        for part in [
            "<a href=\"/test/invoices?status=open&amp;status=scheduled\"><span>Invoices due (3)</span>",
            "<a href=\"/test/invoices?status=open&amp;status=scheduled&amp;dueTo=2026-02-28\"><span>Invoices overdue (1)</span>",
            "<a href=\"/test/subscriptions?status=active\"><span>Active subscriptions (3)</span>\
             <span>Monthly recurring revenue (MRR)</span><strong>USD 5.00</strong>",
            "<a href=\"/test/disputes?status=needs_response\"><span>Disputes that need a response (0)</span>",
            "<a href=\"/test/webhooks\"><span>Failing endpoints (2)</span>",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn figures_of_days_lead_to_what_was_created_in_them() {
        let today = "2026-03-01".parse().expect("a date");
        let figure = |kind, currency: &str, detail: &str, minor| Figure {
            day: today,
            kind,
            currency: currency.parse().expect("a currency"),
            detail: detail.to_owned(),
            count: 1,
            amount: Sum::new(minor),
        };
        let figures = [
            figure(Kind::Approved, "USD", "", 900),
            figure(Kind::Captured, "USD", "", 900),
            figure(Kind::Declined, "USD", "lost_card", 100),
            figure(Kind::Refunded, "USD", "", 200),
            figure(Kind::Refunded, "EUR", "", 300),
        ];
        for (zone, from, to) in [
            ("UTC", "from=2026-03-01", "to=2026-03-01"),
            ("Asia/Tokyo", "from=2026-02-28T15:00:00.000Z", "to=2026-03-01T15:00:00.000Z"),
        ] {
            let zone = zone.parse().expect("a time zone");
            let shown = sums(Mode::Test, (&zone, today), &figures).into_string();
            let payments = format!("<a href=\"/test/payments?currency=USD&amp;{from}");
            let (captured, approved) = (CAPTURED.replace('&', "&amp;"), APPROVED.replace('&', "&amp;"));
            for part in [
                format!("{payments}{captured}\"><span>Volume</span><strong>USD 9.00</strong>"),
                format!("{payments}{approved}\"><span>Approved payments</span><strong>1</strong>"),
                format!("{payments}{approved}&amp;status=declined\"><span>Approval rate</span><strong>50.0%</strong>"),
                format!("{payments}&amp;status=declined\"><span>Declined payments</span><strong>1</strong>"),
                format!("Declines by reason: {payments}&amp;status=declined\">Lost card 1</a>"),
                format!(
                    "<a href=\"/test/refunds?status=succeeded&amp;{from}\"><span>Refunds (2)</span>\
                     <strong>EUR 3.00</strong> <strong>USD 2.00</strong>"
                ),
                format!("<a href=\"/test/disputes?{from}\"><span>Disputes (0)</span>"),
            ] {
                assert!(shown.contains(&part), "{part} in {shown}");
            }
            let table = by_day(Mode::Test, (&zone, today), &figures).into_string();
            let day = format!("{payments}&amp;{to}\">2026-03-01</a>");
            assert!(table.contains(&day), "{day} in {table}");
        }
    }
}
