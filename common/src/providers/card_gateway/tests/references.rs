//! The reference of what follows a charge: it tells ours from others', and a request from its repetition.

use super::*;
use crate::providers::{Entry, StatementLine};

fn euros(minor: i64) -> Money {
    Money { minor, currency: "EUR".parse().expect("a currency") }
}

async fn sold(fixture: &GatewayFixture, minor: i64) -> String {
    charged(execute(fixture, &fixture.sale("op_1", APPROVES, minor).await).await).0
}

fn refund(fixture: &GatewayFixture, reference: &str, charge: &str, minor: i64) -> Request {
    request(fixture, reference, Action::Refund { charge: charge.to_owned(), money: euros(minor) })
}

async fn found(fixture: &GatewayFixture, request: &Request) -> Found {
    fixture.adapter.look_up(request.clone()).await.expect("known")
}

/// What a former release of the adapter, or a person, asks of the gateway.
async fn at_gateway(fixture: &GatewayFixture, script: &str, fields: &[(&str, &str)]) -> String {
    let known = [("username", fixture.known.username.as_str()), ("api_key", &fixture.known.api_key)];
    let to = format!("{}/apis/{script}.php", fixture.wire.url).parse().expect("an address");
    let form = testkit::form([&known[..], fields].concat());
    let said = Trusted::new(Duration::from_secs(5)).post_form(to, form).await.expect("an answer");
    let said: serde_json::Value = serde_json::from_slice(&said.body).expect("JSON");
    said["response"]["transaction_id"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn done(answer: Answer) -> String {
    let Answer::Done { provider_ref } = answer else { panic!("{answer:?}") };
    provider_ref
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_again_is_looked_up_and_made_once() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = sold(&fixture, 10_000).await;
    let asked = refund(&fixture, "op_2", &charge, 3_000);
    assert_eq!(found(&fixture, &asked).await, Found::Nothing);
    let first = execute(&fixture, &asked).await;
    // As though it had just been sent, however late it is: no clock has a part in it.
    for valid_until in [asked.valid_until, Clock::system().now().plus(Duration::from_secs(86_400))] {
        let again = fixture.adapter.execute(Request { valid_until, ..asked.clone() }).await;
        assert!(matches!(&again, Err(Fault::Unknown(why)) if why.contains("used before")), "{again:?}");
    }
    assert_eq!(found(&fixture, &asked).await, Found::Answer(first.clone()));
    // The rules of the charge would refuse it by now, and are not asked.
    done(execute(&fixture, &refund(&fixture, "op_3", &charge, 7_000)).await);
    assert!(matches!(fixture.adapter.execute(asked.clone()).await, Err(Fault::Unknown(_))));
    assert_eq!(found(&fixture, &asked).await, Found::Answer(first));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_with_anothers_reference_is_never_ours() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = sold(&fixture, 10_000).await;
    let theirs = execute(&fixture, &refund(&fixture, "op_2", &charge, 3_000)).await;
    let ours = refund(&fixture, "op_3", &charge, 3_000);
    assert_eq!(found(&fixture, &ours).await, Found::Nothing, "equal, and not recorded");
    let by_hand = [("transaction_id", charge.as_str()), ("amount", "30.00"), ("reference_id", "by hand")];
    at_gateway(&fixture, "refund", &by_hand).await;
    assert_eq!(found(&fixture, &ours).await, Found::Nothing);
    let name = done(execute(&fixture, &ours).await);
    assert_ne!(name, done(theirs));
    assert_eq!(found(&fixture, &ours).await, Found::Answer(Answer::Done { provider_ref: name }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_a_reference_is_ours_by_the_rule_of_the_former_release() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = sold(&fixture, 10_000).await;
    let of = |amount| [("transaction_id", charge.as_str()), ("amount", amount)];
    let former = at_gateway(&fixture, "refund", &of("30.00")).await;
    let asked = refund(&fixture, "op_2", &charge, 3_000);
    assert_eq!(found(&fixture, &asked).await, Found::Answer(Answer::Done { provider_ref: former.clone() }));
    assert_eq!(found(&fixture, &refund(&fixture, "op_2", &charge, 2_000)).await, Found::Nothing, "another amount");
    let recorded = Request { recorded: vec![former], ..asked.clone() };
    assert_eq!(found(&fixture, &recorded).await, Found::Nothing, "our books have it");
    // Ours comes before any other that might be.
    let name = done(execute(&fixture, &asked).await);
    assert_eq!(found(&fixture, &asked).await, Found::Answer(Answer::Done { provider_ref: name }));
    let nobody = refund(&fixture, "op_3", "txn-of-nobody", 1);
    assert!(fixture.adapter.look_up(nobody).await.is_err(), "of what is not there nothing is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_with_our_reference_and_another_amount_ends_nothing() {
    let fixture = GatewayFixture::new(&[]).await;
    let charge = sold(&fixture, 10_000).await;
    done(execute(&fixture, &refund(&fixture, "op_2", &charge, 3_000)).await);
    for other in
        [refund(&fixture, "op_2", &charge, 2_000), request(&fixture, "op_2", Action::Void { charge: charge.clone() })]
    {
        let said = fixture.adapter.look_up(other).await;
        assert!(matches!(said, Err(Fault::Unknown(_))), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_statement_shows_what_followed_a_charge_and_whose_it_is() {
    let fixture = GatewayFixture::new(&[]).await;
    let since = Clock::system().now();
    let charge = sold(&fixture, 10_000).await;
    let ours = done(execute(&fixture, &refund(&fixture, "op_2", &charge, 3_000)).await);
    let theirs = at_gateway(&fixture, "refund", &[("transaction_id", &charge), ("amount", "30.00")]).await;
    let shown =
        |line: &StatementLine| (line.entry, line.reference.clone(), line.provider_ref.clone(), line.money.minor);
    let lines = fixture.adapter.statement(fixture.account, since, 10).await.expect("read");
    let expected = [
        (Entry::Charge, "op_1".to_owned(), charge.clone(), 10_000),
        (Entry::Refund, "op_2".to_owned(), ours.clone(), 3_000),
        (Entry::Refund, String::new(), theirs.clone(), 3_000),
    ];
    assert_eq!(lines.iter().map(shown).collect::<Vec<_>>(), expected);
    for line in &lines[1..] {
        let follows = line.follows.as_ref().expect("a charge");
        assert_eq!((follows.provider_ref.as_str(), follows.reference.as_str()), (charge.as_str(), "op_1"));
    }
    for (name, ..) in [(&charge, ()), (&ours, ()), (&theirs, ())] {
        let booked = fixture.adapter.booked_line(fixture.account, name.clone()).await.expect("known").expect("booked");
        assert_eq!(&booked.provider_ref, name);
    }
    for nothing in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "no name of the gateway's"] {
        assert!(fixture.adapter.booked_line(fixture.account, nothing.to_owned()).await.expect("known").is_none());
    }
    assert!(fixture.adapter.booked_line(fixture.other_account(), ours).await.expect("known").is_none(), "another's");
}
