//! The reference of a follow-up distinguishes our requests from others, and retries from new requests.

use super::*;
use crate::{Entry, StatementLine};

fn euros(minor: i64) -> Money {
    Money { minor, currency: "EUR".parse().expect("a currency") }
}

async fn charged_id(fixture: &GatewayFixture, minor: i64) -> String {
    charged(execute(fixture, &fixture.sale("op_1", APPROVES, minor).await).await).0
}

fn refund(fixture: &GatewayFixture, reference: &str, charge: &str, minor: i64) -> Request {
    request(fixture, reference, Action::Refund { charge: charge.to_owned(), money: euros(minor) })
}

async fn look_up(fixture: &GatewayFixture, request: &Request) -> Found {
    fixture.adapter.look_up(request.clone()).await.expect("a result")
}

/// Sends a request as a merchant does by hand.
async fn at_gateway(fixture: &GatewayFixture, script: &str, fields: &[(&str, &str)]) -> String {
    let credentials =
        [("username", fixture.gateway_account.username.as_str()), ("api_key", &fixture.gateway_account.api_key)];
    let url = format!("{}/apis/{script}.php", fixture.proxy.url).parse().expect("an address");
    let form = testkit::form([&credentials[..], fields].concat());
    let response =
        TrustedClient::new(TIMEOUT).post_form(url, egress::HeaderMap::new(), form).await.expect("a response");
    let response: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    response["response"]["transaction_id"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
}

fn done(response: ProviderResponse) -> String {
    let ProviderResponse::Done { provider_ref } = response else { panic!("{response:?}") };
    provider_ref
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_is_looked_up_and_executed_once() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = charged_id(&fixture, 10_000).await;
    let request = refund(&fixture, "op_2", &charge, 3_000);
    assert_eq!(look_up(&fixture, &request).await, Found::Nothing);
    let first = execute(&fixture, &request).await;
    // A retry is detected regardless of its time.
    for valid_until in [request.valid_until, Clock::system().now().plus(Duration::from_secs(86_400))] {
        let again = fixture.adapter.execute(Request { valid_until, ..request.clone() }).await;
        assert!(matches!(&again, Err(ProviderError::Unknown(why)) if why.contains("used before")), "{again:?}");
    }
    assert_eq!(look_up(&fixture, &request).await, Found::Response(first.clone()));
    // The rules of the charge would refuse it now, but the reference is checked first.
    done(execute(&fixture, &refund(&fixture, "op_3", &charge, 7_000)).await);
    assert!(matches!(fixture.adapter.execute(request.clone()).await, Err(ProviderError::Unknown(_))));
    assert_eq!(look_up(&fixture, &request).await, Found::Response(first));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_with_another_reference_is_never_ours() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = charged_id(&fixture, 10_000).await;
    let theirs = execute(&fixture, &refund(&fixture, "op_2", &charge, 3_000)).await;
    let ours = refund(&fixture, "op_3", &charge, 3_000);
    assert_eq!(look_up(&fixture, &ours).await, Found::Nothing, "equal, but under another reference");
    let by_hand = [("transaction_id", charge.as_str()), ("amount", "30.00"), ("reference_id", "by hand")];
    at_gateway(&fixture, "refund", &by_hand).await;
    assert_eq!(look_up(&fixture, &ours).await, Found::Nothing);
    let id = done(execute(&fixture, &ours).await);
    assert_ne!(id, done(theirs));
    assert_eq!(look_up(&fixture, &ours).await, Found::Response(ProviderResponse::Done { provider_ref: id }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_a_reference_is_never_ours() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = charged_id(&fixture, 10_000).await;
    let request = refund(&fixture, "op_2", &charge, 3_000);
    let theirs = at_gateway(&fixture, "refund", &[("transaction_id", charge.as_str()), ("amount", "30.00")]).await;
    assert_eq!(look_up(&fixture, &request).await, Found::Nothing, "of the same amount");
    let id = done(execute(&fixture, &request).await);
    assert_ne!(id, theirs);
    assert_eq!(look_up(&fixture, &request).await, Found::Response(ProviderResponse::Done { provider_ref: id }));
    let unknown = refund(&fixture, "op_3", "unknown-transaction", 1);
    assert!(fixture.adapter.look_up(unknown).await.is_err(), "an unknown charge is an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_with_our_reference_and_another_amount_is_unknown() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = charged_id(&fixture, 10_000).await;
    done(execute(&fixture, &refund(&fixture, "op_2", &charge, 3_000)).await);
    for other in
        [refund(&fixture, "op_2", &charge, 2_000), request(&fixture, "op_2", Action::Void { charge: charge.clone() })]
    {
        let response = fixture.adapter.look_up(other).await;
        assert!(matches!(response, Err(ProviderError::Unknown(_))), "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_contains_follow_ups_with_their_charge() {
    let fixture = GatewayFixture::new(&[]).await;
    let since = Clock::system().now();
    let charge = charged_id(&fixture, 10_000).await;
    let ours = done(execute(&fixture, &refund(&fixture, "op_2", &charge, 3_000)).await);
    let theirs = at_gateway(&fixture, "refund", &[("transaction_id", &charge), ("amount", "30.00")]).await;
    let summary =
        |line: &StatementLine| (line.entry, line.reference.clone(), line.provider_ref.clone(), line.money.minor);
    let lines = fixture.adapter.statement(fixture.account, since, 10).await.expect("read").lines;
    let expected = [
        (Entry::Charge, "op_1".to_owned(), charge.clone(), 10_000),
        (Entry::Refund, "op_2".to_owned(), ours.clone(), 3_000),
        (Entry::Refund, String::new(), theirs.clone(), 3_000),
    ];
    assert_eq!(lines.iter().map(summary).collect::<Vec<_>>(), expected);
    for line in &lines[1..] {
        let follows = line.follows.as_ref().expect("a charge");
        assert_eq!((follows.provider_ref.as_str(), follows.reference.as_str()), (charge.as_str(), "op_1"));
    }
    for (name, ..) in [(&charge, ()), (&ours, ()), (&theirs, ())] {
        let booked =
            fixture.adapter.booked_line(fixture.account, name.clone()).await.expect("a result").expect("booked");
        assert_eq!(&booked.provider_ref, name);
    }
    for nothing in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "not a gateway id"] {
        assert!(fixture.adapter.booked_line(fixture.account, nothing.to_owned()).await.expect("a result").is_none());
    }
    assert!(
        fixture.adapter.booked_line(fixture.other_account(), ours).await.expect("a result").is_none(),
        "of another account"
    );
}
