//! The figures of the first page: sums of today and of 30 days, what is open at present, and charts with their tables.

use std::collections::BTreeMap;

use domain::accounts::Mode;
use domain::figures::{Figure, Kind, Standing, StandingKind};
use foundation::calendar::Date;
use foundation::money::{Currency, Sum};
use maud::{Markup, html};

use crate::texts::{self, day, filled, labelled, listed, percent, text, words_of};

/// The height of a chart, and the widths of a day and of its bar.
const HEIGHT: i128 = 120;
const DAY: i64 = 20;
const BAR: i64 = 14;
/// Above the highest bar.
const TOP: i128 = 8;
/// The filter for approved payments. Those that were voided are approved as well, but their status does not say so.
const APPROVED: &str = "&status=authorized&status=partially_authorized&status=pending_settlement&status=settled\
                        &status=partially_refunded&status=refunded";
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

    fn by_reason(&self) -> Vec<String> {
        self.reasons.iter().map(|(reason, count)| format!("{} {count}", words_of("declineCode", reason))).collect()
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

/// Sums of today and of all days, by currency. Each leads to its list.
pub(crate) fn sums(mode: Mode, today: Date, days: &[Figure]) -> Markup {
    let mode = mode.name();
    let periods = [
        ("Today", today, by_currency(days.iter().filter(|figure| figure.day == today))),
        ("30 days", first_day(today), by_currency(days.iter())),
    ];
    html! {
        @for (title, from, sums) in &periods {
            section {
                h2 { (text(title)) }
                @if sums.is_empty() { p.empty { (text("Nothing yet.")) } }
                @for (currency, sums) in sums.values() {
                    @let payments = format!("/{mode}/payments?currency={}&from={from}", currency.code());
                    div.figures {
                        a href=(payments) { span { (text("Volume")) } strong { (money(*currency, sums.volume)) } }
                        a href={ (payments) (APPROVED) } { span { (text("Approved payments")) } strong { (sums.approved) } }
                        a href={ (payments) "&status=declined" } { span { (text("Approval rate")) } strong { (sums.approval_rate()) } }
                        a href={ "/" (mode) "/refunds?from=" (from) } { span { (counted("Refunds", sums.refunds.0)) } strong { (money(*currency, sums.refunds.1)) } }
                        a href={ "/" (mode) "/disputes" } { span { (counted("Disputes", sums.disputes.0)) } strong { (money(*currency, sums.disputes.1)) } }
                    }
                    @if !sums.reasons.is_empty() {
                        p { (labelled(text("Declines"), listed(&sums.by_reason()))) }
                    }
                }
            }
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
        StandingKind::Subscriptions => ("Active subscriptions, per month", "subscriptions?status=active"),
        StandingKind::Disputes => ("Disputes that need a response", "disputes?status=needs_response"),
        StandingKind::FailingEndpoints => ("Failing endpoints", "webhooks"),
    }
}

/// What is open at present, with the sum of each currency. The lists have no filter by currency, so that each has all of them.
/// `today` is in UTC.
pub(crate) fn standing(mode: Mode, today: Date, standing: &[Standing]) -> Markup {
    let mode = mode.name();
    let overdue = format!("{DUE}&dueTo={}", today.plus_days(-1).unwrap_or(today));
    html! {
        section {
            h2 { (text("At present")) }
            @if standing.is_empty() { p.empty { (text("Nothing is open.")) } }
            div.figures {
                @for rows in standing.chunk_by(|one, next| one.kind == next.kind) {
                    @let (title, list) = described(rows[0].kind, &overdue);
                    a href={ "/" (mode) "/" (list) } {
                        span { (counted(title, rows.iter().map(|row| row.count).sum())) }
                        @for row in rows {
                            @if let Some(currency) = row.currency { strong { (texts::sum(row.amount, currency)) } " " }
                        }
                    }
                }
            }
        }
    }
}

/// The volume of each day as bars, and as a table.
pub(crate) fn by_day(today: Date, days: &[Figure]) -> Markup {
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
                                    td { (day(&date.to_string())) }
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
            currency: currency.parse().ok(),
            count,
            amount: Sum::new(500),
        };
        let rows = [
            row(StandingKind::InvoicesDue, "USD", 2),
            row(StandingKind::InvoicesDue, "EUR", 1),
            row(StandingKind::InvoicesOverdue, "USD", 1),
        ];
        let today = "2026-03-01".parse().expect("a date");
        let shown = standing(Mode::Test, today, &rows).into_string();
        for part in [
            "<a href=\"/test/invoices?status=open&amp;status=scheduled\"><span>Invoices due (3)</span>",
            "<a href=\"/test/invoices?status=open&amp;status=scheduled&amp;dueTo=2026-02-28\"><span>Invoices overdue (1)</span>",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
}
