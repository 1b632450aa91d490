//! Disputes, and the statement.

use super::*;
use crate::StatementLine;

/// The whole statement, in parts of this limit.
async fn read(fixture: &StripeFixture, limit: i64) -> Vec<StatementLine> {
    let (mut lines, mut since) = (Vec::new(), noon());
    loop {
        let part = fixture.adapter.statement(fixture.account, since, limit).await.expect("a statement");
        assert!(part.lines.is_sorted_by_key(|line| line.occurred_at));
        lines.extend(part.lines);
        let Some(until) = part.until else { return lines };
        assert!(until > since, "no progress beyond {until}");
        since = until;
    }
}

fn names(lines: &[StatementLine]) -> Vec<(Entry, String)> {
    lines.iter().map(|line| (line.entry, line.provider_ref.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn disputes_are_reported_until_they_are_decided() {
    let fixture = StripeFixture::new().await;
    let (charge, ..) = charged(fixture.execute(&fixture.sale("op_1", CardBehavior::Approve)).await);
    assert_eq!(fixture.report(&charge, Duration::ZERO).await.disputes, []);
    let dispute = fixture.stripe.dispute(&fixture.keys, &charge, "product_not_received");
    let [reported] = &fixture.report(&charge, Duration::ZERO).await.disputes[..] else { panic!("one dispute") };
    assert_eq!((&reported.provider_ref, reported.amount), (&dispute, 1_250));
    assert_eq!((reported.status, reported.reason), (DisputeStatus::NeedsResponse, DisputeReason::ProductNotReceived));
    assert!(reported.respond_by.is_some_and(|by| by > noon()) && reported.reinstatement_ref.is_none());
    fixture.stripe.decide(&fixture.keys, &dispute, true);
    let [reported] = &fixture.report(&charge, Duration::ZERO).await.disputes[..] else { panic!("one dispute") };
    assert_eq!(reported.status, DisputeStatus::Won);
    let lines = read(&fixture, 100).await;
    let entries: Vec<_> = lines.iter().map(|line| (line.entry, line.money.minor, &*line.provider_ref)).collect();
    let reinstated = reported.reinstatement_ref.as_deref().expect("a reference");
    assert_eq!(
        entries,
        [
            (Entry::Charge, 1_250, &*charge),
            (Entry::DisputeWithdrawn, 1_250, &*dispute),
            (Entry::DisputeReinstated, 1_250, reinstated)
        ]
    );
    for line in &lines {
        let found = fixture.adapter.booked_line(fixture.account, line.provider_ref.clone()).await.expect("a response");
        let found = found.map(|line| (line.entry, line.money, line.provider_ref));
        assert_eq!(found, Some((line.entry, line.money, line.provider_ref.clone())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_has_every_movement_once_and_in_order() {
    let fixture = StripeFixture::new().await;
    let mut expected = Vec::new();
    for n in 0..130 {
        let reference = format!("op_{n}");
        let (charge, ..) = charged(fixture.execute(&fixture.sale(&reference, CardBehavior::Approve)).await);
        expected.push((Entry::Charge, charge.clone()));
        if n % 40 == 0 {
            let refund = Action::Refund { charge: charge.clone(), money: dollars(1) };
            let response = fixture.execute(&request(&fixture, &format!("{reference}_r"), refund)).await;
            let ProviderResponse::Done { provider_ref } = response else { panic!("{response:?}") };
            expected.push((Entry::Refund, provider_ref));
        }
        // Some in the same second, then hours without any.
        fixture.stripe.advance(Duration::from_secs([0, 1, 0, 30, 20_000][n % 5]));
    }
    for limit in [20, 1000] {
        assert_eq!(names(&read(&fixture, limit).await), expected, "{limit}");
    }
    for (entry, provider_ref) in expected.into_iter().step_by(10) {
        let line = fixture.adapter.booked_line(fixture.account, provider_ref.clone()).await.expect("a response");
        assert_eq!(line.map(|line| (line.entry, line.provider_ref)), Some((entry, provider_ref)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_movements_in_one_second_are_all_read() {
    let fixture = StripeFixture::new().await;
    for n in 0..150 {
        charged(fixture.execute(&fixture.sale(&format!("op_{n}"), CardBehavior::Approve)).await);
    }
    fixture.stripe.advance(Duration::from_secs(3600));
    charged(fixture.execute(&fixture.sale("op_last", CardBehavior::Approve)).await);
    assert_eq!(read(&fixture, 1000).await.len(), 151);
}

/// The authorization and the capture appear when the money moves, so that no reading has passed them.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_capture_is_in_the_statement_of_its_own_time() {
    let fixture = StripeFixture::new().await;
    let source = fixture.card(CardBehavior::Approve);
    let authorize = request(&fixture, "op_1", Action::Charge { source, money: dollars(1_250), capture: false });
    let (charge, ..) = charged(fixture.execute(&authorize).await);
    assert_eq!(names(&read(&fixture, 100).await), []);
    let later = Duration::from_secs(6 * 24 * 3600);
    fixture.stripe.advance(later);
    let capture = Action::Capture { charge: charge.clone(), money: dollars(1_000) };
    fixture.execute(&request(&fixture, "op_2", capture)).await;
    let lines = read(&fixture, 100).await;
    assert_eq!(names(&lines), [(Entry::Charge, charge.clone()), (Entry::Capture, format!("{charge}:capture"))]);
    assert!(lines.iter().all(|line| line.occurred_at == noon().plus(later)), "{lines:?}");
}

/// The payer did not get the money.
#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_fails_later_is_a_line_of_its_own() {
    let fixture = StripeFixture::new().await;
    let (charge, ..) = charged(fixture.execute(&fixture.sale("op_1", CardBehavior::Approve)).await);
    let refund = Action::Refund { charge: charge.clone(), money: dollars(300) };
    let response = fixture.execute(&request(&fixture, "op_2", refund)).await;
    let ProviderResponse::Done { provider_ref } = response else { panic!("{response:?}") };
    fixture.stripe.advance(Duration::from_secs(3600));
    fixture.stripe.fail_refund(&fixture.keys, &provider_ref);
    let lines = read(&fixture, 100).await;
    let last = lines.last().expect("lines");
    assert_eq!((last.entry, last.money.minor), (Entry::Credit, 300));
    assert_eq!(last.follows.as_ref().map(|parent| &parent.provider_ref), Some(&charge));
    assert!(!lines.iter().any(|line| line.entry == Entry::Refund), "{lines:?}");
}
